"""Message groups (JMSXGroupID): all messages of a group go to one consumer, in order, as long as it is there."""

from __future__ import annotations

from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.filtering import groups_of
from tocsin.message_manager.view import Returned, View
from tocsin.model.batch import Block
from tocsin.model.limits import GROUP_RESERVED_MESSAGES_MAX, GROUPS_PER_VIEW_MAX
from tocsin.model.ranges import Range, RangeSet


def allowed_by_groups(view: View, consumer: Consumer, block: Block, first: int, ranges: list[Range]) -> list[Range]:
    """The messages that this consumer may have. Those of other consumers' groups are reserved for them."""
    groups = groups_of(block)
    mine = RangeSet()
    for start, end in ranges:
        for offset in range(start, end):
            group = groups[offset - first]
            owner = consumer if group is None else _owner(view, consumer, group)
            if owner is consumer:
                mine.add(offset, offset + 1)
            elif owner is None or not _reserve(view, owner, offset):
                # The other consumer has enough waiting: everybody else waits behind it, in order.
                return list(mine)
    return list(mine)


def _owner(view: View, consumer: Consumer, group: str) -> Consumer | None:
    owner = view.groups.get(group)
    if owner is None:
        if len(view.groups) >= GROUPS_PER_VIEW_MAX and not _forget_idle_group(view):
            return None
        view.groups[group] = owner = consumer
    return owner


def _forget_idle_group(view: View) -> bool:
    """A group whose owner has nothing in flight may move without breaking its order."""
    busy = {lock.owner for owner in set(view.groups.values()) for lock in view.locks.of(owner.key)}
    for group, owner in view.groups.items():
        if owner.key not in busy and not owner.reserved:
            del view.groups[group]
            return True
    return False


def _reserve(view: View, owner: Consumer, offset: int) -> bool:
    if offset in view.set_aside:
        return True  # It came back once and waits for its owner already.
    if sum(end - start for start, end in owner.reserved) >= GROUP_RESERVED_MESSAGES_MAX:
        return False
    view.set_aside.add(offset, offset + 1)
    if owner.reserved and owner.reserved[-1][1] == offset:
        owner.reserved[-1] = (owner.reserved[-1][0], offset + 1)
    else:
        owner.reserved.append((offset, offset + 1))
    return True


def leave_groups(view: View, consumer: Consumer, order: int, now: float) -> None:
    """A consumer goes: its groups may go to others, with what was reserved for it."""
    for group in [group for group, owner in view.groups.items() if owner is consumer]:
        del view.groups[group]
    for start, end in consumer.reserved:
        view.put_back(Returned(order, start, end, 0), now, now)
    consumer.reserved = []
