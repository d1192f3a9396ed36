"""Text to tokens.

NUMBER    see literals           STRING    'it''s'
NAME      a Java identifier      KEYWORD   a reserved word in any case
SYMBOL    = <> > >= < <= + - * / ( ) ,
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto

from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.complaint import invalid, quoted
from tocsin.message_manager.selector.literals import NUMBER, MalformedNumber, read_approximate, read_exact
from tocsin.model.selector_limits import SELECTOR_CHARACTERS_MAX, SELECTOR_TOKENS_MAX

# What JMS calls whitespace: space, horizontal tab, form feed, line terminators.
WHITESPACE = " \t\f\r\n"

RESERVED = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})

_SPACE = re.compile(f"[{WHITESPACE}]*")
_STRING = re.compile(r"'[^']*(?:''[^']*)*'")
_SYMBOL = re.compile(r"<>|<=|>=|[=<>+\-*/(),]")

# Unicode categories of Java's identifier characters: letters, letter numbers, currency, connectors (`_`).
_STARTS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PARTS = _STARTS | {"Nd", "Mn", "Mc", "Cf"}


class TokenKind(Enum):
    NUMBER = auto()
    STRING = auto()
    NAME = auto()
    KEYWORD = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    """As written, but keywords in capitals."""
    position: int
    value: Value = None
    """What a literal stands for."""


def tokenize(text: str) -> list[Token]:
    """All tokens and an END; raises InvalidSelector for what is none."""
    if len(text) > SELECTOR_CHARACTERS_MAX:
        reason = f"it has {len(text)} characters, and {SELECTOR_CHARACTERS_MAX} are allowed"
        raise invalid(text, SELECTOR_CHARACTERS_MAX, reason)
    tokens: list[Token] = []
    counted = 0
    position = _skip_space(text, 0)
    while position < len(text):
        token, position = _next_token(text, position)
        tokens.append(token)
        counted += token.text != ","
        if counted > SELECTOR_TOKENS_MAX:
            raise invalid(text, token.position, f"it has more than {SELECTOR_TOKENS_MAX} words and symbols")
        position = _skip_space(text, position)
    tokens.append(Token(TokenKind.END, "", len(text.rstrip(WHITESPACE))))
    return tokens


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _next_token(text: str, position: int) -> tuple[Token, int]:
    character = text[position]
    if character == "'":
        return _string(text, position)
    if found := NUMBER.match(text, position):
        return _number(text, position, found)
    if found := _SYMBOL.match(text, position):
        return Token(TokenKind.SYMBOL, found.group(), position), found.end()
    if unicodedata.category(character) in _STARTS:
        return _name(text, position)
    raise invalid(text, position, f"the character {quoted(character)} has no meaning here")


def _string(text: str, position: int) -> tuple[Token, int]:
    found = _STRING.match(text, position)
    if found is None:
        raise invalid(text, position, "the string that begins here has no closing quote")
    literal = found.group()
    return Token(TokenKind.STRING, literal, position, literal[1:-1].replace("''", "'")), found.end()


def _number(text: str, position: int, found: re.Match[str]) -> tuple[Token, int]:
    literal, end = found.group(), found.end()
    if end < len(text) and _is_part(text[end]):
        raise invalid(text, position, f"a number can't be followed directly by {quoted(text[end])}")
    try:
        value = read_exact(literal) if found.lastgroup == "exact" else read_approximate(literal)
    except MalformedNumber as error:
        raise invalid(text, position, str(error)) from None
    return Token(TokenKind.NUMBER, literal, position, value), end


def _name(text: str, position: int) -> tuple[Token, int]:
    end = position + 1
    while end < len(text) and _is_part(text[end]):
        end += 1
    name = text[position:end]
    # Only ASCII words are reserved; upper() of some other letters would give ASCII ones.
    if name.isascii() and name.upper() in RESERVED:
        return Token(TokenKind.KEYWORD, name.upper(), position), end
    return Token(TokenKind.NAME, name, position), end


def _is_part(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_$"
    return unicodedata.category(character) in _PARTS
