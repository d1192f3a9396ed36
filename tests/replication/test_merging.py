"""Log matching (R2): pieces are taken only where the logs agree, and only a suffix is ever cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replication.seat import Seat, entry

from tocsin.replication.context import Unsafe
from tocsin.replication.events import ReadLog
from tocsin.replication.log import Entry
from tocsin.replication.merging import LogPuller, Merged
from tocsin.replication.messages import Fetch, Fetched
from tocsin.replication.serving import Serving


def puller(seat: Seat, epoch: int = 128) -> LogPuller:
    seat.log.promise(epoch)
    return LogPuller(seat.context, epoch, source=2)


def test_what_follows_the_same_record_is_appended() -> None:
    seat = Seat(1, 64, 64)
    pull = puller(seat)
    assert pull.merge(3, 64, [entry(64), entry(128)]) is Merged.TAKEN
    assert (seat.epochs(), pull.matched) == ([64, 64, 64, 128], 4)


def test_a_piece_behind_the_end_is_a_gap() -> None:
    seat = Seat(1, 64)
    assert puller(seat).merge(3, 64, [entry(64)]) is Merged.GAP
    assert seat.log.last_lsn == 1


def test_another_record_before_the_piece_is_a_mismatch() -> None:
    seat = Seat(1, 64, 65)
    pull = puller(seat)
    assert pull.merge(3, 64, [entry(128)]) is Merged.MISMATCH
    assert (seat.epochs(), pull.matched) == ([64, 65], 0)


def test_a_conflicting_suffix_is_cut_and_nothing_before_it() -> None:
    seat = Seat(1, 64, 65, 65, 65)
    assert puller(seat).merge(2, 64, [entry(64), entry(128)]) is Merged.TAKEN
    assert seat.epochs() == [64, 64, 128]


def test_what_is_there_already_stays() -> None:
    seat = Seat(1, 64, 64, 64)
    pull = puller(seat, epoch=64)
    assert pull.merge(2, 64, [entry(64)]) is Merged.TAKEN
    assert (seat.epochs(), pull.matched) == ([64, 64, 64], 2), "an ORDER that was overtaken cuts nothing"


def test_behind_a_record_of_this_epoch_older_records_go() -> None:
    seat = Seat(1, 64, 64, 64)
    puller(seat).merge(2, 64, [entry(128)])
    assert seat.epochs() == [64, 128]
    seat = Seat(1, 64, 128, 128)
    seat.log.cut(2)
    seat.log.append(entry(128))
    pull = puller(seat)
    pull.merge(2, 64, [entry(128)])
    assert seat.epochs() == [64, 128, 128]


def test_a_committed_record_is_never_cut() -> None:
    seat = Seat(1, 64, 64, 64)
    seat.context.commit(3, 0)
    with pytest.raises(Unsafe, match="all up to 3 are committed"):
        puller(seat).merge(2, 64, [entry(128)])


def test_a_committed_record_that_differs_is_told_apart_from_a_guess() -> None:
    seat = Seat(1, 64, 64)
    seat.context.commit(2, 0)
    with pytest.raises(Unsafe, match="Record 2 is committed"):
        puller(seat).fetched(Fetched(128, 3, 65, 0, 0, (entry(128),)))


def test_what_a_snapshot_covers_matches() -> None:
    seat = Seat(1, 64, 64, 64)
    seat.log.save(seat.log.saved._replace(lsn=3, epoch=64), keep=0)
    pull = puller(seat)
    assert pull.merge(1, 0, [entry(64)]) is Merged.TAKEN
    assert pull.merge(2, 64, [entry(64), entry(64), entry(128)]) is Merged.TAKEN
    assert (pull.matched, seat.log.epoch_at(4)) == (4, 128)


def test_the_answer_that_it_is_too_old() -> None:
    assert puller(Seat(1)).fetched(Fetched(128, 7, 0, 9, 7, ())) is Merged.TOO_OLD


def test_asking_again_waits_a_moment() -> None:
    seat = Seat(1, 64)
    pull = puller(seat)
    pull.ask(10.0)
    assert seat.sent() == [((2,), Fetch(128, 2, 64))]
    assert not pull.may_ask(10.1)
    assert pull.may_ask(10.0 + seat.context.settings.fetch_seconds)


COMMON = st.lists(st.sampled_from([1, 2, 64]), max_size=5).map(sorted)
OWN = st.lists(st.sampled_from([65, 129]), max_size=4).map(sorted)
OTHER = st.lists(st.sampled_from([66, 130]), max_size=4).map(sorted)


@given(COMMON, OWN, OTHER)
def test_any_log_becomes_the_source_step_by_step(common: list[int], own: list[int], other: list[int]) -> None:
    """Wherever two logs part, some rounds of FETCH and FETCHED make the one equal to the other. An epoch has
    one primary, so behind the place where they part they share no epoch.
    """
    seat, source = Seat(1, *common, *own), Seat(2, *common, *other, 192)
    seat.log.promise(192)
    serving = Serving(source.context)
    pull = LogPuller(seat.context, 192, source=2)
    for _ in range(12):
        pull.ask(0.0)
        ((_, request),) = seat.sent()
        assert isinstance(request, Fetch)
        serving.fetch(1, request)
        pull.fetched(answered(source))
        if pull.matched == source.log.last_lsn:
            break
    assert seat.epochs() == source.epochs()


def answered(source: Seat) -> Fetched:
    """Do the read that serving asks for, and give its answer."""
    for effect in source.taken():
        if isinstance(effect, ReadLog):
            entries: tuple[Entry, ...] = source.log.read(effect.first, effect.last)
            before = source.log.epoch_at(effect.first - 1)
            return Fetched(192, effect.first, before, 0, source.log.base_lsn, entries)
        message = getattr(effect, "message", None)
        if isinstance(message, Fetched):
            return message
    raise AssertionError("no answer")
