"""What a client manager says of its cluster, as lines of the same kind."""

from __future__ import annotations

from typing import Any

from tocsin.cli.cluster.remote import from_client_manager

URL = "tocsin://somewhere:7177"


def said(*, linked: bool = True, in_sync: tuple[int, ...] = (2, 3), down: int = 0) -> dict[str, Any]:
    members = [
        {"node": 2, "name": "left", "state": "up", "role": "primary"},
        {"node": 3, "name": "right", "state": "up", "role": "backup"},
    ]
    for member in members:
        if member["node"] == down:
            member["state"] = "down"
    group = {
        "group": 1, "primary": 2, "epoch": 64, "linked": linked, "members": members, "in_sync": list(in_sync),
        "committed": 7, "last": 8, "destinations": 1, "live_bytes": 5, "free_bytes": 9,
    }  # fmt: skip
    return {"groups": [group], "client_managers": [{"node": 1, "name": "", "state": "up"}]}


def test_all_is_well() -> None:
    seen = from_client_manager(said(), URL)
    (group,) = seen.groups
    assert seen.is_well and (group.primary, group.in_sync) == ("left", ("left", "right"))
    assert {node.name: node.groups for node in seen.nodes} == {
        "node 1": {},
        "left": {"group-1": "primary"},
        "right": {"group-1": "backup"},
    }


def test_a_member_is_missing() -> None:
    seen = from_client_manager(said(in_sync=(2,), down=3), URL)
    assert not seen.is_well and seen.is_anything_running
    assert seen.groups[0].out_of_sync == ("right",)
    assert {node.name: node.state for node in seen.nodes}["right"] == "stopped"


def test_who_is_not_linked_knows_no_primary() -> None:
    assert from_client_manager(said(linked=False), URL).groups[0].state == "no primary"


def test_a_primary_that_stands_still_leads_though_it_takes_no_link() -> None:
    """Else people would be told to promote another one, and lose what it has."""
    answer = said(linked=False)
    answer["groups"][0] |= {"stalled": True, "voteless": ["right", "witness"]}
    (group,) = from_client_manager(answer, URL).groups
    assert (group.state, group.primary) == ("stalled", "left")
    assert "rebuild-votes left group-1" in group.troubles[-1]


def test_one_that_stood_still_and_is_gone_leads_no_more() -> None:
    answer = said(linked=False, down=2)
    answer["groups"][0] |= {"stalled": True, "voteless": ["right"]}
    (group,) = from_client_manager(answer, URL).groups
    assert (group.state, group.voteless, group.electable) == ("no primary", (), ("left", "right"))
