"""The bounds of selectors keep the same rules as all others."""

from __future__ import annotations

from tocsin.model import selector_limits

OWN = {name: value for name, value in vars(selector_limits).items() if name.startswith("SELECTOR_")}


def test_every_bound_is_a_positive_whole_number() -> None:
    assert len(OWN) > 8
    for name, value in OWN.items():
        assert isinstance(value, int) and value > 0, name
