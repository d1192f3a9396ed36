"""What asking a selector about one message costs at most, in steps: a step is about a nanosecond of a slow processor.

    steps of a message  =  a fixed number  +  for each property or header that it names:  rate * length of its text

The rate of a name is the sum of what each predicate on it does with one character: a comparison or IN reads it, a LIKE
with plain text looks for that, and a LIKE with `_` between two `%` tries to match at each character. Costs are bounds
for any text, not averages: most texts are dismissed sooner.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.message_manager.selector.like import LikePattern
from tocsin.message_manager.selector.syntax import (
    Comparison,
    Expression,
    Identifier,
    Like,
    Literal,
    Membership,
    identifiers_of,
    parts_of,
)
from tocsin.model.errors import InvalidSelector
from tocsin.model.selector_limits import SELECTOR_RATE_MAX

_PART_STEPS = 40
"""An operator, comparison or value: as a call at worst."""
_NAME_STEPS = 60
"""A name's value is taken out of its column."""
_MADE_STEPS = 1_000
"""A message id is made for each message."""
_READ = 1
_FIND = 2
_MATCH = 20
"""Tried at each character by a regular expression of up to `SHORT_SEGMENT` places."""
_SHIFT = 120
"""Stepped over character by character."""


class Cost:
    """Of one selector."""

    __slots__ = ("rates", "steps")

    def __init__(self, tree: Expression) -> None:
        names = identifiers_of(tree)
        self.rates = dict.fromkeys(names, _READ)
        self.steps = len(names) * _NAME_STEPS + ("JMSMessageID" in names) * _MADE_STEPS
        for part in _all_parts(tree):
            self.steps += _PART_STEPS
            for name, rate in _rates_of(part):
                self.rates[name] += rate

    def check(self) -> None:
        """Refuses a selector of which it can be told without a message that it costs too much."""
        total = sum(self.rates.values())
        if total > SELECTOR_RATE_MAX:
            raise InvalidSelector(
                f"The selector costs {total} steps for each character of text that it looks at, and "
                f"{SELECTOR_RATE_MAX} are allowed: use fewer LIKE patterns, or patterns without '_' between two '%'."
            )


def _all_parts(tree: Expression) -> Iterator[Expression]:
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(parts_of(part))


def _rates_of(part: Expression) -> list[tuple[str, int]]:
    match part:
        case Like(subject=subject, pattern=pattern):
            return [(subject.name, _rate(pattern))]
        case Membership(subject=subject):
            return [(subject.name, _READ)]
        case Comparison(left=left, right=right) if not isinstance(left, Literal) and not isinstance(right, Literal):
            return [(each.name, _READ) for each in (left, right) if isinstance(each, Identifier)]
        case _:
            return []


def _rate(pattern: LikePattern) -> int:
    """Segments are looked for one behind another, so together they pass the text once; the dearest counts."""
    # `infix` is looked for first, by itself.
    rate = _FIND if pattern.infix else 0
    if pattern.is_decided_by_literals:
        return rate
    for segment in pattern.segments[1:-1]:
        if segment.is_literal:
            rate = max(rate, 2 * _FIND)
        else:
            rate = max(rate, _FIND + (_MATCH if segment.is_short else _SHIFT))
    return rate
