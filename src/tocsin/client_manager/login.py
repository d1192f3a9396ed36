"""Who may connect, and the proof that a returning client is the one that left.

A connection's token is an HMAC of its identity and its user under the server's own secret, so it can be checked after a
restart too, and nobody can claim another client's sessions, not even a user who got hold of another's token. Who logs
in proves the token and does not show it. A session's id lies in the connection's range of ids: whoever has proved the
connection has proved its sessions.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tocsin.model.errors import ProtocolError
from tocsin.model.identity import UniqueId, unique_id
from tocsin.wire.decoys import Shapes
from tocsin.wire.resume_proof import resume_proof
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
    """The rules of entry. `find` gives a user's credentials; without it everybody on this machine may enter. `bindings`
    are those that a client's TLS connection to this server may have, `shapes` what users' salted passwords look like.
    """

    def __init__(
        self,
        secret: bytes,
        random: Callable[[int], bytes],
        find: Callable[[str], Credentials | None] | None,
        bindings: Callable[[], Sequence[bytes]] = tuple,
        shapes: Callable[[], Shapes] = Shapes,
    ) -> None:
        self._secret = secret
        self._random = random
        self._find = find
        self._bindings = bindings
        self._shapes = shapes

    @property
    def required(self) -> bool:
        return self._find is not None

    def standing(self, keys: Credentials | None) -> bytes:
        """What a user's connections rest on: another value when the user has other keys, none without a user."""
        return b"" if keys is None else hmac.digest(self._secret, keys.stored_key + keys.server_key, "sha256")

    def standing_of(self, user: str | None) -> bytes:
        """The same, of a user by now."""
        return self.standing(None if user is None or self._find is None else self._find(user))

    def scram(self, over_tls: bool) -> ScramServer:
        assert self._find is not None
        bindings = self._bindings() if over_tls else None
        nonce, shapes = self._random(18).hex(), self._shapes()
        return ScramServer(self._find, nonce=nonce, secret=self._secret, bindings=bindings, shapes=shapes)

    def token(self, identity: bytes, principal: str | None) -> bytes:
        """`principal` is the user who logged in, None where nobody has to."""
        # The first byte tells nobody from a user without a name; an identity has a fixed length, so no two pairs mix.
        user = b"\0" if principal is None else b"\1" + principal.encode()
        return hmac.digest(self._secret, identity + user, "sha256")

    def proves(self, identity: object, principal: str | None, shown: object, client_final: bytes | None = None) -> bool:
        """Whether a client had this connection: by its token, or by the proof that came with the end of its login."""
        if not isinstance(identity, bytes) or not isinstance(shown, bytes) or len(identity) != 16:
            return False
        aligned = int.from_bytes(identity, "big") % (1 << SESSION_BITS) == 0
        token = self.token(identity, principal)
        expected = token if client_final is None else resume_proof(token, client_final)
        return aligned and hmac.compare_digest(expected, shown)
