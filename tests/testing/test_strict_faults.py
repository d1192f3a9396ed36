from __future__ import annotations

import pytest

from tocsin.testing.strict_faults import StrictFaults


@pytest.mark.makes_mistakes
def test_a_mistake_is_raised_again() -> None:
    error = KeyError("a mistake")
    with pytest.raises(KeyError) as caught:
        StrictFaults().note("simulating", error)
    assert caught.value is error
