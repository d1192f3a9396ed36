"""`tocsin cluster` where no node has to run; tests/system/test_cluster.py has real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.shell import Shell
from tests.node.cluster_drafts import DRAFT, GOOD, write

SHELL = Shell("tocsin://localhost:1")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = SHELL.run("cluster", *map(str, arguments))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cluster"
    assert run("init", "-C", path, "--port", "0")[0] == 0
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_init_makes_a_cluster_of_six_nodes(tmp_path: Path) -> None:
    code, out, _ = run("init", "-C", tmp_path / "c", "--port", "0", "--json")
    said = json.loads(out)
    assert code == 0 and said["nodes"] == ["cm-1", "cm-2", "mm-1a", "mm-1b", "mm-2a", "mm-2b"]
    assert len(said["id"]) == 32 and said["directory"] == str(tmp_path / "c")


def test_init_takes_other_shapes(tmp_path: Path) -> None:
    shape = ("--client-managers", "1", "--groups", "1", "--members", "3", "--name", "trio", "--profile", "fast")
    code, out, _ = run("init", "-C", tmp_path / "c", "--port", "0", "--json", *shape)
    assert code == 0 and json.loads(out)["nodes"] == ["cm-1", "mm-1a", "mm-1b", "mm-1c"]


def test_init_twice_changes_nothing(folder: Path) -> None:
    before = files(folder)
    code, out, complaint = run("init", "-C", folder)
    assert code == 2 and not out
    assert "holds a cluster already; nothing was changed" in complaint
    assert files(folder) == before


def test_init_from_a_draft(tmp_path: Path) -> None:
    code, _, notes = run("init", "-C", tmp_path / "c", "--config", write(tmp_path, DRAFT))
    assert code == 0 and "tocsin node --config nodes/NAME/node.toml" in notes
    assert (tmp_path / "c" / "nodes" / "mm-2" / "data" / "group-1" / "vote").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(GOOD, "has an id already"), (DRAFT.replace('witnesses = ["cm-1"]', ""), "even number"), ("x", "not valid TOML")],
)
def test_a_wrong_draft_makes_nothing(tmp_path: Path, text: str, complaint: str) -> None:
    code, _, said = run("init", "-C", tmp_path / "c", "--config", write(tmp_path, text))
    assert code == 1 and complaint in said
    assert not (tmp_path / "c").exists()


def test_an_unknown_profile_is_a_usage_error(tmp_path: Path) -> None:
    assert run("init", "-C", tmp_path / "c", "--profile", "lazy")[0] == 2


def test_status_of_a_cluster_that_does_not_run(folder: Path) -> None:
    code, out, _ = run("status", "-C", folder, "--json")
    said = json.loads(out)
    assert code == 3 and not said["well"]
    assert [group["state"] for group in said["groups"]] == ["no primary"] * 2
    code, out, _ = run("status", "-C", folder)
    assert code == 3 and len(out.splitlines()) == 8


@pytest.mark.parametrize("verb", ["kill", "drain"])
def test_what_does_not_run_cannot_be_stopped(folder: Path, verb: str) -> None:
    code, out, _ = run(verb, "mm-1a", "-C", folder, "--json")
    assert code == 3 and json.loads(out) == {"node": "mm-1a", "state": "not running"}


def test_down_of_nothing(folder: Path) -> None:
    code, out, _ = run("down", "-C", folder, "--json")
    assert code == 3 and json.loads(out) == {"stopped": [], "killed": []}


@pytest.mark.parametrize("verb", ["status", "down"])
def test_a_directory_without_a_cluster(tmp_path: Path, verb: str) -> None:
    code, _, complaint = run(verb, "-C", tmp_path)
    assert code == 1 and "There is no cluster in" in complaint


def test_an_unknown_node_is_named(folder: Path) -> None:
    code, _, complaint = run("kill", "mm-7", "-C", folder)
    assert code == 1 and "has no node 'mm-7'" in complaint
