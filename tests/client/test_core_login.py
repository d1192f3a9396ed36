"""SCRAM from the client's side, against the server's own machine."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import CONNECTION, QUEUE, TOKEN, Dialogue

from tocsin.client.batching import BatchKey
from tocsin.client.core import Phase
from tocsin.client.core_publishing import Lane
from tocsin.client.pending import Pending
from tocsin.model import errors
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.wire.frames import Confirm, FrameType, Settled, control, signal, write_confirm, write_settled
from tocsin.wire.resume_proof import resume_proof
from tocsin.wire.scram import ScramServer, make_credentials

CREDENTIALS = make_credentials("ada", "lovelace", salt=b"saltsaltsalt", iterations=100_000)


def server(binding: bytes | None = None) -> ScramServer:
    return ScramServer(
        lambda user: CREDENTIALS if user == "ada" else None,
        nonce="servernonce" * 3,
        secret=b"a secret for decoys",
        bindings=None if binding is None else [binding],
    )


def put_one(lane: Lane) -> Pending:
    """A message that is under way; done when it is confirmed, or given up."""
    return lane.add(BatchKey(BodyKind.BYTES, DeliveryMode.PERSISTENT, 4, 0, 0, True), b"body", 4, 1_000, None)[
        0
    ].pending


def ada() -> Dialogue:
    return Dialogue(user="ada", password="lovelace")


def log_in(dialogue: Dialogue, binding: bytes | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole login, with a real server; gives the fields of HELLO and RESPONSE."""
    dialogue.core.tick(dialogue.now_seconds)
    dialogue.core.connected(dialogue.now_seconds, binding)
    (hello,) = dialogue.take(FrameType.HELLO)
    scram = server(binding)
    dialogue.say(control(FrameType.CHALLENGE, 0, {"sasl": scram.challenge(hello.fields()["sasl"])}))
    assert dialogue.core.login.proof is not None
    dialogue.core.prove(dialogue.core.login.proof())
    (response,) = dialogue.take(FrameType.RESPONSE)
    dialogue.welcome(login=True, sasl=scram.finish(response.fields()["sasl"]))
    return hello.fields(), response.fields()


@pytest.mark.parametrize("binding", [None, b"hash of a certificate"], ids=["in clear", "over TLS"])
def test_a_login_is_proved_by_both_sides(binding: bytes | None) -> None:
    dialogue = ada()
    log_in(dialogue, binding)
    assert dialogue.phase() is Phase.ONLINE


@pytest.mark.parametrize(
    "fields", [{}, {"login": True}, {"sasl": None}, {"sasl": "v=text"}, {"login": True, "sasl": 7}]
)
def test_a_server_that_skips_the_login_is_no_server(fields: dict[str, Any]) -> None:
    """Somebody who has the port of a server, or its place on the way, could say WELCOME."""
    dialogue = ada()
    dialogue.connect()
    dialogue.welcome(**fields)
    assert dialogue.phase() is Phase.CLOSED
    with pytest.raises(errors.AuthenticationFailed, match="may be an impostor"):
        dialogue.core.ready.get()


def test_a_server_that_skips_the_login_of_a_lost_connection_learns_and_confirms_nothing() -> None:
    dialogue = ada()
    log_in(dialogue)
    session = dialogue.session()
    lane = session.lane(QUEUE)
    dialogue.answer()
    message = put_one(lane)
    dialogue.lose()
    dialogue.connect()
    (hello,) = dialogue.take(FrameType.HELLO)
    assert TOKEN not in hello.payload

    dialogue.welcome(resumed=True)

    assert dialogue.phase() is Phase.CLOSED
    assert isinstance(message.error, errors.AuthenticationFailed)
    assert dialogue.listen() == []


@pytest.mark.parametrize(
    "frame",
    [
        write_confirm(1, Confirm(2, 1, 1 << 62, 1 << 40)),
        write_settled(1, Settled(3, 1)),
        control(FrameType.REPLY, 0, {"id": 1}),
        control(FrameType.NOTICE, 1, {"consumer": 3, "end": True}),
        control(FrameType.REFUSED, 1, {"producer": 2, "first": 1, "last": 1, "code": 1, "text": "no"}),
        signal(FrameType.PING),
    ],
    ids=["CONFIRM", "SETTLED", "REPLY", "NOTICE", "REFUSED", "PING"],
)
def test_nothing_counts_that_is_said_before_the_welcome(frame: bytes) -> None:
    dialogue = ada()
    log_in(dialogue)
    session = dialogue.session()
    lane = session.lane(QUEUE)
    dialogue.answer()
    message = put_one(lane)
    assert (lane.number, message.done) == (2, False)
    dialogue.lose()
    dialogue.connect()
    dialogue.take(FrameType.HELLO)

    dialogue.say(frame)

    assert dialogue.phase() is Phase.CLOSED
    assert isinstance(message.error, errors.ProtocolError)
    assert dialogue.listen() == []


def test_the_token_of_a_lost_connection_is_proved_and_not_shown() -> None:
    dialogue = ada()
    _, first = log_in(dialogue)
    assert "resume" not in first
    dialogue.lose()
    hello, response = log_in(dialogue)
    assert "resume" not in hello
    proof = resume_proof(TOKEN, response["sasl"])
    assert response["resume"] == {"connection": CONNECTION, "proof": proof}
    assert dialogue.phase() is Phase.ONLINE


def test_a_server_that_cannot_prove_itself_is_refused() -> None:
    dialogue = Dialogue(user="ada", password="lovelace")
    dialogue.connect()
    dialogue.take(FrameType.HELLO)

    dialogue.welcome(login=True)

    with pytest.raises(errors.AuthenticationFailed, match="without proving"):
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
