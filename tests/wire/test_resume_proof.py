from __future__ import annotations

from tocsin.wire.resume_proof import resume_proof


def test_a_proof_is_good_for_one_token_and_one_login() -> None:
    proofs = {resume_proof(token, final) for token in (b"one", b"two") for final in (b"c=biws,r=1", b"c=biws,r=2")}
    assert len(proofs) == 4
    assert resume_proof(b"one", b"c=biws,r=1") in proofs
