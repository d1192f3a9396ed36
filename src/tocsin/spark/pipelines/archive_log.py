"""The commits of an archive and what they add up to. Nothing here touches a file.

An archive is a folder of Parquet files and a log of commits, `_tocsin/commits/<number>.json`. Only what the log names
belongs to the archive. A commit is one JSON object, written once and never changed:

    v, number, kind   format 1; commits are numbered from 0 without a gap
    run, time         which run wrote it, when (ms since 1970)
    query, epoch      append: the streaming query and its epoch, so that an epoch is archived once
    ranges            append: topic, identity, first, end (exclusive) and rows that the epoch covers
    schema            append: the columns, as Spark writes a schema down
    files             append, compact: path, staged, topic, identity, rows, bytes, first, end of each new file
    removes           compact: paths whose rows are in the new files now
    published, gone   publish: compacted files that plain readers see now, and files that are no longer there

A file is staged first, under a hidden name, and moved to its path after the commit. Both names are in the commit, so
whoever finds the move undone can do it. A compacted file stays hidden for a grace, while those it replaces stay where
they are: plain readers see the rows once, and readers of an older commit find all their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tocsin.model.errors import ArchiveDamaged, NewerFormat

FORMAT = 1
Kind = Literal["append", "compact", "publish"]


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets of a topic, the end exclusive. `rows` is less where the topic itself has no message at an offset."""

    topic: str
    identity: str
    first: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    staged: str
    topic: str
    identity: str
    rows: int
    bytes: int
    first: int
    end: int

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    number: int
    kind: Kind
    run: str
    time: int
    query: str = ""
    epoch: int = -1
    ranges: tuple[TopicRange, ...] = ()
    schema: Mapping[str, Any] | None = None
    files: tuple[DataFile, ...] = ()
    removes: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return _dump({"v": FORMAT, **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes, number: int) -> Commit:
        fields = _load(data, f"commit {number}")
        try:
            if fields["number"] != number:
                raise ArchiveDamaged(f"Commit {number} of the archive says that it is number {fields['number']}.")
            fields["ranges"] = tuple(TopicRange(**each) for each in fields["ranges"])
            fields["files"] = tuple(DataFile(**each) for each in fields["files"])
            for name in ("removes", "published", "gone"):
                fields[name] = tuple(fields[name])
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise ArchiveDamaged(f"Commit {number} of the archive cannot be understood: {error}.") from error


@dataclass(slots=True)
class ArchiveState:
    """What all commits up to `number` add up to."""

    number: int = -1
    time: int = 0
    query: str = ""
    epoch: int = -1
    schema: Mapping[str, Any] | None = None
    ranges: dict[str, list[TopicRange]] = field(default_factory=dict)
    """Of each topic, oldest first; neighbours that join without a gap are one."""
    files: dict[str, DataFile] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    """Compacted files that are still under their staged name, with the time of the commit."""
    retired: dict[str, int] = field(default_factory=dict)
    """Files that are of no use any more, and since when; they go after the grace."""

    def apply(self, commit: Commit) -> None:
        if commit.number != self.number + 1:
            raise ArchiveDamaged(f"Commit {self.number + 1} of the archive is missing, and {commit.number} is there.")
        self.number, self.time = commit.number, commit.time
        if commit.kind == "append":
            self._append(commit)
        elif commit.kind == "compact":
            self._compact(commit)
        else:
            self._publish(commit)

    def _append(self, commit: Commit) -> None:
        self.query, self.epoch = commit.query, commit.epoch
        self.schema = commit.schema or self.schema
        for each in commit.ranges:
            known = self.ranges.setdefault(each.topic, [])
            last = known[-1] if known else None
            if last and last.identity == each.identity and last.end == each.first:
                known[-1] = replace(last, end=each.end, rows=last.rows + each.rows)
            else:
                known.append(each)
        self.files.update({each.path: each for each in commit.files})

    def _compact(self, commit: Commit) -> None:
        for path in commit.removes:
            if self.files.pop(path, None) is None:
                raise ArchiveDamaged(f"Commit {commit.number} of the archive removes {path}, which is not in it.")
            self.retired[path] = commit.time
        self.files.update({each.path: each for each in commit.files})
        self.hidden.update({each.path: commit.time for each in commit.files})

    def _publish(self, commit: Commit) -> None:
        for path in commit.published:
            if self.hidden.pop(path, None) is None:
                raise ArchiveDamaged(f"Commit {commit.number} of the archive publishes {path}, which is not hidden.")
            self.retired[self.files[path].staged] = commit.time
        for path in commit.gone:
            self.retired.pop(path, None)

    def end_of(self, topic: str) -> TopicRange | None:
        """The newest range of a topic: its end is where to read on."""
        known = self.ranges.get(topic)
        return known[-1] if known else None

    def files_of(
        self, topic: str | None = None, first: int | None = None, end: int | None = None, identity: str | None = None
    ) -> list[DataFile]:
        """The files that may hold rows of a range, in the order of offsets."""
        found = [
            each
            for each in self.files.values()
            if (topic is None or each.topic == topic)
            and (first is None or each.end > first)
            and (end is None or each.first < end)
            and (identity is None or each.identity == identity)
        ]
        return sorted(found, key=lambda each: (each.topic, each.first, each.path))

    def to_bytes(self) -> bytes:
        return _dump({"v": FORMAT, **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes, number: int) -> ArchiveState:
        fields = _load(data, f"snapshot {number}")
        try:
            fields["ranges"] = {
                topic: [TopicRange(**each) for each in known] for topic, known in fields["ranges"].items()
            }
            fields["files"] = {path: DataFile(**each) for path, each in fields["files"].items()}
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise ArchiveDamaged(f"Snapshot {number} of the archive cannot be understood: {error}.") from error


def check_epoch(state: ArchiveState, ranges: Iterable[TopicRange]) -> None:
    """Refuses an epoch that would put rows into the archive a second time."""
    for each in ranges:
        if each.rows > each.end - each.first:
            raise ArchiveDamaged(
                f"{each.rows} rows were read for offsets {each.first} to {each.end} of {each.topic}: some came twice."
            )
        for known in state.ranges.get(each.topic, ()):
            if known.identity == each.identity and each.first < known.end and known.first < each.end:
                raise ArchiveDamaged(
                    f"The archive has {each.topic} from offset {known.first} to {known.end}, and this epoch brings "
                    f"{each.first} to {each.end} again; start with takeover to go on behind what is there."
                )


def gaps(known: Iterable[TopicRange]) -> list[tuple[int, int]]:
    """Offsets between the ranges of one topic that no commit covers."""
    found = []
    before: TopicRange | None = None
    for each in known:
        if before is not None and before.identity == each.identity and each.first > before.end:
            found.append((before.end, each.first))
        before = each
    return found


def small_files(state: ArchiveState, target_bytes: int) -> list[list[DataFile]]:
    """Files worth joining: of one folder and one topic, together no larger than the target."""
    folders: dict[tuple[str, str], list[DataFile]] = {}
    for each in state.files_of():
        if each.path not in state.hidden and each.bytes < target_bytes:
            folders.setdefault((each.folder, each.identity), []).append(each)
    groups: list[list[DataFile]] = []
    for files in folders.values():
        groups.append([])
        size = 0
        for each in files:
            if groups[-1] and size + each.bytes > target_bytes:
                groups.append([])
                size = 0
            groups[-1].append(each)
            size += each.bytes
    return [group for group in groups if len(group) > 1]


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, indent=1).encode()


def _load(data: bytes, what: str) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        version = fields.pop("v")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArchiveDamaged(f"The archive's {what} is damaged: {error}.") from error
    if version != FORMAT:
        raise NewerFormat(
            f"The archive's {what} has format {version}, and this release reads {FORMAT}; use a newer one."
        )
    return dict(fields)
