"""`tocsin destinations` against a real server."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_create_list_show_purge_delete(shell: Shell, topic: str) -> None:
    name = topic.removeprefix("topic:")
    created = shell.json(
        "destinations", "create", topic, "--retained", "--max-age", "7d", "--max-bytes", "10GiB",
        "--redelivery-limit", "3", "--backoff", "500ms",
    )  # fmt: skip
    assert created == {"destination": topic, "created": True}
    shell.ok("send", topic, "a", "b")

    shown = shell.json("destinations", "show", topic)
    assert (shown["name"], shown["kind"], shown["retained"]) == (name, "topic", True)
    assert shown["max_age_ms"] == 7 * 86_400_000
    assert shown["max_bytes"] == 10 * 2**30
    assert (shown["redelivery_limit"], shown["backoff_ms"]) == (3, 500)
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
