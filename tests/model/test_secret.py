from __future__ import annotations

import pickle

from tocsin.model.secret import Secret, secret

CANARY = "canary-4711"


def test_no_text_form_shows_it() -> None:
    hidden = Secret(CANARY)
    forms = [repr(hidden), str(hidden), f"{hidden}", f"{hidden!r:>20}", "%s %r" % (hidden, hidden), repr([hidden])]  # noqa: UP031
    assert not any(CANARY in form for form in forms)
    assert hidden.reveal() == CANARY


def test_it_compares_and_travels_as_its_value() -> None:
    assert Secret(CANARY) == Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY
    assert len({Secret(CANARY), Secret(CANARY)}) == 1
    assert pickle.loads(pickle.dumps(Secret(CANARY))) == Secret(CANARY)  # noqa: S301
    assert Secret("\ud800") == Secret("\ud800")


def test_what_is_given_as_it_is_gets_hidden() -> None:
    assert secret(None) is None
    assert secret(CANARY) == Secret(CANARY)
    assert secret(Secret(CANARY)) == Secret(CANARY)
