"""One process that is a whole cluster, on a real loop with real sockets: it starts, serves, stops, leaves nothing."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.cluster_drafts import write
from tests.system.certificates import NAMES_THAT_ARE_NO_TEXT, Authority, show
from tests.system.processes import free_port

from tocsin import aio
from tocsin.model.errors import ConfigError, DataDirectoryInUse, JournalDamaged, PortInUse
from tocsin.node.cluster_file import read_cluster_file
from tocsin.node.cluster_init import create_cluster
from tocsin.node.cluster_layout import carries_multicast
from tocsin.node.cluster_service import ClusterService
from tocsin.node.node_config import NodeConfig, load_node_config
from tocsin.node.status_file import read_status
from tocsin.runtime.local import SOCKET_NAME, local_url
from tocsin.runtime.tls import client_context

HOST = "127.0.0.1"
PATIENCE = 20.0
DRAFT = """\
[cluster]
name = "alone"

[[network]]
name = "loopback"
mtu = 65536
multicast = {multicast}

[[node]]
name = "one"
number = 1
roles = ["cm", "mm"]
addresses = {{ loopback = "127.0.0.1" }}
bus_port = {bus_port}
client = "127.0.0.1:{port}"

[[group]]
number = 1
members = ["one"]
profile = "fast"

[[group.channel]]
network = "loopback"
in = "239.212.1.1"
out = "239.212.1.2"
port = {bus_port}
"""


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    multicast = str(carries_multicast(HOST)).lower()
    draft = write(tmp_path, DRAFT.format(bus_port=free_port(), port=free_port(), multicast=multicast), "draft.toml")
    create_cluster(
        tmp_path / "cluster",
        lambda cluster_id, mark: read_cluster_file(draft, given={"id": cluster_id, "secret_fingerprint": mark}),
    )
    file = tmp_path / "cluster" / "nodes" / "one" / "node.toml"
    file.write_text(file.read_text() + "segment_bytes = 1048576\nmax_message_bytes = 131072\n")
    return load_node_config(file)


async def send(url: str, body: str) -> None:
    async with await aio.connect(url) as connection, await connection.session() as session:
        await (await session.producer(session.queue("orders"))).send(body)


async def receive(url: str) -> object:
    async with await aio.connect(url) as connection, await connection.session() as session:
        message = await (await session.consumer(session.queue("orders"))).receive(timeout=PATIENCE)
        assert message is not None
        return message.body


def test_it_serves_and_keeps_what_it_confirmed(config: NodeConfig) -> None:
    async def first_life() -> None:
        service = ClusterService(config)
        await service.start()
        try:
            assert service.url is not None
            await asyncio.wait_for(send(service.url, "two dozen"), PATIENCE)
            with pytest.raises(DataDirectoryInUse):
                ClusterService(config)
        finally:
            await service.stop()

    async def second_life() -> None:
        service = ClusterService(config)
        await service.start()
        try:
            assert service.url is not None
            by_socket = local_url(config.server.data_dir / SOCKET_NAME)
            assert await asyncio.wait_for(receive(by_socket), PATIENCE) == "two dozen"
            await until_told(config)
        finally:
            await service.stop()
        assert read_status(config.server.data_dir) is None
        assert not (config.server.data_dir / SOCKET_NAME).exists()

    asyncio.run(first_life())
    asyncio.run(second_life())


async def until_told(config: NodeConfig) -> None:
    """The status says, before long, that this node leads its group."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        said = read_status(config.server.data_dir)
        if said is not None and said.groups[0].role == "primary" and said.groups[0].in_sync == (1,):
            assert (said.node, said.digest, said.forged) == ("one", config.cluster.digest, 0)
            assert said.bus["datagrams_out"] > 0
            return
        assert asyncio.get_running_loop().time() < deadline, said
        await asyncio.sleep(0.05)


def test_a_port_in_use_ends_the_start_and_leaves_nothing_open(config: NodeConfig) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, config.server.port))
            taken.listen()
            with pytest.raises(PortInUse):
                await ClusterService(config).start()
        # The lock is free again.
        service = ClusterService(config)
        await service.start()
        await service.stop()

    asyncio.run(run())


def test_a_bus_address_in_use_is_named(config: NodeConfig) -> None:
    host, port = config.node.place(1, "loopback")

    async def run() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind((host, port))
            with pytest.raises(ConfigError, match=f"{port} for the bus"):
                await ClusterService(config).start()

    asyncio.run(run())


@pytest.mark.makes_mistakes
def test_a_certificate_that_cannot_be_read_ends_its_own_connection(config: NodeConfig, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own, good = authority.issue(HOST), authority.issue("client")
    bad = authority.issue("bad", names=NAMES_THAT_ARE_NO_TEXT)
    tls = replace(config.server, tls_cert=own.certificate, tls_key=own.key, tls_client_ca=authority.path)

    async def run() -> None:
        service = ClusterService(replace(config, server=tls))
        await service.start()
        assert service.failed is not None and service.url is not None
        await show(service.port, bad, authority.path)
        while not service._parts.faults.count:
            await asyncio.sleep(0)
        async with await aio.connect(service.url, ssl=client_context(ca=authority.path, own=good)):
            assert service._parts.faults.count == 1 and not service.failed.done()
        await service.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("name", ["vote", "meta"])
def test_damage_is_told_with_its_folder(config: NodeConfig, name: str) -> None:
    """A node may have several groups, each with files of the same names."""
    folder = config.server.data_dir / "group-1"
    (folder / name).write_bytes(b"x" * 100)
    with pytest.raises(JournalDamaged) as caught:
        ClusterService(config)
    assert str(caught.value).startswith(f"{folder}: ") and f"{name}" in str(caught.value)
