"""What the core's objects need of the shell that drives them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tocsin.client.core_consuming import ConsumerState


class Port(Protocol):
    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held whenever the core is touched, and never while anything is waited for."""

    def flush(self) -> None:
        """Writes the core's output and looks at its deadline again. Called with the lock held."""

    def wall_ms(self) -> int: ...

    def steady_ms(self) -> int:
        """Milliseconds on a clock that nobody sets."""

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        """Settlements of these consumers are to be durable: waits, or gives what can be awaited."""

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        """The same, and only who awaits it waits; then `check` may raise."""
