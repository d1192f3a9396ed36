"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677): both sides of the login as pure machines.

    client                                           server
    <header>n=<user>,r=<nonce>                 ->
                                               <-    r=<nonce><server nonce>,s=<salt>,i=<iterations>
    c=<binding>,r=<both nonces>,p=<proof>      ->
                                               <-    v=<server signature>

Salt, proof and signature are base64, and so is <binding>: the header, with what ties the login to its TLS connection
behind it (channel_binding). Both sides sign it, so nobody between them can change it or pass it on.

    n,,                          in clear: there is nothing to bind to
    p=tls-server-end-point,,     over TLS, always

Each side knows by itself over what it speaks, so nothing is negotiated and nobody can talk a client out of it: a server
refuses the other header. Neither side draws random numbers: nonces come from the caller.

The server keeps salted keys, never a password. A user it does not know goes through the same steps with decoy
credentials, so that neither the answers nor their timing tell which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tocsin.model.errors import AuthenticationFailed, ProtocolError
from tocsin.model.limits import (
    DECOY_SECRET_BYTES_MIN,
    LOGIN_NONCE_CHARACTERS_MAX,
    PASSWORD_BYTES_MAX,
    PASSWORD_ITERATIONS_DEFAULT,
    PASSWORD_ITERATIONS_MAX,
    PASSWORD_ITERATIONS_MIN,
    SALT_BYTES_MAX,
    SALT_BYTES_MIN,
    USER_NAME_BYTES_MAX,
)
from tocsin.wire import channel_binding
from tocsin.wire.decoys import DRAW_BITS, Shapes
from tocsin.wire.saslprep import saslprep
from tocsin.wire.scram_message import (
    check_own_nonce,
    check_peer_nonce,
    decode_base64,
    decode_message,
    encode_base64,
    escape_user,
    read_attributes,
    read_iterations,
    unescape_user,
)

KEY_BYTES = 32

_IN_CLEAR = "n,,"
_OVER_TLS = f"p={channel_binding.NAME},,"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server keeps of a user's password."""

    user: str
    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def make_credentials(
    user: str, password: str, *, salt: bytes, iterations: int = PASSWORD_ITERATIONS_DEFAULT
) -> Credentials:
    """Salt a password. Bounds are checked here, so that nothing weak is ever stored."""
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        raise ValueError(f"A salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, not {len(salt)}.")
    if not PASSWORD_ITERATIONS_MIN <= iterations <= PASSWORD_ITERATIONS_MAX:
        raise ValueError(
            f"Iterations are {PASSWORD_ITERATIONS_MIN:,} to {PASSWORD_ITERATIONS_MAX:,}, not {iterations:,}."
        )
    user = prepare_user(user)
    salted = _salt_password(prepare_password(password), salt, iterations)
    return Credentials(user, salt, iterations, _stored_key(salted), _hmac(salted, b"Server Key"))


def decoy_credentials(user: str, secret: bytes, shapes: Shapes | None = None) -> Credentials:
    """Credentials of a user who does not exist: the same ones each time, and matched by no password.

    The secret must outlive a restart, or a salt that changes would give the decoy away.
    """
    purposes = (b"salt:", b"more salt:", b"stored:", b"server:", b"shape:")
    salt, more_salt, stored_key, server_key, draw = (_hmac(secret, each + user.encode()) for each in purposes)
    shape = (shapes or Shapes()).of(int.from_bytes(draw[: DRAW_BITS // 8], "big"))
    return Credentials(user, (salt + more_salt)[: shape.salt_bytes], shape.iterations, stored_key, server_key)


def prepare_user(user: str) -> str:
    """The form of a user name that is stored and compared. Raises AuthenticationFailed."""
    return _prepare("user name", user, USER_NAME_BYTES_MAX)


def prepare_password(password: str) -> str:
    """The form of a password that is salted."""
    return _prepare("password", password, PASSWORD_BYTES_MAX)


class ScramClient:
    """One login as the client sees it: start, answer, finish, each called once and in this order."""

    __slots__ = ("_auth_prefix", "_binding", "_expected_signature", "_header", "_nonce", "_password", "_step", "_user")

    def __init__(self, user: str, password: str, *, nonce: str, binding: bytes | None = None) -> None:
        """`binding` is that of the TLS connection, None in clear."""
        self._user = prepare_user(user)
        self._password = prepare_password(password)
        self._nonce = check_own_nonce(nonce)
        self._step = 0
        self._header = _IN_CLEAR if binding is None else _OVER_TLS
        self._binding = _bound(self._header, binding or b"")
        self._auth_prefix = f"n={escape_user(self._user)},r={nonce}"
        self._expected_signature = b""

    def start(self) -> bytes:
        self._step = _advance(self._step, 0)
        return (self._header + self._auth_prefix).encode()

    def answer(self, server_first: bytes) -> bytes:
        """Prove the password. Salting takes tens of milliseconds by design: call it off the event loop."""
        self._step = _advance(self._step, 1)
        text = decode_message(server_first)
        nonce, salt_text, iterations_text = read_attributes(text, "rsi")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ProtocolError("The server's login answer belongs to another login: its nonce is not ours.")
        check_peer_nonce(nonce, 2 * LOGIN_NONCE_CHARACTERS_MAX)
        salt = decode_base64(salt_text, SALT_BYTES_MIN, SALT_BYTES_MAX)
        salted = _salt_password(self._password, salt, read_iterations(iterations_text))
        self._password = ""
        final = f"c={self._binding},r={nonce}"
        auth_message = f"{self._auth_prefix},{text},{final}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), auth_message)
        self._expected_signature = _hmac(_hmac(salted, b"Server Key"), auth_message)
        return f"{final},p={encode_base64(_xor(client_key, signature))}".encode()

    def finish(self, server_final: bytes) -> None:
        """Check that the server knows the credentials too; a server that does not is an impostor."""
        self._step = _advance(self._step, 2)
        text = decode_message(server_final)
        if text.startswith("e="):
            raise AuthenticationFailed("The server refused the login: the user name or the password is wrong.")
        (signature,) = read_attributes(text, "v")
        if not hmac.compare_digest(decode_base64(signature, KEY_BYTES, KEY_BYTES), self._expected_signature):
            raise AuthenticationFailed("The server could not prove that it knows this user; it may be an impostor.")


class ScramServer:
    """One login as the server sees it: challenge, then finish. `user` is set once the login has succeeded."""

    __slots__ = (
        "_auth_prefix", "_bindings", "_credentials", "_header", "_known", "_lookup", "_nonce", "_secret",
        "_shapes", "_step", "user",
    )  # fmt: skip

    def __init__(
        self,
        lookup: Callable[[str], Credentials | None],
        *,
        nonce: str,
        secret: bytes,
        bindings: Sequence[bytes] | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        """`bindings` are those that the client's TLS connection may have, None in clear. `shapes` are for decoys."""
        if len(secret) < DECOY_SECRET_BYTES_MIN:
            raise ValueError(f"The secret for decoys has at least {DECOY_SECRET_BYTES_MIN} bytes, not {len(secret)}.")
        self._lookup = lookup
        self._nonce = check_own_nonce(nonce)
        self._secret = secret
        self._shapes = shapes
        self._step = 0
        self._known = False
        self._credentials: Credentials | None = None
        self._auth_prefix = ""
        self._header = _IN_CLEAR if bindings is None else _OVER_TLS
        self._bindings = [_bound(self._header, each) for each in ((b"",) if bindings is None else bindings)]
        self.user: str | None = None

    def challenge(self, client_first: bytes) -> bytes:
        self._step = _advance(self._step, 0)
        user, client_nonce, bare = _parse_client_first(decode_message(client_first), self._header)
        # The decoy is computed for known users too, so that both take the same time.
        decoy = decoy_credentials(user, self._secret, self._shapes)
        found = self._lookup(user)
        self._known = found is not None
        credentials = decoy if found is None else found
        self._credentials = credentials
        self._nonce = client_nonce + self._nonce
        first = f"r={self._nonce},s={encode_base64(credentials.salt)},i={credentials.iterations}"
        self._auth_prefix = f"{bare},{first}"
        return first.encode()

    @property
    def claimed(self) -> str:
        """Who the client says it is, whether there is such a user or not."""
        return self.credentials.user

    @property
    def credentials(self) -> Credentials:
        """What the proof is checked against: the user's when the login began, or a decoy's."""
        assert self._credentials is not None
        return self._credentials

    def finish(self, client_final: bytes) -> bytes:
        """Check the proof; the answer proves the server in turn. Raises AuthenticationFailed."""
        self._step = _advance(self._step, 1)
        credentials = self.credentials
        binding, nonce, proof_text = read_attributes(decode_message(client_final), "crp")
        if binding not in self._bindings:
            if self._header == _IN_CLEAR:
                raise ProtocolError("The client changed its channel binding during login.")
            raise AuthenticationFailed(
                "The client logs in over another TLS connection than the one that ends here: somebody stands between, "
                "or a proxy ends TLS."
            )
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise ProtocolError("The client's login answer belongs to another login: its nonce is not ours.")
        proof = decode_base64(proof_text, KEY_BYTES, KEY_BYTES)
        auth_message = f"{self._auth_prefix},c={binding},r={nonce}".encode()
        client_key = _xor(proof, _hmac(credentials.stored_key, auth_message))
        proven = hmac.compare_digest(hashlib.sha256(client_key).digest(), credentials.stored_key)
        signature = _hmac(credentials.server_key, auth_message)
        if not (proven and self._known):
            raise AuthenticationFailed("The user name or the password is wrong.")
        self.user = credentials.user
        return f"v={encode_base64(signature)}".encode()


def _bound(header: str, binding: bytes) -> str:
    return encode_base64(header.encode() + binding)


def _parse_client_first(text: str, header: str) -> tuple[str, str, str]:
    """User, nonce, and the message without its header, which both sides sign."""
    if not text.startswith(header):
        _refuse_header(text, header)
    bare = text.removeprefix(header)
    escaped, nonce = read_attributes(bare, "nr")
    check_peer_nonce(nonce, LOGIN_NONCE_CHARACTERS_MAX)
    return prepare_user(unescape_user(escaped)), nonce, bare


def _refuse_header(text: str, header: str) -> NoReturn:
    if header == _IN_CLEAR and text.startswith("p="):
        raise AuthenticationFailed(
            "The client logs in over TLS, which does not end at this server: somebody stands between, or a proxy ends "
            "TLS. Let TLS end at the server."
        )
    if header == _OVER_TLS and text.startswith(("n,", "y,")):
        raise AuthenticationFailed(
            f"Over TLS a login must be bound to its connection (SCRAM-SHA-256-PLUS with {channel_binding.NAME})."
        )
    raise ProtocolError(f"The login must begin with {header!r}; acting for another user is not supported.")


def _prepare(what: str, text: str, bytes_max: int) -> str:
    # Checked before preparing too, so that hostile text costs no more than the bound allows.
    if len(text) > bytes_max or len(prepared := saslprep(what, text).encode()) > bytes_max:
        raise AuthenticationFailed(f"A {what} has at most {bytes_max} bytes.")
    if not prepared:
        raise AuthenticationFailed(f"A {what} cannot be empty.")
    return prepared.decode()


def _advance(step: int, expected: int) -> int:
    # A repeated step would let a peer replay or guess within one login.
    if step != expected:
        raise ProtocolError("A login message came out of turn; start the login again.")
    return step + 1


def _salt_password(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def _stored_key(salted: bytes) -> bytes:
    return hashlib.sha256(_hmac(salted, b"Client Key")).digest()


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
