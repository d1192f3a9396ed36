"""`tocsin receive` against a real server: lines, limits, exit codes and pipes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Awaitable
from unittest.mock import patch

from tests.cli.shell import Shell

from tocsin.client.delivered import ReceivedMessage


def test_everything_there_is_taken_until_silence(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b")
    assert shell.ok("receive", queue, "--timeout", "300ms") == b"a\nb\n"
    done = shell.run("receive", queue, "--timeout", "100ms")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


def test_count_leaves_the_rest(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b", "c")
    assert shell.ok("receive", queue, "-n", "1") == b"a\n"
    assert shell.ok("receive", queue, "-n", "2") == b"b\nc\n"


def test_less_than_the_count_is_a_timeout(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a")
    done = shell.run("receive", queue, "-n", "2", "--timeout", "200ms")
    assert (done.returncode, done.stdout) == (3, b"a\n")
    # What was shown was taken.
    assert shell.run("receive", queue, "--timeout", "100ms").returncode == 3


def test_without_acknowledgement_messages_stay(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b")
    assert shell.ok("receive", queue, "--no-ack", "-n", "2") == b"a\nb\n"
    assert shell.ok("receive", queue, "-n", "2") == b"a\nb\n"


def test_a_selector_chooses(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "small", "--property", "amount:int=1")
    shell.ok("send", queue, "large", "--property", "amount:int=9")
    assert shell.ok("receive", queue, "--selector", "amount > 5", "-n", "1") == b"large\n"
    assert shell.ok("receive", queue, "-n", "1") == b"small\n"


def test_a_bad_selector_is_a_sentence(shell: Shell, queue: str) -> None:
    said = shell.fails(1, "receive", queue, "--selector", "amount >")
    assert said.startswith("tocsin: ")


def test_follow_shows_each_message_as_it_comes_and_ends_with_130(shell: Shell, queue: str) -> None:
    command = shell.command("receive", queue, "--follow")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.environment) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        for body in (b"one", b"two"):
            shell.ok("send", queue, body.decode())
            assert following.stdout.readline() == body + b"\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130
        assert b"Traceback" not in following.stderr.read()
    # Both were acknowledged when they were shown.
    assert shell.run("receive", queue, "--timeout", "100ms").returncode == 3


def test_what_is_shown_is_acknowledged_however_soon_the_interrupt_comes(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "seen", "not yet")
    acknowledge = ReceivedMessage.acknowledge

    def interrupted(message: ReceivedMessage) -> Awaitable[None]:
        signal.raise_signal(signal.SIGINT)
        return acknowledge(message)

    with patch.object(ReceivedMessage, "acknowledge", interrupted):
        done = shell.run("receive", queue, "-n", "1", "--timeout", "10s")
    assert (done.returncode, done.stdout) == (130, b"seen\n")
    assert shell.ok("receive", queue, "-n", "1") == b"not yet\n"


def test_a_reader_that_goes_ends_it_quietly_and_loses_nothing(shell: Shell, queue: str) -> None:
    lines = b"".join(b"%0100d\n" % number for number in range(5000))
    shell.ok("send", queue, feed=lines)
    with subprocess.Popen(
        shell.command("receive", queue), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.environment
    ) as receiving:
        assert receiving.stdout is not None
        assert receiving.stderr is not None
        first = receiving.stdout.readline()
        receiving.stdout.close()
        assert receiving.wait(20) == 0
        assert receiving.stderr.read() == b""
    rest = shell.ok("receive", queue, "--timeout", "1s").splitlines(keepends=True)
    assert first == lines[:101]
    # A contiguous end is left: whatever the pipe took is gone, in order, and nothing behind it.
    assert lines.endswith(b"".join(rest))
    assert len(rest) > 1000


def test_a_durable_subscription_keeps_what_comes_while_nobody_listens(shell: Shell, topic: str) -> None:
    listen = ("receive", topic, "--subscription", "audit", "--durable", "--client-id", "cli-test")
    assert shell.run(*listen, "--timeout", "50ms").returncode == 3
    shell.ok("send", topic, "kept")
    assert shell.ok(*listen, "-n", "1") == b"kept\n"


def test_a_retained_topic_can_be_read_from_anywhere(shell: Shell, topic: str) -> None:
    shell.ok("destinations", "create", topic, "--retained")
    shell.ok("send", topic, "a", "b", "c")
    for _ in range(2):
        assert shell.ok("receive", topic, "--from", "earliest", "-n", "3") == b"a\nb\nc\n"
    assert shell.ok("receive", topic, "--from", "2", "-n", "1") == b"c\n"
    assert shell.ok("receive", topic, "--from", "1h", "-n", "1") == b"a\n"
    assert shell.run("receive", topic, "--from", "latest", "--timeout", "100ms").returncode == 3
    offsets = [message["offset"] for message in shell.json_lines("receive", topic, "--from", "1", "-n", "2")]
    assert offsets == [1, 2]


def test_a_replay_of_a_mistyped_name_is_said_and_not_created(shell: Shell, topic: str) -> None:
    name = topic.removeprefix("topic:")
    for _ in range(2):
        said = shell.fails(1, "receive", topic, "--from", "earliest")
        assert said == f"tocsin: There is no topic '{name}'.\n"


def test_a_topic_that_is_not_retained_says_so(shell: Shell, topic: str) -> None:
    shell.ok("destinations", "create", topic)
    assert "not retained" in shell.fails(1, "receive", topic, "--from", "earliest")
