"""SCRAM-SHA-256 (RFC 5802, RFC 7677): both sides of the login as pure machines.

    client                                    server
    n,,n=<user>,r=<nonce>               ->
                                        <-    r=<nonce><server nonce>,s=<salt>,i=<iterations>
    c=biws,r=<both nonces>,p=<proof>    ->
                                        <-    v=<server signature>

Salt, proof and signature are base64. Channel binding is not offered: the header is always "n,,", and "biws"
is its base64. Neither side draws random numbers: nonces come from the caller.

The server keeps salted keys, never a password. A user it does not know goes through the same steps with decoy
credentials, so that neither the answers nor their timing tell which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

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

_GS2_HEADER = "n,,"
_CHANNEL_BINDING = encode_base64(_GS2_HEADER.encode())


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server keeps of a user's password."""

    user: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


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


def decoy_credentials(user: str, secret: bytes, iterations: int = PASSWORD_ITERATIONS_DEFAULT) -> Credentials:
    """Credentials of a user who does not exist: the same ones each time, and matched by no password.

    The secret must outlive a restart, or a salt that changes would give the decoy away.
    """
    salt, stored_key, server_key = (
        _hmac(secret, purpose + user.encode()) for purpose in (b"salt:", b"stored:", b"server:")
    )
    return Credentials(user, salt[:16], iterations, stored_key, server_key)


def prepare_user(user: str) -> str:
    """The form of a user name that is stored and compared. Raises AuthenticationFailed."""
    return _prepare("user name", user, USER_NAME_BYTES_MAX)


def prepare_password(password: str) -> str:
    """The form of a password that is salted."""
    return _prepare("password", password, PASSWORD_BYTES_MAX)


class ScramClient:
    """One login as the client sees it: start, answer, finish, each called once and in this order."""

    __slots__ = ("_auth_prefix", "_expected_signature", "_nonce", "_password", "_step", "_user")

    def __init__(self, user: str, password: str, *, nonce: str) -> None:
        self._user = prepare_user(user)
        self._password = prepare_password(password)
        self._nonce = check_own_nonce(nonce)
        self._step = 0
        self._auth_prefix = f"n={escape_user(self._user)},r={nonce}"
        self._expected_signature = b""

    def start(self) -> bytes:
        self._step = _advance(self._step, 0)
        return (_GS2_HEADER + self._auth_prefix).encode()

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
        final = f"c={_CHANNEL_BINDING},r={nonce}"
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

    __slots__ = ("_auth_prefix", "_credentials", "_known", "_lookup", "_nonce", "_secret", "_step", "user")

    def __init__(self, lookup: Callable[[str], Credentials | None], *, nonce: str, secret: bytes) -> None:
        if len(secret) < DECOY_SECRET_BYTES_MIN:
            raise ValueError(f"The secret for decoys has at least {DECOY_SECRET_BYTES_MIN} bytes, not {len(secret)}.")
        self._lookup = lookup
        self._nonce = check_own_nonce(nonce)
        self._secret = secret
        self._step = 0
        self._known = False
        self._credentials: Credentials | None = None
        self._auth_prefix = ""
        self.user: str | None = None

    def challenge(self, client_first: bytes) -> bytes:
        self._step = _advance(self._step, 0)
        user, client_nonce, bare = _parse_client_first(decode_message(client_first))
        # The decoy is computed for known users too, so that both take the same time.
        decoy = decoy_credentials(user, self._secret)
        found = self._lookup(user)
        self._known = found is not None
        credentials = decoy if found is None else found
        self._credentials = credentials
        self._nonce = client_nonce + self._nonce
        first = f"r={self._nonce},s={encode_base64(credentials.salt)},i={credentials.iterations}"
        self._auth_prefix = f"{bare},{first}"
        return first.encode()

    def finish(self, client_final: bytes) -> bytes:
        """Check the proof; the answer proves the server in turn. Raises AuthenticationFailed."""
        self._step = _advance(self._step, 1)
        credentials = self._credentials
        assert credentials is not None
        binding, nonce, proof_text = read_attributes(decode_message(client_final), "crp")
        if binding != _CHANNEL_BINDING:
            raise ProtocolError("The client changed its channel binding during login; only 'n,,' is supported.")
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


def _parse_client_first(text: str) -> tuple[str, str, str]:
    """User, nonce, and the message without its header, which both sides sign."""
    if not text.startswith(_GS2_HEADER):
        raise ProtocolError(
            "The login must begin with 'n,,': channel binding and acting for another user are not supported."
        )
    bare = text.removeprefix(_GS2_HEADER)
    escaped, nonce = read_attributes(bare, "nr")
    check_peer_nonce(nonce, LOGIN_NONCE_CHARACTERS_MAX)
    return prepare_user(unescape_user(escaped)), nonce, bare


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
