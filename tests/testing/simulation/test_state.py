"""What a simulated group keeps: once each, in order, and the same after a snapshot."""

from __future__ import annotations

from tocsin.replication.log import NOOP, Entry
from tocsin.testing.simulation.state import PUBLISH, AppliedState, head, is_next, name_of


def test_each_sequence_once() -> None:
    assert is_next(1, 0) and is_next(8, 7)
    assert not is_next(7, 7) and not is_next(9, 7)


def test_a_snapshot_is_the_state() -> None:
    state = AppliedState()
    state.apply(1, Entry(64, NOOP, (b"",)))
    state.apply(2, Entry(64, PUBLISH, (head(40, 1), b"x")))
    state.apply(3, Entry(64, PUBLISH, (head(41, 1), b"y")))
    again = AppliedState.load(state.save(64))
    assert (again.lsn, again.digest, again.producers) == (3, state.digest, {40: 1, 41: 1})
    assert state.save(64).epoch == 64


def test_the_hash_tells_states_apart() -> None:
    one, other = AppliedState(), AppliedState()
    one.apply(1, Entry(64, PUBLISH, (head(40, 1), b"x")))
    other.apply(1, Entry(64, PUBLISH, (head(40, 2), b"x")))
    assert one.digest != other.digest
    assert name_of(Entry(64, NOOP, (b"",))) == (0, 0)
