"""A power loss in every single write, sync and metadata operation of a server's life: nothing promised is broken.

The life runs once; in the middle of each operation the disk is taken as several crashes would leave it, and a second
server is opened on each of those images. Controls break a promise on purpose and must be caught.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.crash.checker import verify
from tests.crash.history import History
from tests.crash.watched import KeepAll, LoseAll, WatchedDisk, fates
from tests.crash.workload import begin, go_on, setup

from tocsin.message_manager import attachments, recovery, storing
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.producers import Producers, Verdict
from tocsin.message_manager.settlement import settle
from tocsin.message_manager.stages import Epochs
from tocsin.model.errors import IllegalState
from tocsin.node.broker import Broker
from tocsin.testing.clock import VirtualClock
from tocsin.testing.driver import Driver
from tocsin.wire.frames import Outcome

STEPS = 26
PARTS = 6


def life(
    watch: Callable[[WatchedDisk, VirtualClock, History], None] | None, steps: int = STEPS, *, at_once: bool = False
) -> WatchedDisk:
    """The whole workload; `watch` is called in the middle of every operation."""
    disk, clock, history = WatchedDisk(), VirtualClock(), History()
    if watch is not None:
        disk.watch = lambda: watch(disk, clock, history)
    driver = Driver(setup(at_once=at_once), disk, clock)
    begin(driver, history)
    go_on(driver, history, steps)
    return disk


def test_the_workload_covers_what_it_should() -> None:
    trace = "\n".join(life(None).trace)
    for needed in (
        "reserve.seg to journal/",  # segments are begun
        ".seg.tmp to journal/",  # rewritten
        "remove journal/0",  # dropped
        ".snap.tmp to snapshots/",  # snapshots taken
        "remove snapshots/",  # and dropped
        "create streams/",  # retained topics have files
        "remove streams/",  # which retention drops
    ):
        assert needed in trace, needed
    assert trace.count(".snap.tmp to snapshots/") >= 4


# Every operation of both kinds of lives is long; of every operation in one or the other, by turns, a part of each run.
BOTH = [(part, at_once) for part in range(PARTS) for at_once in (False, True)]
ALL_PARTS = [
    pytest.param(part, at_once, marks=() if part % 2 == at_once else pytest.mark.long) for part, at_once in BOTH
]


@pytest.mark.parametrize(("part", "at_once"), ALL_PARTS)
def test_a_crash_in_the_middle_of_every_operation(part: int, at_once: bool) -> None:
    checked = 0

    def watch(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
        nonlocal checked
        if disk.operations % PARTS != part:
            return
        # Of what is not synced all is lost; and, by turns, nothing or something.
        keep, lose, some = fates(disk.operations, 1)
        for random in (lose, keep if checked % 2 else some):
            verify(disk.crash(random), clock, history, twice=random is lose)
        checked += 1

    life(watch, at_once=at_once)
    assert checked > 50


def test_a_crash_during_recovery_and_draining_is_like_any_other() -> None:
    """Crashes of the second life, at some places of the first."""
    first: list[tuple[WatchedDisk, VirtualClock, History]] = []

    def stop(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
        if disk.operations % 150 == 60:
            first.append((disk, clock, history))
            _second_life(disk, clock, history)

    life(stop)
    assert len(first) >= 3


def _second_life(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
    """Recovery itself writes: a crash in any of its operations leads to the same promises."""
    image = WatchedDisk()
    image._root = disk.crash(LoseAll())._root
    later = VirtualClock(clock.wall() - clock.now())
    later.advance(clock.now())

    def watch() -> None:
        for random in (KeepAll(), LoseAll()):
            verify(image.crash(random), later, history)

    image.watch = watch
    Driver(setup(), image, later, boot=2)


# ---- controls: a promise is broken on purpose, and the checker says so


def broken_life(target: object, name: str, change: Any, *, at_once: bool = False) -> int:
    """How many crashes show that a promise was broken. Only the first life is a broken server."""
    caught = 0
    patch = pytest.MonkeyPatch()

    def watch(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
        nonlocal caught
        if disk.operations % 7:
            return
        patch.undo()
        try:
            verify(disk.crash(LoseAll()), clock, history)
        except AssertionError:
            caught += 1
        patch.setattr(target, name, change)

    patch.setattr(target, name, change)
    try:
        life(watch, steps=16, at_once=at_once)
    finally:
        patch.undo()
    return caught


@pytest.mark.parametrize("at_once", [False, True])
def test_the_controls_pass_when_nothing_is_broken(at_once: bool) -> None:
    assert broken_life(storing, "finish", storing.finish, at_once=at_once) == 0


def test_control_a_confirmation_before_the_sync() -> None:
    honest = Ledger.reply
    hasty = lambda self, origin, reply, lsn=0: honest(self, origin, reply, 0)  # noqa: E731
    assert broken_life(Ledger, "reply", hasty) > 5


def test_control_a_confirmation_that_does_not_wait_for_the_commit_that_was_begun() -> None:
    hasty = lambda self: self.clients.take_out()  # noqa: E731
    assert broken_life(Broker, "take_out", hasty, at_once=True) > 5


def test_control_an_acknowledgement_that_is_not_written() -> None:
    def forgetful(state: Any, view: Any, owner: Any, settlement: Any, lease: float, ledger: Any) -> Any:
        if settlement.outcome is not Outcome.ACKNOWLEDGE:
            return settle(state, view, owner, settlement, lease, ledger)
        for lock in view.locks.take(settlement.ranges, owner, 1_000)[0]:
            state.apply_finish(view, lock.start, lock.end, None)
        return 0, []

    assert broken_life(attachments, "settle", forgetful) > 5


def test_control_deliveries_without_a_reserve() -> None:
    def careless(state: Any, view: Any, ledger: Any) -> None:
        view.reserved = view.requested = 1 << 40

    assert broken_life(storing, "request_reserve", careless) > 5


def broken_recoveries(*changes: tuple[object, str, Any]) -> int:
    """How many crashes show that recovery itself is broken; the life before each was a good server's."""
    caught = 0

    def watch(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
        nonlocal caught
        if disk.operations % 7:
            return
        with pytest.MonkeyPatch.context() as patch:
            for target, name, change in changes:
                patch.setattr(target, name, change)
            try:
                verify(disk.crash(KeepAll()), clock, history)
            except (AssertionError, IllegalState):
                caught += 1

    life(watch, steps=16)
    return caught


def test_recoveries_pass_when_nothing_is_broken() -> None:
    assert broken_recoveries() == 0


def test_control_a_producer_that_is_not_remembered() -> None:
    """What was stored and not confirmed is sent again, and stored again."""
    forgotten = (Producers, "last_sequence", lambda self, producer_id: 0)
    assert broken_recoveries(forgotten, (Producers, "judge", lambda self, block: Verdict.NEW)) > 5


def test_control_epochs_that_are_forgotten() -> None:
    """What was committed and not answered is committed again."""
    assert broken_recoveries((Epochs, "apply", lambda self, record: None)) > 5


def test_control_attempts_that_are_forgotten() -> None:
    assert broken_recoveries((recovery.Recovery, "_attempt", lambda self, lsn, payload: None)) > 0


def test_control_a_disk_that_lies_about_syncs() -> None:
    caught = 0

    def watch(disk: WatchedDisk, clock: VirtualClock, history: History) -> None:
        nonlocal caught
        disk.lies = True
        if disk.operations % 7 == 0 and disk.operations > 60:
            try:
                verify(disk.crash(LoseAll()), clock, history)
            except Exception:
                caught += 1

    life(watch, steps=16)
    assert caught > 5
