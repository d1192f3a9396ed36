"""`tocsin send` against a real server."""

from __future__ import annotations

import time
from base64 import b64decode
from pathlib import Path

from tests.cli.shell import Shell


def test_each_argument_is_a_message(shell: Shell, queue: str) -> None:
    assert shell.ok("send", queue, "two dozen", "more") == b""
    assert shell.ok("receive", queue, "--count", "2") == b"two dozen\nmore\n"


def test_each_line_of_the_input_is_a_message(shell: Shell, queue: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(5000))
    assert shell.json("send", queue, feed=lines) == {"destination": f"queue:{queue}", "sent": 5000}
    assert shell.ok("receive", queue, "--count", "5000") == lines


def test_lines_keep_all_but_their_line_feed(shell: Shell, queue: str) -> None:
    feed = "ü\r\n\n last without end".encode()
    assert shell.json("send", queue, feed=feed)["sent"] == 3
    assert shell.ok("receive", queue, "--count", "3") == feed + b"\n"


def test_no_line_is_no_message(shell: Shell, queue: str) -> None:
    assert shell.json("send", queue, feed=b"")["sent"] == 0


def test_headers_and_properties_arrive(shell: Shell, queue: str) -> None:
    shell.ok(
        "send", queue, "x", "--property", "region=EU", "--property", "amount:int=5", "--priority", "7",
        "--ttl", "1h", "--key", "k", "--group", "g", "--type", "order", "--correlation-id", "c-1",
        "--reply-to", "topic:answers",
    )  # fmt: skip
    before = time.time() * 1000
    (message,) = shell.json_lines("receive", queue, "--count", "1")
    assert message["body"] == "x"
    assert message["properties"]["region"] == "EU"
    assert message["properties"]["amount"] == 5
    assert (message["priority"], message["key"], message["group_id"]) == (7, "k", "g")
    assert (message["type"], message["correlation_id"]) == ("order", "c-1")
    assert message["reply_to"] == "topic:answers"
    assert 0 < message["expiration"] - before <= 3_600_000
    assert message["id"].startswith("ID:")
    assert message["destination"] == f"queue:{queue}"


def test_bodies_can_be_bytes(shell: Shell, queue: str, body_file: Path) -> None:
    shell.ok("send", queue, "--file", str(body_file))
    shell.ok("send", queue, "--bytes", feed=b"\xff\n")
    from_file, from_line = shell.json_lines("receive", queue, "--count", "2")
    assert b64decode(from_file["body_base64"]) == body_file.read_bytes()
    assert b64decode(from_line["body_base64"]) == b"\xff"
    assert from_file["body"] is None


def test_a_line_that_is_no_text_is_named(shell: Shell, queue: str) -> None:
    said = shell.fails(1, "send", queue, feed=b"good\n\xff\n")
    assert said.startswith("tocsin: Line 2 of the input is not UTF-8 text; --bytes")


def test_a_delayed_message_waits(shell: Shell, queue: str) -> None:
    sent = time.monotonic()
    shell.ok("send", queue, "later", "--delay", "700ms")
    (message,) = shell.json_lines("receive", queue, "--count", "1", "--timeout", "20s")
    assert time.monotonic() - sent >= 0.7
    assert 690 <= message["delivery_time"] - message["timestamp"] <= 2_000


def test_an_unreachable_server_is_a_sentence(queue: str) -> None:
    said = Shell("tocsin://127.0.0.1:1").fails(1, "send", queue, "x")
    assert said.startswith("tocsin: ")
    assert said.count("\n") == 1


def test_a_user_without_a_password_is_told_how_to_give_it(shell: Shell, queue: str) -> None:
    said = shell.fails(1, "send", queue, "x", "--user", "ada")
    assert said == "tocsin: The user 'ada' needs a password: set TOCSIN_PASSWORD, or give --password.\n"


def test_a_missing_file_is_a_sentence(shell: Shell, queue: str) -> None:
    said = shell.fails(1, "send", queue, "--file", "no-such-file")
    assert said == "tocsin: no-such-file: No such file or directory.\n"


def test_a_property_name_that_is_not_allowed_is_a_sentence(shell: Shell, queue: str) -> None:
    assert "identifier" in shell.fails(1, "send", queue, "x", "--property", "two words=1")
