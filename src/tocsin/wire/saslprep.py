"""SASLprep (RFC 4013): one spelling for user names and passwords that look the same.

Map, normalise (NFKC), refuse what is prohibited, check the direction of the text: the four steps of
stringprep (RFC 3454) with the tables that the standard library has.
"""

from __future__ import annotations

import stringprep
import unicodedata
from collections.abc import Callable

from tocsin.model.errors import AuthenticationFailed

_PROHIBITED: tuple[Callable[[str], bool], ...] = (
    stringprep.in_table_a1,  # unassigned in Unicode 3.2: refused for stored and sent text alike
    stringprep.in_table_c12,  # spaces other than " "
    stringprep.in_table_c21_c22,  # control characters
    stringprep.in_table_c3,  # private use
    stringprep.in_table_c4,  # not characters
    stringprep.in_table_c5,  # surrogates
    stringprep.in_table_c6,  # not for plain text
    stringprep.in_table_c7,  # not for canonical text
    stringprep.in_table_c8,  # changes of direction
    stringprep.in_table_c9,  # tags
)


def saslprep(what: str, text: str) -> str:
    """The prepared form of `text`. An error names `what` and never a character: it may be a password."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    # Stringprep is defined on Unicode 3.2; a newer normalisation would give a stored name a second spelling.
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_prohibited(character) for character in prepared for is_prohibited in _PROHIBITED):
        raise AuthenticationFailed(f"The {what} contains a character that SASLprep (RFC 4013) does not allow.")
    _check_direction(what, prepared)
    return prepared


def _check_direction(what: str, prepared: str) -> None:
    """RFC 3454 section 6: right-to-left text has no left-to-right letters and has its own at both ends."""
    right_to_left = [stringprep.in_table_d1(character) for character in prepared]
    if not any(right_to_left):
        return
    if any(map(stringprep.in_table_d2, prepared)):
        raise AuthenticationFailed(f"A {what} cannot mix right-to-left and left-to-right letters.")
    if not (right_to_left[0] and right_to_left[-1]):
        raise AuthenticationFailed(f"A {what} with right-to-left letters must begin and end with one.")
