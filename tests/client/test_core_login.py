"""SCRAM from the client's side, against the server's own machine."""

from __future__ import annotations

import pytest
from tests.client.dialogue import Dialogue

from tocsin.client.core import Phase
from tocsin.model import errors
from tocsin.wire.frames import FrameType, control
from tocsin.wire.scram import ScramServer, make_credentials

CREDENTIALS = make_credentials("ada", "lovelace", salt=b"saltsaltsalt", iterations=4_096)


def server() -> ScramServer:
    return ScramServer(
        lambda user: CREDENTIALS if user == "ada" else None, nonce="servernonce" * 3, secret=b"a secret for decoys"
    )


def test_a_login_is_proved_by_both_sides() -> None:
    dialogue = Dialogue(user="ada", password="lovelace")
    dialogue.connect()
    (hello,) = dialogue.take(FrameType.HELLO)
    scram = server()
    dialogue.say(control(FrameType.CHALLENGE, 0, {"sasl": scram.challenge(hello.fields()["sasl"])}))
    assert dialogue.core.login.proof is not None
    dialogue.core.prove(dialogue.core.login.proof())
    (response,) = dialogue.take(FrameType.RESPONSE)

    dialogue.welcome(login=True, sasl=scram.finish(response.fields()["sasl"]))

    assert scram.user == "ada"
    assert dialogue.phase() is Phase.ONLINE


def test_a_server_that_cannot_prove_itself_is_refused() -> None:
    dialogue = Dialogue(user="ada", password="lovelace")
    dialogue.connect()
    dialogue.take(FrameType.HELLO)

    dialogue.welcome(login=True)

    with pytest.raises(errors.AuthenticationFailed, match="proving"):
        dialogue.core.ready.get()


def test_a_wrong_proof_of_the_server_is_refused() -> None:
    dialogue = Dialogue(user="ada", password="lovelace")
    dialogue.connect()
    (hello,) = dialogue.take(FrameType.HELLO)
    scram = server()
    dialogue.say(control(FrameType.CHALLENGE, 0, {"sasl": scram.challenge(hello.fields()["sasl"])}))
    assert dialogue.core.login.proof is not None
    dialogue.core.prove(dialogue.core.login.proof())

    dialogue.welcome(login=True, sasl=b"v=" + b"A" * 43 + b"=")

    with pytest.raises(errors.AuthenticationFailed):
        dialogue.core.ready.get()


def test_a_challenge_to_a_client_without_a_user_breaks_the_protocol() -> None:
    dialogue = Dialogue()
    dialogue.connect()

    dialogue.say(control(FrameType.CHALLENGE, 0, {"sasl": b"r=x,s=y,i=4096"}))

    with pytest.raises(errors.ProtocolError):
        dialogue.core.ready.get()


def test_a_server_without_users_is_accepted_though_a_user_was_given() -> None:
    dialogue = Dialogue(user="ada", password="lovelace")
    dialogue.login()
    assert dialogue.phase() is Phase.ONLINE
