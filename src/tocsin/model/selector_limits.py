"""The bounds of message selectors, with the asserts that relate them."""

from tocsin.model.limits import HEADER_TEXT_BYTES_MAX, ROWS_PER_STEP

SELECTOR_CHARACTERS_MAX = 8_192
SELECTOR_TOKENS_MAX = 1_000
"""Commas are not counted: they only separate the items of an IN list, which has its own bound."""
SELECTOR_NESTING_MAX = 64
SELECTOR_IN_LIST_ITEMS_MAX = 500
SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX = 512
"""Bounds the bit masks of a LIKE pattern, and with them the work per character of text."""
SELECTOR_DIGITS_MAX = 25
"""More digits than any long has; keeps a run of thousands of digits away from int()."""
SELECTOR_CLAUSES_MAX = 8
"""Each clause costs a compilation; what is beyond stays together as the last clause."""
SELECTOR_RATE_MAX = 2_000
"""Steps for each character of text, of all LIKE patterns together: 90 that try to match at each character. A step is
about a nanosecond of a slow processor."""
SELECTOR_STEPS_MAX = 20_000_000
"""To ask about one message, which can't be interrupted: one plain LIKE takes a text of 6 MB, the largest rate 10 KB."""
SELECTOR_STEPS_AT_STORE = 500_000
"""To ask subscriptions about a batch when it is stored; the others are asked when it is delivered."""
SELECTOR_STEPS_PER_ROW = 20_000
"""So many steps cost as much of a destination's turn as looking at one row."""

assert SELECTOR_NESTING_MAX < SELECTOR_TOKENS_MAX < SELECTOR_CHARACTERS_MAX
assert SELECTOR_IN_LIST_ITEMS_MAX < SELECTOR_TOKENS_MAX
assert SELECTOR_STEPS_AT_STORE < ROWS_PER_STEP * SELECTOR_STEPS_PER_ROW < SELECTOR_STEPS_MAX
assert SELECTOR_RATE_MAX * HEADER_TEXT_BYTES_MAX < SELECTOR_STEPS_MAX, "headers can always be selected by"
assert SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX < SELECTOR_CHARACTERS_MAX
