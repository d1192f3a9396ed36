"""Names of subscriptions in a cluster of several groups: topics of one name's past and present may live in any of them.

Before a named subscription is opened all groups are asked whether they know the name for another topic. One who uses
it, or has it as another kind, refuses (J79, J80). An unused one is dropped, but only when the new one is open:

    subscription.check    {topic, client_id, subscription, durable, shared, user} -> {found}, or refused
    subscription.replace  the same -> {}

All consumers of a client id sit at one client manager, so for them nothing can come in between. Two client managers
that open a shared subscription without client id, at the same moment and for two topics, may both succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tocsin.client_manager.merging import merge_deletions
from tocsin.client_manager.pending import Done, numbered
from tocsin.client_manager.placement import Ask
from tocsin.cluster.commands import Administer, Answer, Failed, OpenConsumer
from tocsin.model.destination import Kind
from tocsin.model.errors import InvalidDestination

Start = Callable[[Done], None]
"""Opens the consumer, and says how that went."""
_Replies = dict[int, Answer | Failed]


class SubscriptionNames:
    def __init__(self, groups: Sequence[int], ask: Ask) -> None:
        self._groups = groups
        self._ask = ask

    def concern(self, command: OpenConsumer) -> bool:
        return len(self._groups) > 1 and bool(command.subscription) and command.destination.kind is Kind.TOPIC

    def open(self, command: OpenConsumer, start: Start, done: Done) -> None:
        fields = {
            "topic": command.destination.name, "client_id": command.client_id, "subscription": command.subscription,
            "durable": command.durable, "shared": command.shared, "user": command.user,
        }  # fmt: skip

        def checked(replies: _Replies) -> None:
            failed = next((each for each in replies.values() if isinstance(each, Failed)), None)
            if failed is not None:
                done(Failed(command.request, failed.error))
                return
            found = [
                group for group, reply in replies.items() if isinstance(reply, Answer) and reply.fields.get("found")
            ]
            start(partial(opened, found))

        def opened(found: list[int], reply: Answer | Failed) -> None:
            done(reply)
            if isinstance(reply, Answer) and found:
                self._ask_all(found, "subscription.replace", fields, lambda replies: None)

        self._ask_all(self._groups, "subscription.check", fields, checked)

    def delete(self, command: Administer, done: Done) -> None:
        """J81: one of this client first, wherever it is; then a shared one without client id."""
        fields = {**command.fields, "exact": True}

        def own_deleted(replies: _Replies) -> None:
            merged = merge_deletions(command, list(replies.values()))
            missing = isinstance(merged, Failed) and isinstance(merged.error, InvalidDestination)
            if missing and fields.get("client_id") is not None:
                self._ask_all(self._groups, command.operation, {**fields, "client_id": None}, shared_deleted)
            else:
                done(numbered(merged, command.request))

        def shared_deleted(replies: _Replies) -> None:
            done(numbered(merge_deletions(command, list(replies.values())), command.request))

        self._ask_all(self._groups, command.operation, fields, own_deleted)

    def _ask_all(
        self, groups: Sequence[int], operation: str, fields: dict[str, Any], done: Callable[[_Replies], None]
    ) -> None:
        replies: _Replies = {}

        def take(group: int, reply: Answer | Failed) -> None:
            replies[group] = reply
            if len(replies) == len(groups):
                done(replies)

        for group in groups:
            self._ask(group, operation, fields, partial(take, group))
