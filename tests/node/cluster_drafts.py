"""Cluster files for tests: one that is right, and ways to make it wrong."""

from __future__ import annotations

from pathlib import Path

CLUSTER = """\
[cluster]
name = "test"
"""
IDS = f"""\
id = "{"0" * 32}"
secret_fingerprint = "{"f" * 32}"
"""
REST = """
[[network]]
name = "lan"

[[node]]
name = "cm-1"
number = 1
roles = ["cm"]
addresses = { lan = "10.0.0.1" }
client = "10.0.0.1:7177"

[[node]]
name = "mm-1"
number = 2
roles = ["mm"]
addresses = { lan = "10.0.0.2" }

[[node]]
name = "mm-2"
number = 3
roles = ["mm"]
addresses = { lan = "10.0.0.3" }

[[group]]
number = 1
members = ["mm-1", "mm-2"]
witnesses = ["cm-1"]

[[group.channel]]
network = "lan"
in = "239.1.1.1"
out = "239.1.1.2"
port = 7400
"""
GOOD = CLUSTER + IDS + REST
DRAFT = CLUSTER + REST


def write(folder: Path, text: str, name: str = "cluster.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path
