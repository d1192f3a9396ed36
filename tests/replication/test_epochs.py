"""Runs of epochs against the naive list of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.replication.epochs import EpochRuns

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
        st.tuples(st.just("forget"), st.integers(0, 30)),
    ),
    max_size=40,
)


@given(STEPS)
def test_it_says_what_a_list_would_say(steps: list[tuple[str, int]]) -> None:
    runs, epochs, base = EpochRuns(), {0: 0}, 0
    last = 0
    for action, number in steps:
        if action == "append":
            epoch = epochs[last] + number
            last += 1
            epochs[last] = epoch
            assert runs.append(epoch) == last
        elif action == "cut":
            last = max(base, min(last, number))
            runs.cut(last)
        else:
            base = max(base, min(last, number))
            runs.forget(base)
        assert (runs.base_lsn, runs.last_lsn, runs.last_epoch) == (base, last, epochs[last])
    kept = {lsn: epochs[lsn] for lsn in range(base, last + 1)}
    for lsn, epoch in kept.items():
        assert runs.at(lsn) == epoch
        assert runs.run_start(lsn) == min(other for other in kept if kept[other] == epoch)
    for epoch in range(epochs[last] + 2):
        assert runs.end_of(epoch) == max((lsn for lsn in kept if kept[lsn] <= epoch), default=base)


def test_epochs_never_fall_along_a_log() -> None:
    runs = EpochRuns(10, 64)
    with pytest.raises(AssertionError):
        runs.append(63)
    with pytest.raises(AssertionError):
        runs.cut(9)
    with pytest.raises(AssertionError):
        runs.at(11)
    assert runs.runs() == [(10, 64)]
