from __future__ import annotations

from dataclasses import replace

import pytest
from tests.spark.pipelines.archives import append, data_file, topic_range

from tocsin.model.errors import ArchiveDamaged, NewerFormat
from tocsin.spark.pipelines.archive_log import ArchiveState, Commit, check_epoch, gaps, small_files


def state_of(*commits: Commit) -> ArchiveState:
    state = ArchiveState()
    for commit in commits:
        state.apply(commit)
    return state


def compaction(number: int, file_end: int, *removes: str) -> Commit:
    new = data_file(number, 0, file_end)
    return Commit(number=number, kind="compact", run="r", time=100 + number, files=(new,), removes=removes)


def test_a_commit_comes_back_from_its_bytes() -> None:
    commit = append(3, 0, 10)
    assert Commit.from_bytes(commit.to_bytes(), 3) == commit


def test_a_commit_under_another_number_is_damage() -> None:
    with pytest.raises(ArchiveDamaged, match=r"Commit 4 .* says that it is number 3"):
        Commit.from_bytes(append(3, 0, 10).to_bytes(), 4)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"v": 1}', b'{"v": 1, "number": 0, "colour": 2}'])
def test_what_is_no_commit_is_damage(data: bytes) -> None:
    with pytest.raises(ArchiveDamaged):
        Commit.from_bytes(data, 0)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(NewerFormat, match="format 2"):
        Commit.from_bytes(append(0, 0, 1).to_bytes().replace(b'"v": 1', b'"v": 2'), 0)


def test_ranges_that_join_are_one() -> None:
    state = state_of(append(0, 0, 10), append(1, 10, 15))
    assert state.ranges == {"prices": [topic_range(0, 15)]}
    assert (state.query, state.epoch, state.number) == ("query", 1, 1)
    assert gaps(state.ranges["prices"]) == []


def test_a_gap_between_ranges_is_found() -> None:
    state = state_of(append(0, 0, 10), append(1, 12, 15))
    assert gaps(state.ranges["prices"]) == [(10, 12)]


def test_a_topic_that_was_made_again_leaves_no_gap() -> None:
    again = replace(append(1, 0, 5), ranges=(topic_range(0, 5, identity="b"),))
    state = state_of(append(0, 0, 10), again)
    assert len(state.ranges["prices"]) == 2 and gaps(state.ranges["prices"]) == []
    assert state.end_of("prices") == topic_range(0, 5, identity="b")


def test_a_missing_commit_is_noticed() -> None:
    with pytest.raises(ArchiveDamaged, match="Commit 1 of the archive is missing, and 2 is there"):
        state_of(append(0, 0, 10), append(2, 10, 15))


def test_an_epoch_that_comes_again_is_refused() -> None:
    state = state_of(append(0, 0, 10))
    check_epoch(state, [topic_range(10, 20)])
    check_epoch(state, [topic_range(5, 20, identity="b")])
    with pytest.raises(ArchiveDamaged, match="has prices from offset 0 to 10, and this epoch brings 9 to 20"):
        check_epoch(state, [topic_range(9, 20)])


def test_more_rows_than_offsets_are_refused() -> None:
    with pytest.raises(ArchiveDamaged, match="11 rows were read for offsets 0 to 10 of prices: some came twice"):
        check_epoch(ArchiveState(), [replace(topic_range(0, 10), rows=11)])


def test_compaction_replaces_files_and_keeps_the_old_ones_in_mind() -> None:
    first, second = append(0, 0, 10), append(1, 10, 20)
    state = state_of(first, second, compaction(2, 20, first.files[0].path, second.files[0].path))
    new = data_file(2, 0, 20)
    assert state.files == {new.path: new} and state.hidden == {new.path: 102}
    assert state.retired == {first.files[0].path: 102, second.files[0].path: 102}
    assert state.ranges == {"prices": [topic_range(0, 20)]}


def test_publishing_ends_the_hiding_and_frees_the_staged_copy() -> None:
    first = append(0, 0, 10)
    new = data_file(1, 0, 10)
    done = Commit(number=2, kind="publish", run="r", time=200, published=(new.path,), gone=(first.files[0].path,))
    state = state_of(first, compaction(1, 10, first.files[0].path), done)
    assert not state.hidden and state.retired == {new.staged: 200}


def test_a_compaction_of_what_is_not_there_is_damage() -> None:
    with pytest.raises(ArchiveDamaged, match="removes elsewhere, which is not in it"):
        state_of(append(0, 0, 10), compaction(1, 10, "elsewhere"))


def test_files_of_a_range_come_in_order() -> None:
    state = state_of(append(0, 0, 10), append(1, 10, 20), append(2, 20, 30))
    assert [each.first for each in state.files_of("prices")] == [0, 10, 20]
    assert [each.first for each in state.files_of("prices", 10, 20)] == [10]
    assert [each.first for each in state.files_of("prices", 9, 21)] == [0, 10, 20]
    assert state.files_of("orders") == [] and state.files_of("prices", identity="b") == []


def test_a_state_comes_back_from_its_snapshot() -> None:
    first, second = append(0, 0, 10), append(1, 12, 20)
    state = state_of(first, second, compaction(2, 20, first.files[0].path))
    assert ArchiveState.from_bytes(state.to_bytes(), 2) == state


def test_small_files_are_joined_up_to_the_target() -> None:
    state = state_of(*(append(number, number * 10, number * 10 + 10, size=40) for number in range(5)))
    assert [[each.first for each in group] for group in small_files(state, 100)] == [[0, 10], [20, 30]]
    assert small_files(state, 40) == [], "they are as large as they should be"
    assert [len(group) for group in small_files(state, 1000)] == [5]


def test_files_of_two_topics_of_one_name_are_not_joined() -> None:
    other = replace(append(1, 0, 10), files=(replace(data_file(1, 0, 10), identity="b"),))
    assert small_files(state_of(append(0, 0, 10), other), 1000) == []


def test_hidden_files_are_left_alone() -> None:
    first, second = append(0, 0, 10), append(1, 10, 20)
    state = state_of(first, second, compaction(2, 10, first.files[0].path))
    assert small_files(state, 1000) == []
