"""A cluster that could not work is refused, with a sentence that says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.cluster_drafts import GOOD, write

from tocsin.cluster.slots import SlotTable
from tocsin.model.errors import ConfigError
from tocsin.node.cluster_config import ClusterConfig
from tocsin.node.cluster_file import read_cluster_file, write_cluster


def read(folder: Path, text: str = GOOD) -> ClusterConfig:
    return read_cluster_file(write(folder, text))


def test_a_good_file_says_who_is_who(tmp_path: Path) -> None:
    config = read(tmp_path)
    (group,) = config.groups
    settings = config.group_settings(group)
    assert (settings.members, settings.voters) == ((2, 3), (2, 3, 1))
    assert group.copies == 2 and group.name == "group-1"
    assert [node.name for node in config.client_managers] == ["cm-1"]
    assert config.node("mm-2").place(1, "lan") == ("10.0.0.3", 7301)
    assert config.groups_of(config.node("cm-1")) == [group] == config.groups_of(config.node("mm-1"))
    assert config.encryption


def test_datagrams_in_clear_are_refused_where_other_machines_can_reach_them(tmp_path: Path) -> None:
    plain = GOOD.replace('name = "test"', 'name = "test"\nencryption = false')
    with pytest.raises(ConfigError, match=r"refuses `encryption = false`.*cm-1 has the address 10\.0\.0\.1"):
        read(tmp_path, plain)
    partly = plain.replace("10.0.0.1", "127.0.0.1").replace("10.0.0.2", "127.0.0.2")
    with pytest.raises(ConfigError, match=r"mm-2 has the address 10\.0\.0\.3"):
        read(tmp_path, partly)
    assert not read(tmp_path, partly.replace("10.0.0.3", "127.0.0.3")).encryption


def test_a_fast_group_has_shorter_times(tmp_path: Path) -> None:
    slow = read(tmp_path)
    fast = read(tmp_path, GOOD.replace("number = 1\nmembers", 'number = 1\nprofile = "fast"\nmembers'))
    assert fast.group_settings(fast.groups[0]).lease_seconds < slow.group_settings(slow.groups[0]).lease_seconds


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('witnesses = ["cm-1"]', "", "even number"),
        ('witnesses = ["cm-1"]', 'witnesses = ["mm-1"]', "a witness is a client manager outside"),
        ('witnesses = ["cm-1"]', 'witnesses = ["cm-9"]', "no node 'cm-9'; its nodes are cm-1, mm-1, mm-2"),
        ('members = ["mm-1", "mm-2"]', 'members = ["mm-1", "cm-1"]', "a client manager outside"),
        ('members = ["mm-1", "mm-2"]\nwitnesses = ["cm-1"]', 'members = ["cm-1"]', 'lacks the role "mm"'),
        ('members = ["mm-1", "mm-2"]\nwitnesses = ["cm-1"]', 'members = ["mm-1"]', "mm-2 is a message manager of no"),
        ('members = ["mm-1", "mm-2"]', "members = []", "0 members"),
        ('members = ["mm-1", "mm-2"]', 'members = ["mm-1", "mm-1"]', "names mm-1 twice"),
        ("number = 3", "number = 2", "Two nodes have the number 2"),
        ('name = "mm-2"\nnumber', 'name = "mm-1"\nnumber', "Two nodes are called mm-1"),
        ("10.0.0.3", "10.0.0.2", "Two nodes use the bus address 10.0.0.2:7301"),
        ('out = "239.1.1.2"', 'out = "239.1.1.1"', "Two channels use the multicast address 239.1.1.1:7400"),
        ('in = "239.1.1.1"', 'in = "10.1.1.1"', "no multicast address"),
        ('network = "lan"', 'network = "wan"', "network 'wan'"),
        ('addresses = { lan = "10.0.0.3" }', 'addresses = { wan = "10.0.0.3" }', "mm-2 has no address"),
        ('addresses = { lan = "10.0.0.1" }', 'addresses = { wan = "10.0.0.1" }', "network 'wan'"),
        ('client = "10.0.0.1:7177"', "", "cm-1 is a client manager and needs `client`"),
        ('roles = ["cm"]', 'roles = ["mm"]', "no client manager: give at least one"),
        ("number = 1\nmembers", "number = 1\ncopies = 3\nmembers", "wants 3 copies"),
        ("port = 7400", "port = 7400\n[[group]]\nnumber = 1\nmembers = []", "Two groups are called group-1"),
        ('client = "10.0.0.1:7177"', 'client = "10.0.0.1:7177"\nbus_port = 65535', "exceeds 65535"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert complaint in str(refused.value)
    assert str(refused.value).endswith(".")


def test_too_many_nodes_are_refused(tmp_path: Path) -> None:
    more = "".join(
        f'[[node]]\nname = "cm-{n}"\nnumber = {n}\nroles = ["cm"]\naddresses = {{ lan = "10.0.1.{n}" }}\n'
        f'client = "10.0.1.{n}:7177"\n'
        for n in range(10, 140)
    )
    with pytest.raises(ConfigError, match="1 to 128 nodes"):
        read(tmp_path, GOOD + more)


def test_without_multicast_any_address_will_do(tmp_path: Path) -> None:
    text = GOOD.replace('name = "lan"', 'name = "lan"\nmulticast = false').replace("239.1.1.1", "10.9.9.9")
    assert not read(tmp_path, text).network("lan").multicast


def test_message_managers_on_all_networks_and_client_managers_on_one_each(tmp_path: Path) -> None:
    """Each client manager reaches the group over its own network; the members are on both."""
    text = GOOD.replace('[[node]]\nname = "cm-1"', '[[network]]\nname = "west"\n\n[[node]]\nname = "cm-1"')
    text = text.replace('{ lan = "10.0.0.2" }', '{ lan = "10.0.0.2", west = "10.1.0.2" }')
    text = text.replace('{ lan = "10.0.0.3" }', '{ lan = "10.0.0.3", west = "10.1.0.3" }')
    text += '[[group.channel]]\nnetwork = "west"\nin = "239.1.1.1"\nout = "239.1.1.2"\nport = 7400\n'
    manager = (
        '[[node]]\nname = "cm-2"\nnumber = 9\nroles = ["cm"]\naddresses = { west = "10.1.0.9" }\n'
        'client = "10.1.0.9:7177"\n'
    )
    assert read(tmp_path, text + manager).groups[0].networks == ("lan", "west")
    with pytest.raises(ConfigError, match="cm-2 is on no network of the group group-1"):
        read(tmp_path, GOOD + '[[network]]\nname = "west"\n' + manager)


def test_slots_go_round_the_groups_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path).slot_table() == SlotTable.round_robin([1])
    own = read(tmp_path, with_slots('"0-1022", "1023"'))
    assert own.slot_table() == SlotTable([1] * 1024)
    again = read_cluster_file(write(tmp_path, write_cluster(own), "again.toml"))
    assert again == own


@pytest.mark.parametrize(
    ("slots", "complaint"),
    [
        ('"0-1022"', "The slot 1023 of names belongs to 0 groups"),
        ('"0-1023", "7"', "The slot 7 of names belongs to 2 groups"),
        ('"0-1024"', "a list of runs"),
        ('"7-3"', "a list of runs"),
        ("7", "a list of runs"),
    ],
)
def test_each_slot_has_one_group(tmp_path: Path, slots: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, with_slots(slots))


def with_slots(slots: str) -> str:
    return GOOD.replace("number = 1\nmembers", f"number = 1\nslots = [{slots}]\nmembers")
