"""Output of children is kept; one's own is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tocsin.cli.pipelines.quiet import LINES_KEPT, KeptLines, children_kept_quiet


def say(*lines: str) -> None:
    script = "import sys; sys.stderr.write(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, "".join(f"{line}\n" for line in lines)], check=True)


def come(kept: KeptLines, text: str) -> bool:
    end = time.monotonic() + 10
    while not kept.text.endswith(text) and time.monotonic() < end:
        time.sleep(0.005)
    return kept.text.endswith(text)


def test_what_children_say_is_kept_and_what_comes_later_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with children_kept_quiet() as kept:
        say("one", "two")
        child = subprocess.Popen(["sh", "-c", "read line; echo $line >&2"], stdin=subprocess.PIPE)
    os.write(2, b"shown\n")
    # A child stays quiet when the block is over.
    child.communicate(b"three\n")
    assert come(kept, "three")
    assert kept.text == "one\ntwo\nthree"
    assert capfd.readouterr().err == "shown\n"


def test_only_the_last_lines_are_kept() -> None:
    with children_kept_quiet() as kept:
        say(*(str(number) for number in range(LINES_KEPT + 10)))
    assert come(kept, str(LINES_KEPT + 9))
    assert kept.text.splitlines()[0] == "10"
