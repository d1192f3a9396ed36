"""The connection's machine: login, requests, heartbeat, reconnect, the end."""

from __future__ import annotations

import pytest
from tests.client.dialogue import CONNECTION, TOKEN, Dialogue

from tocsin.client.core import Phase
from tocsin.model import errors
from tocsin.wire.frames import FrameType, control, signal


def test_hello_says_who_we_are_and_welcome_opens_the_line() -> None:
    dialogue = Dialogue(client_id="me", heartbeat=7.0)

    hello = dialogue.login()

    assert (hello["client_id"], hello["heartbeat"], hello["version"]) == ("me", 7.0, 1)
    assert "resume" not in hello
    assert dialogue.phase() is Phase.ONLINE
    assert dialogue.core.ready.done
    assert dialogue.core.max_message_bytes == 1_000_000


def test_first_connection_is_given_up_after_each_server_was_tried_once() -> None:
    dialogue = Dialogue("tocsin://one:1,two:2")
    core = dialogue.core
    tried = []
    while not core.ready.is_done():
        dialogue.pass_time(10)
        if core.dial is not None:
            tried.append(core.dial)
            core.connect_failed(dialogue.now_seconds, errors.ConnectionFailed("refused"))

    assert tried == [("one", 1), ("two", 2)]
    with pytest.raises(errors.ConnectionFailed, match="refused"):
        core.ready.get()


def test_refused_login_is_final() -> None:
    dialogue = Dialogue()
    dialogue.connect()

    dialogue.say(control(FrameType.FAILURE, 0, {"request": 0, "code": 7, "text": "Wrong password."}))

    with pytest.raises(errors.AuthenticationFailed, match="Wrong password"):
        dialogue.core.ready.get()
    assert dialogue.phase() is Phase.CLOSED


def test_a_server_that_does_not_answer_the_login_is_left() -> None:
    dialogue = Dialogue()
    dialogue.connect()

    dialogue.pass_time(10.1)

    assert dialogue.phase() is Phase.CLOSED
    with pytest.raises(errors.ConnectionFailed, match="login"):
        dialogue.core.ready.get()


def test_ping_is_answered_and_sent_when_nothing_else_was() -> None:
    dialogue = Dialogue(heartbeat=4.0)
    dialogue.login()
    dialogue.ping()
    assert len(dialogue.take(FrameType.PONG)) == 1

    assert dialogue.core.next_deadline() == dialogue.now_seconds + 4.0
    dialogue.pass_time(4.0)
    assert len(dialogue.take(FrameType.PING)) == 1


def test_a_deadline_that_comes_nearer_is_announced() -> None:
    dialogue = Dialogue(heartbeat=4.0)
    dialogue.connect()
    dialogue.core.hurry = False

    dialogue.welcome()

    assert dialogue.core.hurry, "the thread that runs the timers may sleep towards the login's deadline"


def test_the_smaller_heartbeat_counts_and_silence_loses_the_line() -> None:
    dialogue = Dialogue(heartbeat=10.0)
    dialogue.login(heartbeat=2.0)

    dialogue.pass_time(3.9)
    assert dialogue.phase() is Phase.ONLINE
    dialogue.pass_time(0.1)
    assert dialogue.phase() is Phase.DOWN


def test_reconnect_resumes_with_the_token_and_repeats_open_requests() -> None:
    dialogue = Dialogue()
    dialogue.login()
    pending = dialogue.core.request(0, "destination.list", {})
    assert [request["op"] for request in dialogue.requests()] == ["destination.list"]

    dialogue.lose()
    assert not pending.is_done()
    hello = dialogue.login(resumed=True)

    assert hello["resume"] == {"connection": CONNECTION, "token": TOKEN}
    assert [request["op"] for request in dialogue.answer()] == ["destination.list"]
    assert pending.is_done()
    assert pending.error is None


def test_reconnect_pauses_grow_and_hosts_alternate() -> None:
    dialogue = Dialogue("tocsin://one:1,two:2", reconnect_timeout=1000.0)
    dialogue.login()
    dialogue.lose()
    pauses, hosts = [], []
    for _ in range(8):
        deadline = dialogue.core.next_deadline()
        assert deadline is not None
        pauses.append(deadline - dialogue.now_seconds)
        dialogue.pass_time(deadline - dialogue.now_seconds)
        assert dialogue.core.dial is not None
        hosts.append(dialogue.core.dial[0])
        dialogue.core.connect_failed(dialogue.now_seconds, errors.ConnectionFailed("refused"))

    assert pauses[0] == 0
    assert pauses[1:] == sorted(pauses[1:])
    assert max(pauses) <= 7.5
    assert set(hosts) == {"one", "two"}
    assert hosts[0] == "two", "the server that was lost is not the first to be tried"


def test_after_reconnect_timeout_everything_fails_and_on_error_is_told() -> None:
    dialogue = Dialogue(reconnect_timeout=5.0)
    dialogue.login()
    session = dialogue.session()
    pending = dialogue.core.request(0, "destination.list", {})
    dialogue.lose()

    dialogue.pass_time(5.1)

    assert dialogue.phase() is Phase.CLOSED
    with pytest.raises(errors.ConnectionFailed, match="5 s"):
        pending.get()
    with pytest.raises(errors.ConnectionFailed):
        session.check_open()
    assert [type(error) for error in dialogue.core.untold] == [errors.ConnectionFailed]


def test_a_connection_healed_in_time_tells_nobody() -> None:
    dialogue = Dialogue(reconnect_timeout=5.0)
    dialogue.login()
    dialogue.lose()
    dialogue.login()

    dialogue.say(signal(FrameType.PONG))
    dialogue.pass_time(6)

    assert dialogue.phase() is Phase.ONLINE
    assert not dialogue.core.untold


def test_servers_that_greet_and_hang_up_are_given_up_in_time() -> None:
    dialogue = Dialogue(reconnect_timeout=5.0)
    dialogue.login()
    dialogue.pass_time(9)
    dialogue.ping()
    dialogue.lose()
    lost_at, logins = dialogue.now_seconds, 0
    while dialogue.phase() is not Phase.CLOSED:
        if dialogue.core.dial is not None:
            dialogue.login()
            dialogue.lose()
            logins += 1
        deadline = dialogue.core.next_deadline()
        assert deadline is not None and logins < 10
        dialogue.pass_time(deadline - dialogue.now_seconds)

    assert dialogue.now_seconds == lost_at + 5.0
    (error,) = dialogue.core.untold
    assert "No connection has worked for 5 s; last: The test has cut the line." in str(error)


def test_a_server_that_greets_and_says_nothing_more_is_given_up_in_time() -> None:
    dialogue = Dialogue(reconnect_timeout=50.0)
    dialogue.login(heartbeat=1.0)
    while dialogue.phase() is not Phase.CLOSED:
        deadline = dialogue.core.next_deadline()
        assert deadline is not None and dialogue.now_seconds < 1_100
        dialogue.pass_time(deadline - dialogue.now_seconds)
        if dialogue.core.dial is not None:
            dialogue.login(heartbeat=1.0)
    (error,) = dialogue.core.untold
    assert "silent" in str(error)


def test_a_client_id_that_is_still_held_is_tried_again_after_a_loss() -> None:
    dialogue = Dialogue(client_id="me")
    dialogue.login()
    dialogue.lose()
    dialogue.connect()

    dialogue.say(control(FrameType.FAILURE, 0, {"request": 0, "code": 3, "text": "In use."}))
    assert dialogue.phase() is Phase.DOWN

    dialogue.pass_time(1)
    dialogue.core.connected(dialogue.now_seconds)
    dialogue.welcome()
    assert dialogue.phase() is Phase.ONLINE


def test_failure_of_a_request_raises_the_servers_error() -> None:
    dialogue = Dialogue()
    dialogue.login()
    pending = dialogue.core.request(0, "destination.delete", {"destination": "queue:orders"})

    dialogue.refuse(4, "The destination is in use.")

    with pytest.raises(errors.InvalidDestination, match="in use"):
        pending.get()


def test_a_broken_frame_loses_the_line_and_it_is_taken_up_again() -> None:
    dialogue = Dialogue()
    dialogue.login()

    dialogue.say(b"\xff" * 64)

    assert dialogue.phase() is Phase.DOWN
    dialogue.login()
    assert dialogue.phase() is Phase.ONLINE


def test_goodbye_of_the_server_leads_to_another() -> None:
    dialogue = Dialogue("tocsin://one:1,two:2")
    dialogue.login()

    dialogue.say(control(FrameType.GOODBYE, 0, {}))

    dialogue.pass_time(0)
    assert dialogue.core.dial == ("two", 2)


def test_close_says_goodbye_and_everything_after_is_illegal() -> None:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()

    dialogue.core.close()

    assert len(dialogue.take(FrameType.GOODBYE)) == 1
    with pytest.raises(errors.IllegalState, match="closed"):
        session.check_open()
    with pytest.raises(errors.IllegalState):
        dialogue.core.open_session("auto")
    assert not dialogue.core.untold
    assert dialogue.core.next_deadline() is None


def test_an_unasked_reply_is_ignored() -> None:
    dialogue = Dialogue()
    dialogue.login()
    dialogue.say(control(FrameType.REPLY, 0, {"id": 99}))
    assert dialogue.phase() is Phase.ONLINE
