"""The cluster file: what is written is read as the same, and every wrong line is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.cluster_drafts import DRAFT, GOOD, write

from tocsin.model.errors import ConfigError
from tocsin.node.cluster_file import read_cluster_file, write_cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    config = read_cluster_file(write(tmp_path, GOOD))
    again = read_cluster_file(write(tmp_path, write_cluster(config), "again.toml"))
    assert again == config and again.digest == config.digest


def test_the_digest_is_that_of_the_meaning(tmp_path: Path) -> None:
    first = read_cluster_file(write(tmp_path, GOOD)).digest
    same = read_cluster_file(write(tmp_path, "# ours\n" + GOOD.replace("number = 3", "number = 3\nbus_port = 7300")))
    other = read_cluster_file(write(tmp_path, GOOD.replace("10.0.0.3", "10.0.0.4")))
    assert same.digest == first != other.digest


def test_a_draft_gets_its_id_once(tmp_path: Path) -> None:
    given = {"id": "1" * 32, "secret_fingerprint": "2" * 32}
    config = read_cluster_file(write(tmp_path, DRAFT), given=given)
    assert (config.cluster_id, config.secret_fingerprint) == ("1" * 32, "2" * 32)
    with pytest.raises(ConfigError, match="has an id already"):
        read_cluster_file(write(tmp_path, GOOD), given=given)
    with pytest.raises(ConfigError, match="The setting id is missing in \\[cluster\\]"):
        read_cluster_file(write(tmp_path, DRAFT))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('roles = ["cm"]', 'roles = ["king"]', 'The setting roles in [[node]] of {} must be "cm" or "mm"'),
        ("number = 3", "numbr = 3", "There is no setting 'numbr' in [[node]] of {}; the nearest is 'number'."),
        ("number = 3", 'number = "3"', "must be a whole number"),
        ("number = 3\n", "", "The setting number is missing in [[node]]"),
        ("10.0.0.3", "10.0.0.300", "must be an IPv4 address"),
        ("10.0.0.1:7177", "10.0.0.1", "must be host:port"),
        ("[[network]]", "[network]", "two brackets"),
        ("[[network]]", "[[nets]]", "has a part 'nets'"),
        ('id = "00', 'id = "zz', "32 hexadecimal digits"),
        ('addresses = { lan = "10.0.0.3" }', "addresses = 5", "a table of networks and addresses"),
        ('members = ["mm-1", "mm-2"]', 'members = "mm-1"', "must be a list"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        read_cluster_file(path)
    assert complaint.replace("{}", str(path)) in str(refused.value)


def test_a_file_without_its_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the part \\[cluster\\]"):
        read_cluster_file(write(tmp_path, "[[network]]\nname = 'lan'\n"))


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_drafts_of_clusters(example: Path) -> None:
    config = read_cluster_file(example, given={"id": "1" * 32, "secret_fingerprint": "2" * 32})
    assert all(len(group.voters) % 2 for group in config.groups)


def test_there_are_examples() -> None:
    assert len(list(EXAMPLES.glob("*.toml"))) == 4
