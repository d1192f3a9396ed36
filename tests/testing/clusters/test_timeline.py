"""Virtual time: the order of events, lives, pauses, traces."""

from __future__ import annotations

from tocsin.testing.clusters.timeline import Being, Timeline


def test_events_come_in_the_order_of_their_times() -> None:
    timeline, seen = Timeline("1"), list[tuple[float, int]]()
    for delay in (2.0, 1.0, 1.0):
        timeline.after(delay, None, seen.append, (delay, len(seen)))
    timeline.run_until(1.5)
    assert seen == [(1.0, 0), (1.0, 0)]
    assert timeline.time == 1.5
    timeline.run_until(3.0)
    assert seen[-1] == (2.0, 0)


def test_what_was_planned_in_one_life_does_not_happen_in_the_next() -> None:
    timeline, seen = Timeline("1"), list[str]()
    being = Being(timeline)
    being.begin_life()
    timeline.after(1.0, being, seen.append, "old")
    being.end_life()
    being.begin_life()
    timeline.after(1.0, being, seen.append, "new")
    timeline.run_until(2.0)
    assert seen == ["new"]


def test_events_of_one_who_is_paused_wait() -> None:
    timeline, seen = Timeline("1"), list[float]()
    being = Being(timeline)
    being.begin_life()
    timeline.after(1.0, being, lambda: seen.append(timeline.time))
    being.paused_until = 4.0
    timeline.run_until(5.0)
    assert seen == [4.0]


def test_what_is_said_is_part_of_the_trace() -> None:
    one, other = Timeline("1"), Timeline("1")
    one.note(b"yes")
    other.note(b"no")
    assert one.trace != other.trace
