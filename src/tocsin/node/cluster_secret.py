"""The cluster's secret: one file of its own, readable by its owner alone, from which every key is derived.

Who has it can speak as any node. It is never logged; the cluster file holds its fingerprint, which tells whether
two nodes have the same one and says nothing else of it.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from tocsin.model.errors import ConfigError
from tocsin.model.limits import CLUSTER_ID_CHARACTERS, CLUSTER_SECRET_BYTES
from tocsin.runtime.ownership import check_private, open_regular

_FINGERPRINT = b"tocsin cluster secret, fingerprint"
_TOKENS = b"tocsin cluster secret, resume tokens"


def new_secret() -> bytes:
    return secrets.token_bytes(CLUSTER_SECRET_BYTES)


def fingerprint(secret: bytes) -> str:
    return hmac.digest(secret, _FINGERPRINT, "sha256").hex()[:CLUSTER_ID_CHARACTERS]


def token_secret(secret: bytes) -> bytes:
    """Under which all client managers sign resume tokens: what one gave out, every other can check."""
    return hmac.digest(secret, _TOKENS, "sha256")


def write_secret(path: Path, secret: bytes) -> None:
    """A new file; an existing one is never replaced, because a cluster may live by it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigError(f"The file {path} exists; a cluster's secret is not replaced.") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_secret(path: Path) -> bytes:
    try:
        with open_regular("cluster's secret", path) as file:
            check_private("cluster's secret", path, os.fstat(file.fileno()))
            data = file.read(4 * CLUSTER_SECRET_BYTES)
    except OSError as reason:
        raise ConfigError(f"The cluster's secret {path} cannot be read: {reason.strerror}.") from reason
    try:
        secret = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != CLUSTER_SECRET_BYTES:
        raise ConfigError(f"The file {path} holds no cluster secret ({2 * CLUSTER_SECRET_BYTES} hexadecimal digits).")
    return secret


def check_secret(secret: bytes, expected: str, path: Path) -> None:
    """Refuses the secret of another cluster before a word is said with it."""
    if not hmac.compare_digest(fingerprint(secret), expected):
        raise ConfigError(
            f"The secret in {path} is not the one of this cluster: its fingerprint differs from secret_fingerprint in"
            " the cluster file. Copy the file `secret` from another node."
        )
