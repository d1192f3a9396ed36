from __future__ import annotations

import pytest

from tocsin.message_manager.selector import Selector, compile_selector
from tocsin.model.errors import InvalidSelector
from tocsin.model.selector_limits import SELECTOR_RATE_MAX


def selector(text: str) -> Selector:
    found = compile_selector(text)
    assert found is not None
    return found


def rate(text: str) -> int:
    return sum(selector(text).cost.rates.values())


def test_each_predicate_on_a_text_costs_something_for_each_character() -> None:
    plain = rate("a LIKE '%x%'")
    assert rate("a = 'x'") < plain < rate("a LIKE '%x_y%'") < rate("a LIKE '%" + 20 * "x_" + "%'")
    assert rate("a LIKE '%x%' OR a LIKE '%y%'") > plain
    assert selector("a LIKE '%x%' AND b = 'y'").cost.rates.keys() == {"a", "b"}


def test_what_all_messages_cost_grows_with_the_selector() -> None:
    assert selector("a + b > 1").cost.steps > selector("a > 1").cost.steps > 0
    assert selector("JMSMessageID = 'x'").cost.steps > selector("a = 'x'").cost.steps


def test_a_selector_that_costs_too_much_for_any_text_is_refused_in_words() -> None:
    selector(" OR ".join(f"a LIKE '%{n}%'" for n in range(240))).cost.check()
    with pytest.raises(InvalidSelector, match=f"and {SELECTOR_RATE_MAX} are allowed"):
        selector(" OR ".join(f"a LIKE '%{n}_x%'" for n in range(240))).cost.check()
