"""Who may connect, and the proof that a returning client is the one that left.

A connection's token is an HMAC of its identity and its user under the server's own secret, so it can be checked after a
restart too, and nobody can claim another client's sessions, not even a user who got hold of another's token. A
session's id lies in the connection's range of ids: whoever has proved the connection has proved its sessions.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.model.errors import ProtocolError
from tocsin.model.identity import UniqueId, unique_id
from tocsin.wire.scram import Credentials, ScramServer

SESSION_BITS = 24
"""Of an id's sequence: connections count in steps of this many bits, their sessions in between."""


@dataclass(slots=True)
class Identities:
    """Gives connections and sessions their unique ids (seed: site, node, boot counter, sequence)."""

    site: int
    node: int
    boot: int
    connections: int = 0

    def next_connection(self) -> UniqueId:
        self.connections += 1
        return unique_id(self.site, self.node, self.boot, self.connections << SESSION_BITS)


def session_id(connection: bytes, number: int) -> UniqueId:
    if not 0 < number < 1 << SESSION_BITS:
        raise ProtocolError(f"Session number {number} is out of range.")
    return UniqueId((int.from_bytes(connection, "big") + number).to_bytes(16, "big"))


class Login:
    """The rules of entry. `find` gives a user's credentials; without it everybody on this machine may enter."""

    def __init__(
        self, secret: bytes, random: Callable[[int], bytes], find: Callable[[str], Credentials | None] | None
    ) -> None:
        self._secret = secret
        self._random = random
        self._find = find

    @property
    def required(self) -> bool:
        return self._find is not None

    def scram(self) -> ScramServer:
        assert self._find is not None
        return ScramServer(self._find, nonce=self._random(18).hex(), secret=self._secret)

    def token(self, identity: bytes, principal: str | None) -> bytes:
        """`principal` is the user who logged in, None where nobody has to."""
        # The first byte tells nobody from a user without a name; an identity has a fixed length, so no two pairs mix.
        user = b"\0" if principal is None else b"\1" + principal.encode()
        return hmac.digest(self._secret, identity + user, "sha256")

    def proves(self, identity: object, principal: str | None, token: object) -> bool:
        if not isinstance(identity, bytes) or not isinstance(token, bytes) or len(identity) != 16:
            return False
        aligned = int.from_bytes(identity, "big") % (1 << SESSION_BITS) == 0
        return aligned and hmac.compare_digest(self.token(identity, principal), token)
