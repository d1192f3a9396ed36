"""How a new name may be written: so that two names that look alike are one, and no name turns the text around it.

Names that exist keep working; only where one comes into being is it looked at.
"""

from __future__ import annotations

import re
import unicodedata

from tocsin.model.errors import TocsinError

# Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm, and the deprecated ones.
BIDIRECTIONAL = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u206a-\u206f]")

# Zero-width characters, the soft hyphen, the mark of byte order, and tags: nothing of them is shown.
INVISIBLE = re.compile(r"[\u00ad\u200b-\u200d\u2060\ufeff\U000e0000-\U000e007f]")


def check_spelling(name: str, what: str, error: type[TocsinError]) -> str:
    """Returns a new name as it is; raises the error with a sentence when it is not to be made like that."""
    if name.isascii():
        return name
    turns = BIDIRECTIONAL.search(name)
    if turns:
        raise error(
            f"The {what} {name!r} contains {turns.group()!a}, which changes the direction of text; leave it out."
        )
    unseen = INVISIBLE.search(name)
    if unseen:
        raise error(f"The {what} {name!a} contains {unseen.group()!a}, which cannot be seen; leave it out.")
    if not unicodedata.is_normalized("NFC", name):
        raise error(
            f"The {what} {name!a} is not in Unicode's normal form NFC, so that another name may look the same;"
            f" write {unicodedata.normalize('NFC', name)!a}."
        )
    return name
