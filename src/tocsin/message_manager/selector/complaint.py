"""The error for a selector that is wrong, with a caret under the place."""

from __future__ import annotations

from tocsin.model.errors import InvalidSelector

EXCERPT_CHARACTERS_BEFORE = 40
EXCERPT_CHARACTERS_AFTER = 32
QUOTED_CHARACTERS_MAX = 20


def invalid(text: str, position: int, reason: str) -> InvalidSelector:
    """The error for what stands at `position`, counted from 0; a long selector is shown only around it."""
    start = max(0, position - EXCERPT_CHARACTERS_BEFORE)
    excerpt = _printable(text[start : position + EXCERPT_CHARACTERS_AFTER])
    caret = " " * (position - start) + "^"
    return InvalidSelector(f"Invalid selector at position {position}: {reason}.\n  {excerpt}\n  {caret}")


def quoted(text: str) -> str:
    """A piece of the selector for use inside a reason."""
    shown = text if len(text) <= QUOTED_CHARACTERS_MAX else text[: QUOTED_CHARACTERS_MAX - 3] + "..."
    return f"'{_printable(shown)}'"


def _printable(text: str) -> str:
    # Line ends would tear the caret from its line, and a lone surrogate could not be sent to the client.
    return "".join(character if character.isprintable() else " " for character in text)
