"""A node's own few lines, with the cluster file and the secret behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.cluster_drafts import GOOD, write

from tocsin.model.errors import ConfigError
from tocsin.node.cluster_secret import fingerprint, new_secret, write_secret
from tocsin.node.node_config import NodeConfig, load_node_config

BASE = 'cluster = "cluster.toml"\nsecret = "secret"\ndata_dir = "data"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    secret = new_secret()
    write_secret(tmp_path / "secret", secret)
    write(tmp_path, GOOD.replace("f" * 32, fingerprint(secret)).replace("10.0.0.1", "127.0.0.1"))
    return tmp_path


def load(folder: Path, text: str) -> NodeConfig:
    return load_node_config(write(folder, BASE + text, "node.toml"))


def test_a_client_manager_listens_where_clients_reach_it(folder: Path) -> None:
    config = load(folder, 'node = "cm-1"')
    assert (config.server.host, config.server.port) == ("127.0.0.1", 7177)
    assert (config.server.node, config.server.site, config.server.data_dir) == ("cm-1", "test", folder / "data")
    assert load(folder, 'node = "cm-1"\nport = 7999').server.port == 7999


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('node = "cm-7"', "no node 'cm-7'"),
        ("", "The setting node is missing"),
        ('node = "mm-1"\nport = 7177', "mm-1 is no client manager"),
        ('node = "cm-1"\nsync = "interval"', "no setting 'sync'"),
        ('node = "cm-1"\nhost = "0.0.0.0"', "refuses to listen on 0.0.0.0"),
    ],
)
def test_what_cannot_work_is_refused(folder: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(folder, text)


def test_the_secret_of_another_cluster_is_refused(folder: Path) -> None:
    (folder / "secret").unlink()
    write_secret(folder / "secret", new_secret())
    with pytest.raises(ConfigError, match="not the one of this cluster"):
        load(folder, 'node = "mm-1"')
