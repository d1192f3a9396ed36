"""`tocsin browse` against a real server."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_browsing_takes_nothing(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b", "c")
    for _ in range(2):
        assert shell.ok("browse", queue) == b"a\nb\nc\n"
    assert shell.ok("browse", queue, "--count", "2") == b"a\nb\n"
    assert [message["body"] for message in shell.json_lines("browse", queue)] == ["a", "b", "c"]
    assert shell.ok("receive", queue, "-n", "3") == b"a\nb\nc\n"


def test_a_selector_chooses(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "EU", "--property", "region=EU")
    shell.ok("send", queue, "US", "--property", "region=US")
    assert shell.ok("browse", queue, "--selector", "region = 'US'") == b"US\n"


def test_an_empty_queue_ends_with_3(shell: Shell, queue: str) -> None:
    shell.ok("destinations", "create", queue)
    done = shell.run("browse", queue)
    assert (done.returncode, done.stdout) == (3, b"")


def test_a_mistyped_name_is_said_and_not_created(shell: Shell, queue: str) -> None:
    for _ in range(2):
        assert shell.fails(1, "browse", queue) == f"tocsin: There is no queue '{queue}'.\n"
