"""LIKE patterns, matched in linear time whatever the pattern.

The pattern is cut at each `%` into segments of fixed length. The first must stand at the start of the text,
the last at its end, and those between are looked for from left to right, each from where the one before it
ended: the leftmost place is always good enough, so nothing is ever tried twice.

    'ab%c_d%e'  ->  starts with 'ab', then somewhere 'c', any, 'd', then ends with 'e'

A floating segment with `_` inside is found by a regular expression when it is short: it has neither choices
nor repetitions, so each place of the text costs at most as many comparisons as the segment has characters. A
longer one is found by the Shift-And method: one bit per pattern character says whether the text read so far
ends with that much of the segment, and each text character updates all bits in one step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.message_manager.selector.columns import Value
from tocsin.model.selector_limits import SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX

_ANY_ONE = None
SHORT_SEGMENT = 16
"""Of a longer one Shift-And is as fast at worst."""
_LONG_TEXT = 1_024
"""In a shorter one a segment is found sooner than its regular expression is looked up or made."""


class MalformedPattern(ValueError):
    """The reason why a LIKE pattern can't be used."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a pattern without `%`: runs of literal characters at fixed places."""

    size: int
    runs: tuple[tuple[int, str], ...]
    """Offset and text of each run, rising; the places between them match any character."""
    anchor: tuple[int, str]
    """The longest run, or an empty one."""
    masks: dict[str, int]
    """For each literal character the bits of the places where it fits; empty when there is no `_`."""
    any_mask: int
    """The bits of the places where every character fits."""

    @property
    def is_literal(self) -> bool:
        return len(self.anchor[1]) == self.size

    @property
    def is_short(self) -> bool:
        return self.size <= SHORT_SEGMENT

    def stands_at(self, text: str, position: int) -> bool:
        """Whether the text has this segment at a place where at least `size` characters are left."""
        return all(text.startswith(run, position + offset) for offset, run in self.runs)

    def find(self, text: str, start: int, end: int) -> int:
        """The first place in text[start:end] where the segment fits wholly, or -1."""
        offset, run = self.anchor
        if not run:
            return start if start + self.size <= end else -1
        # No match can begin before the longest run allows it: most texts are dismissed here.
        found = text.find(run, start + offset, end)
        if found < 0 or len(run) == self.size:
            return found
        if self.is_short and end - found > _LONG_TEXT:
            hit = re.compile(self._expression(), re.DOTALL).search(text, found - offset, end)
            return hit.start() if hit is not None else -1
        return self._shift_and(text, found - offset, end)

    def _expression(self) -> str:
        """The module `re` keeps what it has compiled."""
        parts: list[str] = []
        place = 0
        for offset, run in self.runs:
            parts += ["." * (offset - place), re.escape(run)]
            place = offset + len(run)
        return "".join([*parts, "." * (self.size - place)])

    def _shift_and(self, text: str, start: int, end: int) -> int:
        masks, any_mask = self.masks, self.any_mask
        complete = 1 << self.size - 1
        state = 0
        for position in range(start, end):
            state = (state << 1 | 1) & masks.get(text[position], any_mask)
            if state & complete:
                return position - self.size + 1
        return -1


@dataclass(frozen=True, slots=True)
class LikePattern:
    segments: tuple[Segment, ...]
    """What stands between the `%`; only one when there is none."""

    @property
    def literal(self) -> str | None:
        """The one text that matches, for a pattern without wildcards."""
        only = self.segments[0]
        return only.anchor[1] if len(self.segments) == 1 and only.is_literal else None

    @property
    def prefix(self) -> str:
        """What each matching text begins with."""
        runs = self.segments[0].runs
        return runs[0][1] if runs and runs[0][0] == 0 else ""

    @property
    def suffix(self) -> str:
        """What each matching text ends with."""
        last = self.segments[-1]
        offset, run = last.runs[-1] if last.runs else (0, "")
        return run if offset + len(run) == last.size else ""

    @property
    def infix(self) -> str:
        """The longest text that each matching text has between its two ends."""
        return max((segment.anchor[1] for segment in self.segments[1:-1]), key=len, default="")

    @property
    def is_decided_by_literals(self) -> bool:
        """Whether having one of prefix, suffix and infix is all there is, as in 'prefix%' or '%infix%'."""
        parts = [segment for segment in self.segments if segment.size]
        return len(self.segments) > 1 and len(parts) <= 1 and all(segment.is_literal for segment in parts)

    def matches(self, value: Value) -> bool:
        """Whether a value is a string that fits; a number or boolean never does."""
        if not isinstance(value, str):
            return False
        first, last = self.segments[0], self.segments[-1]
        if len(self.segments) == 1:
            return len(value) == first.size and first.stands_at(value, 0)
        end = len(value) - last.size
        position = first.size
        # Overlapping ends don't count: 'ab%bc' is not like 'abc'.
        if end < position or not first.stands_at(value, 0) or not last.stands_at(value, end):
            return False
        for segment in self.segments[1:-1]:
            found = segment.find(value, position, end)
            if found < 0:
                return False
            position = found + segment.size
        return True


def compile_like(pattern: str, escape: str | None) -> LikePattern:
    """Raises MalformedPattern."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise MalformedPattern("the pattern ends with its escape character, which then escapes nothing")
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY_ONE if character == "_" else character)
    # `%%` means the same as `%`, so an empty piece matters only at the two ends.
    floating = [_floating_segment(piece) for piece in pieces[1:-1] if piece]
    if len(pieces) == 1:
        return LikePattern((_segment(pieces[0]),))
    return LikePattern((_segment(pieces[0]), *floating, _segment(pieces[-1])))


def _segment(piece: Sequence[str | None]) -> Segment:
    runs = _runs(piece)
    return Segment(len(piece), runs, _longest(runs), {}, 0)


def _floating_segment(piece: Sequence[str | None]) -> Segment:
    if _ANY_ONE not in piece:
        return _segment(piece)
    if len(piece) > SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX:
        raise MalformedPattern(
            f"a part of the pattern with '_' between two '%' has {len(piece)} characters, "
            f"and {SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX} are allowed"
        )
    any_mask = sum(1 << place for place, character in enumerate(piece) if character is _ANY_ONE)
    masks: dict[str, int] = {}
    for place, character in enumerate(piece):
        if character is not _ANY_ONE:
            masks[character] = masks.get(character, any_mask) | 1 << place
    runs = _runs(piece)
    return Segment(len(piece), runs, _longest(runs), masks, any_mask)


def _runs(piece: Sequence[str | None]) -> tuple[tuple[int, str], ...]:
    runs: list[tuple[int, str]] = []
    run = ""
    for place, character in enumerate([*piece, _ANY_ONE]):
        if character is not _ANY_ONE:
            run += character
        elif run:
            runs.append((place - len(run), run))
            run = ""
    return tuple(runs)


def _longest(runs: tuple[tuple[int, str], ...]) -> tuple[int, str]:
    return max(runs, key=lambda pair: len(pair[1]), default=(0, ""))
