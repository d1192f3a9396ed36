"""Attached consumers by their keys, and by their sessions and destinations: who goes must not look at all others."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.cluster.commands import ConsumerKey
from tocsin.message_manager.attaching import Attachment
from tocsin.message_manager.destination import DestinationState


class AttachmentTable:
    __slots__ = ("_by_key", "_by_session", "_by_state")

    def __init__(self) -> None:
        self._by_key: dict[ConsumerKey, Attachment] = {}
        # Dicts for their order, which is that of attaching.
        self._by_session: dict[bytes, dict[ConsumerKey, Attachment]] = {}
        self._by_state: dict[int, dict[ConsumerKey, Attachment]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[ConsumerKey]:
        return iter(self._by_key)

    def __contains__(self, key: ConsumerKey) -> bool:
        return key in self._by_key

    def __getitem__(self, key: ConsumerKey) -> Attachment:
        return self._by_key[key]

    def get(self, key: ConsumerKey) -> Attachment | None:
        return self._by_key.get(key)

    def items(self) -> Iterator[tuple[ConsumerKey, Attachment]]:
        return iter(self._by_key.items())

    def add(self, key: ConsumerKey, attachment: Attachment) -> None:
        self._by_key[key] = attachment
        self._by_session.setdefault(key[0], {})[key] = attachment
        self._by_state.setdefault(attachment.state.id, {})[key] = attachment

    def remove(self, key: ConsumerKey) -> Attachment | None:
        """Returns who it was, if it was there."""
        attachment = self._by_key.pop(key, None)
        if attachment is not None:
            session, state = self._by_session[key[0]], self._by_state[attachment.state.id]
            del session[key], state[key]
            if not session:
                del self._by_session[key[0]]
            if not state:
                del self._by_state[attachment.state.id]
        return attachment

    def of_session(self, session: bytes) -> list[tuple[ConsumerKey, Attachment]]:
        return list(self._by_session.get(session, {}).items())

    def of_session_at(self, session: bytes, state: DestinationState) -> Iterator[tuple[ConsumerKey, Attachment]]:
        """Those of a session at a destination, found among the fewer of the two; nothing may change meanwhile."""
        some, others = self._by_session.get(session, {}), self._by_state.get(state.id, {})
        few, many = (some, others) if len(some) <= len(others) else (others, some)
        return ((key, attachment) for key, attachment in few.items() if key in many)

    def of_state(self, state: DestinationState) -> list[tuple[ConsumerKey, Attachment]]:
        return list(self._by_state.get(state.id, {}).items())
