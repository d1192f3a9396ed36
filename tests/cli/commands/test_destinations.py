"""`tocsin destinations` against a real server."""

from __future__ import annotations

import re

import pytest
from tests.cli.shell import Shell

import tocsin


def test_create_list_show_purge_delete(shell: Shell, topic: str) -> None:
    name = topic.removeprefix("topic:")
    created = shell.json(
        "destinations", "create", topic, "--retained", "--max-age", "7d", "--max-bytes", "10GiB",
        "--redelivery-limit", "3", "--backoff", "500ms", "--min-copies", "1",
    )  # fmt: skip
    assert created == {"destination": topic, "created": True}
    shell.ok("send", topic, "a", "b")

    shown = shell.json("destinations", "show", topic)
    assert (shown["name"], shown["kind"], shown["retained"]) == (name, "topic", True)
    assert shown["max_age_ms"] == 7 * 86_400_000
    assert shown["max_bytes"] == 10 * 2**30
    assert (shown["redelivery_limit"], shown["backoff_ms"], shown["min_copies"]) == (3, 500, 1)
    assert shown["published"] == 2

    (listed,) = [entry for entry in shell.json("destinations", "list") if entry["name"] == name]
    assert listed["kind"] == "topic"
    assert shell.json("destinations", "purge", topic) == {"destination": topic, "dropped": 2}
    assert shell.json("destinations", "delete", topic) == {"destination": topic, "deleted": True}
    assert name not in [entry["name"] for entry in shell.json("destinations", "list")]


def test_a_list_for_pipes_has_a_destination_a_line(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b")
    rows = [line.split("\t") for line in shell.ok("destinations", "list").decode().splitlines()]
    assert ["queue", queue, "2"] in [row[:3] for row in rows]
    fields = dict(line.split("\t") for line in shell.ok("destinations", "show", queue).decode().splitlines())
    assert fields["messages"] == "2"


def test_notes_do_not_go_into_the_pipe(shell: Shell, queue: str) -> None:
    done = shell.run("destinations", "create", queue)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == f"queue:{queue} was created.\n".encode()
    assert b"exists already" in shell.run("destinations", "create", queue).stderr


def test_what_is_not_there_is_a_sentence(shell: Shell, queue: str) -> None:
    for verb in ("show", "delete", "purge"):
        said = shell.fails(1, "destinations", verb, queue)
        assert said.startswith("tocsin: ")
        assert queue in said


def test_other_options_for_what_exists_are_refused(shell: Shell, queue: str) -> None:
    shell.ok("destinations", "create", queue)
    assert "other options" in shell.fails(1, "destinations", "create", queue, "--redelivery-limit", "2")


@pytest.mark.own_server("a group makes two copies")
def test_a_server_by_itself_has_one_copy(shell: Shell, queue: str) -> None:
    assert "needs a cluster" in shell.fails(1, "destinations", "create", queue, "--min-copies", "2")


def words(line: str) -> list[str]:
    """The cells of a line of a table, which stand at least two blanks apart."""
    return re.split(r"\s{2,}", line.strip())


def test_a_list_on_a_terminal_has_sizes_and_names_of_columns(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, feed=b"x" * 2048)
    lines = [words(line) for line in shell.seen("destinations", "list").splitlines()]
    assert ["kind", "name", "messages", "bytes", "consumers", "in flight", "dead", "retained"] in lines
    (row,) = [line for line in lines if line[:2] == ["queue", queue]]
    assert (row[2], row[3].endswith("KiB")) == ("1", True)


def test_one_destination_on_a_terminal_is_told_in_words(shell: Shell, topic: str) -> None:
    shell.ok("destinations", "create", topic, "--retained", "--max-age", "7d", "--redelivery-limit", "0")
    listen = ("receive", topic, "--timeout", "50ms", "--durable", "--subscription")
    assert shell.run(*listen, "ledger", "--client-id", "billing").returncode == 3
    assert shell.run(*listen, "work", "--shared", "--selector", "amount > 5").returncode == 3
    shell.ok("send", topic, "a")
    lines = [words(line) for line in shell.seen("destinations", "show", topic).splitlines()]
    for expected in (
        ["max age", "7d"],
        ["max bytes", "no limit"],
        ["redelivery limit", "no limit"],
        ["backoff", "none"],
        ["name", "client id", "durable", "shared", "selector", "messages", "in flight"],
        ["ledger", "billing", "yes", "no", "-", "1", "0"],
    ):
        assert expected in lines
    assert ["work", "-", "yes", "yes", "amount > 5"] in [line[:5] for line in lines]


def test_a_queue_on_a_terminal_has_no_limits_of_retained_topics(shell: Shell, queue: str) -> None:
    shell.ok("destinations", "create", queue, "--backoff", "2s")
    names = {
        cells[0]: cells[-1] for line in shell.seen("destinations", "show", queue).splitlines() if (cells := words(line))
    }
    assert names["backoff"] == "2s"
    assert not names.keys() & {"max age", "max bytes", "subscriptions"}


def test_drains_of_a_queue_are_shown(shell: Shell, queue: str) -> None:
    shell.ok("send", queue, "a", "b", "c")
    with tocsin.connect(shell.url) as connection:
        connection.drain_take(f"queue:{queue}", "job", 0, messages=2)
    lines = [words(line) for line in shell.seen("destinations", "show", queue).splitlines()]
    assert ["drain", "takes", "messages", "last", "finished"] in lines
    assert ["job", "1", "2", "1", "0"] in lines
    assert shell.json("destinations", "show", queue)["drains"][0]["messages"] == 2
    released = shell.json("destinations", "release", queue, "job")
    assert released == {"destination": f"queue:{queue}", "drain": "job", "released": 2}
    assert "0 messages went back" in shell.run("destinations", "release", queue, "job").stderr.decode()
    assert shell.json("destinations", "show", queue)["drains"] == []


def test_purging_says_how_many_went(shell: Shell, queue: str) -> None:
    for bodies, sentence in ((["a"], "1 message was dropped"), (["a", "b"], "2 messages were dropped")):
        shell.ok("send", queue, *bodies)
        assert sentence in shell.run("destinations", "purge", queue).stderr.decode()


def test_holds_are_shown_with_their_lag(shell: Shell, topic: str) -> None:
    shell.ok("destinations", "create", topic, "--retained")
    shell.ok("send", topic, "a", "b", "c")
    with tocsin.connect(shell.url) as connection:
        connection.hold(topic, "nightly report", 1, 3_600)
    (hold,) = shell.json("destinations", "show", topic)["holds"]
    assert (hold["name"], hold["offset"], hold["lag"]) == ("nightly report", 1, 2)
    fields = dict(line.split("\t") for line in shell.ok("destinations", "show", topic).decode().splitlines())
    assert "nightly report" in fields["holds"]
    seen = shell.seen("destinations", "show", topic)
    assert "nightly report" in seen and "expires in" in seen and "lag" in seen
