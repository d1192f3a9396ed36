from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.identity import NO_ID, IdSource, parse_id, show_id, unique_id

parts = st.tuples(
    st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
)


@given(parts, parts)
def test_ids_compare_as_their_parts_do(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> None:
    assert (unique_id(*one) < unique_id(*other)) == (one < other)
    assert (unique_id(*one) == unique_id(*other)) == (one == other)


def test_a_source_counts_up_and_never_repeats() -> None:
    source = IdSource(site=1, node=2, boot=3)
    made = [source.next() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert NO_ID not in made
    assert made[0] == unique_id(1, 2, 3, 1)


def test_sources_of_other_nodes_and_boots_never_meet() -> None:
    sources = [IdSource(site, node, boot) for site in (0, 1) for node in (0, 1) for boot in (0, 1)]
    made = [source.next() for source in sources for _ in range(10)]
    assert len(set(made)) == len(made)


def test_a_later_boot_comes_after_an_earlier_one() -> None:
    earlier, later = IdSource(1, 1, 255), IdSource(1, 1, 256)
    assert max(earlier.next() for _ in range(300)) < later.next()


@given(parts)
def test_text_and_back(of: tuple[int, int, int, int]) -> None:
    identity = unique_id(*of)
    assert len(identity) == 16
    assert parse_id(show_id(identity)) == identity


def test_text_has_no_leading_zeros() -> None:
    assert show_id(unique_id(1, 0, 0xAB, 16)) == "1.0.ab.10"
    assert show_id(NO_ID) == "0.0.0.0"


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", "x.2.3.4", "1.2.3.-4", "+1.2.3.4", "0x1.2.3.4", "01.2.3.4", "A.2.3.4",
     " 1.2.3.4", "1_0.2.3.4", "10000.2.3.4", "1.2.3.10000000000000000", "1.2.3.4\n",
     "\N{ARABIC-INDIC DIGIT THREE}.2.3.4"],
)  # fmt: skip
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not a unique id"):
        parse_id(text)


@given(st.text(alphabet="0123456789abcdefx.+-_ ", max_size=24))
def test_an_id_has_one_spelling(text: str) -> None:
    try:
        identity = parse_id(text)
    except ValueError:
        return
    assert show_id(identity) == text
