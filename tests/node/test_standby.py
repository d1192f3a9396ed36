"""The state of a member that follows: which record it stands at."""

from __future__ import annotations

from tests.node.group_stage import Stage

from tocsin.journal.snapshot import Snapshot
from tocsin.message_manager.snapshots import destination_section, directory_section
from tocsin.model.identity import Lsn
from tocsin.node.standby import Standby
from tocsin.replication.log import NOOP, Entry


def test_a_state_is_whole_behind_the_last_record_that_any_part_of_its_snapshot_has() -> None:
    """Were it taken for the state behind an earlier one, the next snapshot would say so, and the records between be
    applied twice.
    """
    stage = Stage()
    member = stage.elect().member
    stage.client.open_producer()
    opening, directory = member._disk._opening, member.manager.directory
    sections = (directory_section(directory, 7), *(destination_section(each, 9) for each in directory))
    standby = Standby(opening.make_journal(), opening.manager, Snapshot(Lsn(7), sections), 0.0)
    assert (standby.applied, standby.is_whole) == (7, False)
    standby.apply(8, Entry(1, NOOP, (b"",)), 0.0)
    assert not standby.is_whole
    standby.apply(9, Entry(1, NOOP, (b"",)), 0.0)
    assert standby.is_whole


def test_a_member_with_a_state_that_is_not_whole_has_none_to_show_or_to_keep() -> None:
    stage = Stage()
    stage.elect()
    member = stage.backup().member
    assert member.has_state
    following = member._state.following
    assert following is not None
    following.standby._mixed_up_to = following.standby.applied + 1
    assert not member.has_state
