"""Message groups (JMSXGroupID): all messages of a group go to one consumer, in order, as long as it is there.

A consumer that finds messages of another one's groups reserves them for it, up to a bound; behind that bound everybody
waits, so that the order within the groups stays. A consumer whose selector does not want a message can't own it.
"""

from __future__ import annotations

from tocsin.message_manager.budget import Step
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.filtering import groups_of
from tocsin.message_manager.view import View
from tocsin.model.batch import Block
from tocsin.model.limits import GROUP_RESERVED_MESSAGES_MAX, GROUPS_PER_VIEW_MAX
from tocsin.model.ranges import Range, RangeSet

_GROUPS_PER_ROW = 64
"""Asking so many groups for their owners costs as much as looking at one row."""


def allowed_by_groups(
    view: View, consumer: Consumer, block: Block, lsn: int, first: int, ranges: list[Range], step: Step
) -> tuple[list[Range], bool]:
    """The messages that this consumer may have, and whether all of the ranges have been looked at.

    Raises StillLooking: what was reserved for others until then stays reserved.
    """
    groups = groups_of(block)
    mine = RangeSet()
    for start, end in ranges:
        for offset in range(start, end):
            group = groups[offset - first]
            owner = consumer if group is None else _owner(view, consumer, group, bool(mine), step)
            if owner is consumer or (owner is not None and not _wants(owner, offset, lsn, first, block, step)):
                mine.add(offset, offset + 1)
            elif owner is None or not _reserve(view, owner, offset):
                return list(mine), False
    return list(mine), True


def _wants(owner: Consumer, offset: int, lsn: int, first: int, block: Block, step: Step) -> bool:
    return owner.selector is None or offset in owner.matches(lsn, first, block, step)


def _owner(view: View, consumer: Consumer, group: str, busy: bool, step: Step) -> Consumer | None:
    """Who has the group; this consumer when nobody does. `busy`: it is about to get messages in this very step."""
    owner = view.groups.get(group)
    if owner is None:
        full = len(view.groups) >= GROUPS_PER_VIEW_MAX
        if full and not _forget_idle_group(view, consumer if busy else None, step):
            return None
        view.groups[group] = owner = consumer
        if consumer.groups is None:
            consumer.groups = set()
        consumer.groups.add(group)
    return owner


def _forget_idle_group(view: View, excepted: Consumer | None, step: Step) -> bool:
    """A group whose owner has nothing in flight may move without breaking its order.

    Those of busy owners go to the end of the line, so that the next who asks does not look at them again.
    """
    for looked in range(len(view.groups)):
        group = next(iter(view.groups))
        owner = view.groups[group]
        if not view.locks.count_of(owner.key) and owner is not excepted and not owner.reserved:
            assert owner.groups is not None
            owner.groups.remove(group)
            del view.groups[group]
            step.rows -= looked // _GROUPS_PER_ROW
            view.look_again()
            return True
        view.groups.move_to_end(group)
    step.rows -= len(view.groups) // _GROUPS_PER_ROW
    return False


def _reserve(view: View, owner: Consumer, offset: int) -> bool:
    if offset in view.set_aside:
        return True  # It came back once and waits for its owner already.
    if owner.reserved_messages >= GROUP_RESERVED_MESSAGES_MAX:
        return False
    view.set_aside.add(offset, offset + 1)
    owner.reserve(offset)
    return True


def leave_groups(view: View, consumer: Consumer) -> list[Range]:
    """A consumer goes: its groups may go to others. Returns what was reserved for it, which has to be put back."""
    for group in consumer.groups or ():
        del view.groups[group]
    consumer.groups = None
    reserved = list(consumer.reserved)
    consumer.reserved.clear()
    consumer.reserved_messages = 0
    view.look_again()
    return reserved
