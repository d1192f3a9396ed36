"""One answer out of those of all groups."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup

from tocsin.client_manager.merging import merge_pages
from tocsin.cluster.commands import Administer, Answer
from tocsin.model.errors import IllegalState, InvalidDestination


def entry(name: str, messages: int = 1) -> dict[str, Any]:
    return {"name": name, "destination": f"queue:{name}", "messages": messages}


def page(names: str, after: str, limit: int) -> Answer:
    """As one group answers: its own names behind `after`, in order."""
    found = sorted(name for name in names if name > after)
    return Answer(1, {"destinations": [entry(name) for name in found[:limit]], "more": len(found) > limit})


def listed(groups: list[str], limit: int) -> list[str]:
    found: list[str] = []
    after, more = "", True
    while more:
        command = Administer(1, "destination.list", {"after": after, "limit": limit})
        merged = merge_pages(command, [page(names, after, limit) for names in groups])
        assert isinstance(merged, Answer)
        names = [each["name"] for each in merged.fields["destinations"]]
        assert 0 < len(names) <= limit
        found += names
        after, more = names[-1], merged.fields["more"]
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_all_pages_together_are_the_list_of_all(limit: int) -> None:
    groups = ["acegz", "bdfhijk", "m", "xy"]
    assert listed(groups, limit) == sorted("".join(groups))


def test_what_each_group_has_under_one_name_is_one_entry() -> None:
    answers = [Answer(1, {"destinations": [entry("_DMQ", count)], "more": False}) for count in (2, 5)]
    merged = merge_pages(Administer(1, "destination.list", {}), list(answers))
    assert isinstance(merged, Answer)
    assert [(each["name"], each["messages"]) for each in merged.fields["destinations"]] == [("_DMQ", 7)]


def test_a_list_asks_every_group() -> None:
    groups = [ScriptedGroup(1), ScriptedGroup(2, primary=20)]
    groups[0].answers["destination.list"] = {"destinations": [entry("b")], "more": False}
    groups[1].answers["destination.list"] = {"destinations": [entry("a")], "more": True}
    reply = Cluster(groups).connect().request("destination.list", limit=1)
    assert [each["name"] for each in reply["destinations"]] == ["a"] and reply["more"]


def test_a_subscription_is_deleted_where_it_is() -> None:
    groups = [ScriptedGroup(1), ScriptedGroup(2, primary=20)]
    client = Cluster(groups).connect()
    with pytest.raises(InvalidDestination):
        client.request("subscription.delete", subscription="mine")
    groups[1].answers["subscription.delete"] = {}
    client.request("subscription.delete", subscription="mine")
    groups[1].answers["subscription.delete"] = IllegalState("It is in use.")
    with pytest.raises(IllegalState):
        client.request("subscription.delete", subscription="mine")
