"""A place in the tokens of a selector: what the parser looks at, takes, and complains about."""

from __future__ import annotations

from tocsin.message_manager.selector.complaint import invalid, quoted
from tocsin.message_manager.selector.tokens import Token, TokenKind, tokenize
from tocsin.model.errors import InvalidSelector
from tocsin.model.selector_limits import SELECTOR_NESTING_MAX


class Cursor:
    __slots__ = ("_depth", "_index", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    @property
    def position(self) -> int:
        return self.token.position

    def take(self) -> Token:
        token = self.token
        self._index += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether one of these keywords or symbols is next."""
        token = self.token
        return token.kind in (TokenKind.KEYWORD, TokenKind.SYMBOL) and token.text in words

    def accept(self, word: str) -> bool:
        if not self.sees(word):
            return False
        self._index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.expected(quoted(word))

    def expect_string(self, what: str) -> str:
        value = self.token.value
        if self.token.kind is not TokenKind.STRING or not isinstance(value, str):
            raise self.expected(what)
        self._index += 1
        return value

    def expect_end(self) -> None:
        if self.token.kind is not TokenKind.END:
            raise self.expected("an operator, AND, OR or the end")

    def enter(self) -> None:
        """Counts a level of nesting that begins at the next token; `leave` ends it."""
        self._depth += 1
        if self._depth > SELECTOR_NESTING_MAX:
            raise self.invalid(self.position, f"it is nested deeper than {SELECTOR_NESTING_MAX} levels")

    def leave(self) -> None:
        self._depth -= 1

    def expected(self, what: str) -> InvalidSelector:
        """The error that something else than the next token should stand here."""
        before = f" after {quoted(self._tokens[self._index - 1].text)}" if self._index else ""
        found = f", found {quoted(self.token.text)}" if self.token.kind is not TokenKind.END else ""
        return self.invalid(self.position, f"expected {what}{before}{found}")

    def invalid(self, position: int, reason: str) -> InvalidSelector:
        return invalid(self._text, position, reason)
