"""Requests that all groups answer, each for its part: one answer is made of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocsin.cluster.commands import Administer, Answer, Failed
from tocsin.model.errors import InvalidDestination
from tocsin.model.limits import PAGE_ITEMS_MAX

Replies = list[Answer | Failed]

_COUNTS = (
    "messages", "bytes", "delayed", "staged", "consumers", "in_flight", "published", "delivered", "acknowledged",
    "expired", "dead",
)  # fmt: skip


def merge_ended(replies: Replies) -> Answer | Failed:
    """A session or the like has ended everywhere."""
    return next((each for each in replies if isinstance(each, Failed)), Answer(0, {}))


def merge_pages(command: Administer, replies: Replies) -> Answer | Failed:
    """Pages of several lists in name order are the page of the list of all: what a page leaves out lies behind it."""
    failed = next((each for each in replies if isinstance(each, Failed)), None)
    if failed is not None:
        return failed
    pages = [each.fields for each in replies if isinstance(each, Answer)]
    named: dict[str, dict[str, Any]] = {}
    for page in pages:
        for entry in page["destinations"]:
            known = named.get(entry["name"])
            named[entry["name"]] = entry if known is None else merge_counts((known, entry))
    wish = command.fields.get("limit")
    limit = min(max(1, wish), PAGE_ITEMS_MAX) if isinstance(wish, int) else PAGE_ITEMS_MAX
    names = sorted(named)
    more = len(names) > limit or any(page["more"] for page in pages)
    return Answer(0, {"destinations": [named[name] for name in names[:limit]], "more": more})


def merge_counts(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each group has its own dead message queue; clients see one with the messages of all."""
    merged = dict(found[0])
    for fields in found[1:]:
        merged |= {name: merged[name] + fields[name] for name in _COUNTS if name in merged and name in fields}
    return merged


def merge_deletions(command: Administer, replies: Replies) -> Answer | Failed:
    """Somebody had it, or nobody; one who has it and can't delete it is the one that counts."""
    refused = [each for each in replies if isinstance(each, Failed)]
    for each in refused:
        if not isinstance(each.error, InvalidDestination):
            return each
    return next((each for each in replies if isinstance(each, Answer)), refused[0] if refused else Answer(0, {}))


MERGES: dict[str, Callable[[Administer, Replies], Answer | Failed]] = {
    "destination.list": merge_pages,
    "subscription.delete": merge_deletions,
}
