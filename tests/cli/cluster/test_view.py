"""A cluster for eyes: every group and node has its line."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.cli.cluster.made import make, play
from tests.cli.shell import Terminal

from tocsin.cli.cluster import view
from tocsin.cli.cluster.status import ClusterStatus, look
from tocsin.node.status_file import GroupReport


@pytest.fixture
def seen(tmp_path: Path) -> ClusterStatus:
    cluster = make(tmp_path / "cluster")
    play(cluster, "mm-1a", GroupReport(group=1, role="primary", epoch=64, primary=2, in_sync=(2,), live_bytes=2048))
    return look(cluster)


def test_lines_for_a_pipe(seen: ClusterStatus, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    view.print_status(seen)
    lines = [line.split("\t") for line in capfdbinary.readouterr().out.decode().splitlines()]
    assert lines[0][:6] == ["group", "group-1", "degraded", "mm-1a", "64", "mm-1a"]
    assert [line[:3] for line in lines[1:]] == [
        ["node", "cm-1", "stopped"],
        ["node", "mm-1a", "running"],
        ["node", "mm-1b", "stopped"],
    ]


def test_tables_for_a_terminal(seen: ClusterStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    with patch.object(sys, "stdout", screen):
        view.print_status(seen)
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert ["mm-1a", "running", "primary", "of", "group-1"] in [line[:5] for line in lines]
    assert ["cm-1", "stopped", "client", "manager"] in [line[:4] for line in lines]
    assert lines[-1] == ["clients:", seen.url]


def test_roles_begin_with_the_client_manager(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cluster = make(tmp_path / "cluster")
    play(cluster, "cm-1", GroupReport(group=1, role="witness"))
    view.print_status(look(cluster))
    assert b"cm-1\trunning\tclient manager, witness of group-1\t" in capfdbinary.readouterr().out


def test_a_live_view_is_drawn_until_somebody_stops_it(seen: ClusterStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    screen = Terminal()
    looks = iter([seen])

    def once() -> ClusterStatus:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    with patch.object(sys, "stdout", screen), pytest.raises(KeyboardInterrupt):
        view.watch(once, "Ctrl-C stops it.")
    text = screen.getvalue()
    assert all(word in text for word in ("cluster played", "mm-1a", "degraded", "primary of group-1", "Ctrl-C stops"))


def test_what_an_operator_has_forced_is_told(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cluster = make(tmp_path / "cluster")
    report = GroupReport(
        group=1, role="primary", epoch=65, primary=2, in_sync=(2,), unclean_epoch=65, unclean_lsn=1_000
    )
    play(cluster, "mm-1a", report)
    view.print_status(look(cluster))
    assert b"group-1 was promoted uncleanly in epoch 65" in capfdbinary.readouterr().err


def test_damage_on_disks_is_told(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cluster = make(tmp_path / "cluster")
    play(cluster, "mm-1a", GroupReport(group=1, role="primary", epoch=65, primary=2, in_sync=(2,), damaged=3, mended=4))
    view.print_status(look(cluster))
    said = capfdbinary.readouterr().err
    assert b"3 of group-1's records are damaged on the disk of mm-1a" in said
    assert b"4 of group-1's records were damaged on the disk of mm-1a and have been mended" in said
