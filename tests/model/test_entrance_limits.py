"""The bounds of who comes in keep the same rules as all others."""

from __future__ import annotations

import re

from tocsin.model import entrance_limits, limits

OWN = {
    name: value
    for name, value in vars(entrance_limits).items()
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and not hasattr(limits, name)
}


def test_every_bound_is_a_positive_number() -> None:
    assert len(OWN) > 10
    for name, value in OWN.items():
        assert isinstance(value, float if "SECONDS" in name else int), name
        assert value > 0, name
