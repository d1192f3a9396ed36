"""The proof that a returning client has the token of the connection it lost, which is never shown again.

    proof = HMAC-SHA-256(token, client-final message of the login that it comes with)

The message holds both nonces, so a proof is good for one login, and over TLS for one connection. Whoever gets it, an
impostor who asks for a login for instance, has learnt nothing of the token.
"""

from __future__ import annotations

import hmac


def resume_proof(token: bytes, client_final: bytes) -> bytes:
    return hmac.digest(token, client_final, "sha256")
