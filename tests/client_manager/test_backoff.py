"""Guessing gets slow, nobody is shut out by another, and what is remembered is bounded."""

from __future__ import annotations

import pytest

from tocsin.client_manager.backoff import Backoff, Failures
from tocsin.model.entrance_limits import (
    FAILED_LOGIN_MEMORY_SECONDS,
    FAILED_LOGINS_FREE,
    FAILED_LOGINS_FREE_SHARED,
    FAILED_LOGINS_KEPT,
    LOGIN_PAUSE_SECONDS_FIRST,
    LOGIN_PAUSE_SECONDS_MAX,
    LOGIN_PAUSE_SECONDS_MAX_SHARED,
)
from tocsin.model.errors import AuthenticationFailed, ResourceExhausted, TocsinError, from_code
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType, control
from tocsin.wire.scram import ScramClient, make_credentials

NEAR, FAR = "10.0.0.7", "10.0.0.8"


def tries(backoff: Backoff, user: str, place: str, now: float) -> bool:
    """One wrong guess; False when it was not even looked at."""
    try:
        backoff.check(user, place, now)
    except ResourceExhausted:
        return False
    backoff.failed(user, place, now)
    return True


def test_a_guesser_has_few_tries_and_then_one_a_minute() -> None:
    backoff, guesses = Backoff(), 0
    for second in range(3_600):
        guesses += sum(tries(backoff, "anna", NEAR, second + part / 100) for part in range(100))
    assert FAILED_LOGINS_FREE < guesses < FAILED_LOGINS_FREE + 10 + 3_600 / LOGIN_PAUSE_SECONDS_MAX


def test_a_pause_doubles_and_is_told() -> None:
    failures = Failures(FAILED_LOGINS_FREE, LOGIN_PAUSE_SECONDS_MAX)
    pauses = []
    for _ in range(FAILED_LOGINS_FREE + 20):
        failures.add("anna", 100.0)
        pauses.append(failures.pause("anna", 100.0))
    assert pauses[: FAILED_LOGINS_FREE - 1] == [0.0] * (FAILED_LOGINS_FREE - 1)
    assert pauses[FAILED_LOGINS_FREE - 1 :][:3] == [LOGIN_PAUSE_SECONDS_FIRST * times for times in (1, 2, 4)]
    assert pauses[-1] == LOGIN_PAUSE_SECONDS_MAX
    assert failures.pause("anna", 100.0 + LOGIN_PAUSE_SECONDS_MAX) == 0.0
    backoff = Backoff()
    for _ in range(FAILED_LOGINS_FREE):
        tries(backoff, "anna", NEAR, 0.0)
    with pytest.raises(ResourceExhausted, match=r"Too many logins have failed; try again in 0\.5 s"):
        backoff.check("anna", NEAR, 0.0)


def test_failures_are_in_the_log_and_do_not_fill_it(caplog: pytest.LogCaptureFixture) -> None:
    backoff = Backoff()
    for number in range(1_000):
        backoff.failed(f"anna-{number}" + 5_000 * "x", NEAR, 0.0)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("A login as 'anna-0xxx") and lines[0].endswith(
        f"{NEAR} has failed; 1 of that address until now."
    )
    assert len(lines) == 10 and max(map(len, lines)) < 200


def test_nobody_else_waits_for_a_guesser() -> None:
    backoff = Backoff()
    while tries(backoff, "anna", FAR, 0.0):
        pass
    backoff.check("anna", NEAR, 0.0)
    backoff.check("berta", FAR, 0.0)


def test_many_names_from_one_address_and_one_name_from_many_are_slow_and_shut_nobody_out_who_was_here() -> None:
    backoff = Backoff()
    backoff.succeeded("anna", NEAR)
    assert sum(tries(backoff, f"user-{number}", NEAR, 0.0) for number in range(1_000)) == FAILED_LOGINS_FREE_SHARED
    assert sum(tries(backoff, "anna", f"10.1.0.{number}", 0.0) for number in range(250)) == FAILED_LOGINS_FREE_SHARED
    backoff.check("anna", NEAR, 0.0)
    with pytest.raises(ResourceExhausted):
        backoff.check("anna", FAR, 0.0)
    with pytest.raises(ResourceExhausted):
        backoff.check("carla", NEAR, 0.0)
    # And who was not here waits for moments.
    backoff.check("anna", FAR, LOGIN_PAUSE_SECONDS_MAX_SHARED)
    backoff.check("carla", NEAR, LOGIN_PAUSE_SECONDS_MAX_SHARED)


def test_a_success_forgets_the_failures_of_this_user_alone() -> None:
    backoff = Backoff()
    for _ in range(FAILED_LOGINS_FREE - 1):
        assert tries(backoff, "anna", NEAR, 0.0)
    backoff.succeeded("anna", NEAR)
    assert sum(tries(backoff, "anna", NEAR, 0.0) for _ in range(100)) == FAILED_LOGINS_FREE


def test_failures_are_forgotten_after_a_while() -> None:
    backoff = Backoff()
    while tries(backoff, "anna", NEAR, 0.0):
        pass
    later = FAILED_LOGIN_MEMORY_SECONDS + 1.0
    assert sum(tries(backoff, "anna", NEAR, later) for _ in range(100)) == FAILED_LOGINS_FREE


def test_what_is_remembered_is_bounded() -> None:
    failures = Failures(1, 60.0, kept=100)
    for number in range(1_000):
        failures.add(number, float(number))
    assert len(failures) == 100 and failures.pause(999, 999.0) and not failures.pause(0, 999.0)
    backoff = Backoff()
    for number in range(FAILED_LOGINS_KEPT + 100):
        backoff.succeeded("anna", str(number))
    assert len(backoff._seen) == FAILED_LOGINS_KEPT


def proof(driver: Driver, user: str, password: str) -> tuple[ScriptedClient, bytes]:
    """A client that is about to prove itself, and how."""
    client = driver.dial()
    scram = ScramClient(user, password, nonce="client-nonce-0123456789")
    client.send(control(FrameType.HELLO, 0, {"version": 1, "user": user, "sasl": scram.start()}))
    answer = scram.answer(client.take(FrameType.CHALLENGE)[0].fields()["sasl"])
    return client, control(FrameType.RESPONSE, 0, {"sasl": answer})


def refusal(client: ScriptedClient) -> TocsinError:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    assert not client.open
    return from_code(fields["code"], fields["text"])


@pytest.mark.parametrize("user", ["anna", "nobody"])
def test_tries_that_were_begun_together_are_not_more_tries(user: str) -> None:
    anna = make_credentials("anna", "secret", salt=b"salt" * 4, iterations=100_000)
    driver = Driver(Setup(find_user={"anna": anna}.get))
    begun = [proof(driver, user, f"guess {number}") for number in range(FAILED_LOGINS_FREE + 3)]
    right = proof(driver, "anna", "secret")
    for client, answer in begun:
        client.send(answer)
    said = [type(refusal(client)) for client, _ in begun]
    assert said == [AuthenticationFailed] * FAILED_LOGINS_FREE + [ResourceExhausted] * 3
    right[0].send(right[1])
    if user == "anna":
        assert isinstance(refusal(right[0]), ResourceExhausted), "not even the right one is looked at"
        driver.advance(LOGIN_PAUSE_SECONDS_FIRST)
        client, answer = proof(driver, "anna", "secret")
        client.send(answer)
        assert client.take(FrameType.WELCOME)
    else:
        assert right[0].take(FrameType.WELCOME)
