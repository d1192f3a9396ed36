"""A server that can't start says why in one sentence, ends with code 1 and leaves every file as it was."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.certificates import Authority, add_user
from tests.system.processes import HOST, ServerProcess, free_port, refusal, run_command, write_config

import tocsin

SECTOR = 512


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, which says who tried last."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def serve(server: ServerProcess) -> str:
    """What a server says that must refuse to start."""
    return refusal("serve", "--config", str(server.config))


def records(data: Path) -> list[dict[str, Any]]:
    lines = run_command("journal", "dump", str(data), "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that stored messages one by one, each in a group commit of its own, and was killed."""
    with ServerProcess(tmp_path / "server") as server:
        with tocsin.connect(server.url) as connection, connection.session() as session:
            producer = session.producer(session.queue("orders"))
            for number in range(5):
                producer.send(f"message {number}")
            producer.send("the last one spans several sectors".ljust(4 * SECTOR))
        server.kill()
        yield server


def test_a_second_server_on_the_same_data(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server") as server:
        said = serve(server)
        assert str(server.data) in said and "in use" in said
        with tocsin.connect(server.url) as connection, connection.session() as session:
            assert session.producer(session.queue("orders")).send("the first one goes on")
    assert server.stored_after_restart("orders") == 1


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server((HOST, free_port())) as taken:
        port = taken.getsockname()[1]
        assert f"Port {port}" in refusal("serve", "--port", str(port), "--data-dir", str(tmp_path / "data"))


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    """192.0.2.1 is for documentation, so no machine has it; the login and TLS that it needs are there."""
    own = Authority(tmp_path, "authority").issue("server.example")
    add_user(tmp_path / "users", "ada", "engine")
    settings = {"host": "192.0.2.1", "port": 0, "users_file": "users", "data_dir": "data"}
    tls = {"tls_cert": own.certificate, "tls_key": own.key}
    config = write_config(tmp_path, {**settings, **tls})
    assert "192.0.2.1" in refusal("serve", "--config", str(config))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "server.example"])
def test_an_open_address_needs_login_and_tls(tmp_path: Path, host: str) -> None:
    said = refusal("serve", "--host", host, "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert host in said and "users_file" in said and "tls_cert" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("prot", "port"), ("data-dir", "data_dir"), ("segment_size", "segment_bytes")]
)
def test_an_unknown_setting_is_named_with_the_nearest(tmp_path: Path, wrong: str, nearest: str) -> None:
    config = write_config(tmp_path, {wrong: 1})
    said = refusal("serve", "--config", str(config))
    assert repr(wrong) in said and repr(nearest) in said and str(config) in said


def test_a_setting_of_the_wrong_type(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"port": "many"})
    said = refusal("serve", "--config", str(config))
    assert "port" in said and "'many'" in said


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    assert str(tmp_path / "data") in refusal("serve", "--port", "0", "--data-dir", str(tmp_path / "data"))


def _with_version(content: bytes, position: int, size: int) -> bytes:
    """A file that a later release wrote: another version, and a check that agrees."""
    changed = content[:position] + (99).to_bytes(2, "little") + content[position + 2 :]
    return changed[: size - 4] + zlib.crc32(changed[: size - 4]).to_bytes(4, "little") + changed[size:]


@pytest.mark.parametrize(("file", "size"), [("meta", 52), ("journal/00000000000000000001.seg", 80)])
def test_a_newer_format(stopped: ServerProcess, file: str, size: int) -> None:
    path = stopped.data / file
    path.write_bytes(_with_version(path.read_bytes(), 8, size))
    before = contents(stopped.data)
    said = serve(stopped)
    assert "newer" in said and file in said
    assert contents(stopped.data) == before


def test_damage_in_the_middle_is_refused_with_its_place(stopped: ServerProcess) -> None:
    """A byte of a confirmed message, with commits behind it: no torn tail could look like that."""
    victim = [record for record in records(stopped.data) if record["kind"] == "publish"][2]
    path = stopped.data / victim["file"]
    content = bytearray(path.read_bytes())
    content[victim["position"] + 60] ^= 1
    path.write_bytes(content)
    before = contents(stopped.data)

    said = serve(stopped)
    assert victim["file"] in said and str(victim["position"]) in said
    assert contents(stopped.data) == before

    checked = run_command("journal", "check", str(stopped.data), "--json")
    assert checked.returncode == 1
    (finding,) = json.loads(checked.stdout)["findings"]
    assert (finding["file"], finding["position"]) == (victim["file"], victim["position"])
    assert contents(stopped.data) == before


def test_a_torn_tail_is_no_damage(stopped: ServerProcess) -> None:
    """Power failed during the last commit: a part of its sectors was not written. What came before is there."""
    last = [record for record in records(stopped.data) if record["kind"] == "publish"][-1]
    path = stopped.data / last["file"]
    written = -(-(last["position"] + 50) // SECTOR) * SECTOR
    content = path.read_bytes()
    path.write_bytes(content[:written] + bytes(len(content) - written))
    assert stopped.stored_after_restart("orders") == 5


def test_a_segment_that_is_missing_from_the_middle(tmp_path: Path) -> None:
    settings = {"segment_bytes": 640 * 1024, "max_message_bytes": 4 * 1024}
    with ServerProcess(tmp_path / "server", **settings) as server:
        with tocsin.connect(server.url) as connection, connection.session() as session:
            session.producer(session.queue("orders")).send_many([b"x" * 1_000] * 2_500)
        server.kill()
    segments = sorted((server.data / "journal").glob("0*.seg"))
    assert len(segments) >= 3
    segments[1].unlink()
    before = contents(server.data)
    said = serve(server)
    assert "missing" in said and f"LSN {int(segments[1].stem) - 1}" in said
    assert contents(server.data) == before
