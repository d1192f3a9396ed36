from __future__ import annotations

import pytest

from tocsin.message_manager.selector.tokens import RESERVED, TokenKind, tokenize
from tocsin.model.errors import InvalidSelector
from tocsin.model.selector_limits import SELECTOR_CHARACTERS_MAX, SELECTOR_TOKENS_MAX


def _texts(text: str) -> list[str]:
    return [token.text for token in tokenize(text)[:-1]]


def test_symbols_need_no_space() -> None:
    assert _texts("a<>1<=b>=-.5*(c/2)") == [
        *("a", "<>", "1", "<=", "b", ">=", "-", ".5", "*", "(", "c", "/", "2", ")"),
    ]


def test_whitespace_is_space_tab_form_feed_and_line_ends() -> None:
    assert _texts(" a\t=\f1\r\n") == ["a", "=", "1"]
    with pytest.raises(InvalidSelector, match="no meaning"):
        tokenize("a\u00a0= 1")


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_in_any_case(word: str) -> None:
    for text in (word, word.lower(), word.title()):
        token = tokenize(text)[0]
        assert (token.kind, token.text) == (TokenKind.KEYWORD, word)


def test_a_letter_whose_capital_is_ascii_makes_no_keyword() -> None:
    # The capital of a dotless i is I, so this word in capitals would read IN.
    assert tokenize("\u0131n")[0].kind is TokenKind.NAME


@pytest.mark.parametrize("name", ["_a", "$a", "a_$9", "\u00e9t\u00e9", "\u540d", "\u20acuro", "A1"])
def test_names_have_the_characters_of_java_identifiers(name: str) -> None:
    assert [(token.kind, token.text) for token in tokenize(name)[:-1]] == [(TokenKind.NAME, name)]


def test_an_operator_ends_a_name() -> None:
    assert _texts("a-b") == ["a", "-", "b"]


@pytest.mark.parametrize("text", ["a.b", "#a", "a@b", 'a"b', "a;b", "\ud800", "a\x00"])
def test_other_characters_have_no_meaning(text: str) -> None:
    with pytest.raises(InvalidSelector, match="no meaning") as raised:
        tokenize(text)
    str(raised.value).encode()


@pytest.mark.parametrize(("text", "value"), [("''", ""), ("'it''s'", "it's"), ("''''", "'"), ("'a\nb'", "a\nb")])
def test_strings(text: str, value: str) -> None:
    token, _ = tokenize(text)
    assert (token.kind, token.value) == (TokenKind.STRING, value)


@pytest.mark.parametrize("text", ["'", "'a", "'a''", "a = 'b' 'c"])
def test_strings_without_end(text: str) -> None:
    with pytest.raises(InvalidSelector, match="no closing quote"):
        tokenize(text)


@pytest.mark.parametrize("text", ["5x", "0x", "1e", "7.e", "08L8", "1_000", "5\u00e9"])
def test_a_number_must_end(text: str) -> None:
    with pytest.raises(InvalidSelector):
        tokenize(text)


def test_the_length_is_bounded() -> None:
    assert len(tokenize("a" * SELECTOR_CHARACTERS_MAX)) == 2
    with pytest.raises(InvalidSelector, match="8192 are allowed"):
        tokenize("a" * (SELECTOR_CHARACTERS_MAX + 1))


def test_the_number_of_tokens_is_bounded_commas_apart() -> None:
    assert len(tokenize("(," * SELECTOR_TOKENS_MAX)) == 2 * SELECTOR_TOKENS_MAX + 1
    with pytest.raises(InvalidSelector, match="more than 1000"):
        tokenize("(" * (SELECTOR_TOKENS_MAX + 1))
