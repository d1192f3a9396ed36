"""What recovery does in which situation, as tables: named cases, each with its reason in a line.

Every table covers every combination of its observations exactly once; a test enumerates them. The text of a
case that refuses is the sentence the user sees, with the place filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tocsin.journal.meta import MetaState
from tocsin.journal.segment import HeaderState


class Do(Enum):
    """What follows from a case."""

    USE = auto()
    MAKE = auto()
    CUT = auto()
    REBUILD = auto()
    REFUSE = auto()
    REFUSE_NEWER = auto()


class Tail(Enum):
    """How the records of a segment end."""

    SEALED = "a barrier says that nothing follows"
    CLEAN = "only zero bytes follow"
    BAD = "something follows that is no record"


class SnapshotState(Enum):
    NONE = "none"
    GOOD = "good"
    BAD = "damaged"
    NEWER = "of a newer format"


class Gap(Enum):
    """What lies between two segments, in LSNs."""

    NONE = "nothing"
    BELOW = "records that the snapshot covers"
    ABOVE = "records that are needed"
    OVERLAP = "records that both have"


@dataclass(frozen=True, slots=True)
class StartSeen:
    meta: MetaState
    data: bool
    """There are segments, snapshots or streams."""


@dataclass(frozen=True, slots=True)
class SnapshotSeen:
    newest: SnapshotState
    older: SnapshotState
    reached: bool
    """The journal begins at or before the record that follows the best snapshot there is (the first without
    one).
    """


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    header: HeaderState
    newest: bool
    tail: Tail
    proven: bool
    """A later record proves that the bad place had been synced."""
    torn: bool
    """A whole sector of the bad place is missing, as a crash leaves it; a changed byte does not look like
    that.
    """


@dataclass(frozen=True, slots=True)
class OrderSeen:
    gap: Gap
    thinned: bool
    """The segment is compacted although replay needs its records."""


@dataclass(frozen=True, slots=True)
class ReserveSeen:
    present: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class IndexSeen:
    present: bool
    matches: bool


Seen = StartSeen | SnapshotSeen | SegmentSeen | OrderSeen | ReserveSeen | IndexSeen


class Case:
    """One row: applies when each named observation has one of the given values; others do not matter."""

    __slots__ = ("do", "name", "when", "why")

    def __init__(self, name: str, do: Do, why: str, **when: object) -> None:
        self.name, self.do, self.why = name, do, why
        self.when = {field: value if isinstance(value, tuple) else (value,) for field, value in when.items()}

    def matches(self, seen: Seen) -> bool:
        return all(getattr(seen, field) in values for field, values in self.when.items())


def decide(table: Sequence[Case], seen: Seen) -> Case:
    return next(case for case in table if case.matches(seen))


# A member never gets an older file back, nor does a server get a single one: it would lack what came since.
_ADVICE = (
    " Nothing was changed. A member of a group: move its folder away, and the others fill it. A lone server:"
    " restore the whole directory from a backup, without what came since; `tocsin journal check` lists all damage."
)

START = (
    Case("first start", Do.MAKE, "nothing is here yet: begin a journal", meta=MetaState.MISSING, data=False),
    Case("known journal", Do.USE, "the journal says who it is", meta=MetaState.GOOD),
    Case(
        "meta missing",
        Do.REFUSE,
        "The file `meta` is missing, but there are journal files." + _ADVICE,
        meta=MetaState.MISSING,
        data=True,
    ),
    Case(
        "meta damaged",
        Do.REFUSE,
        "The file `meta` is damaged." + _ADVICE,
        meta=MetaState.BAD,
    ),
    Case(
        "newer journal",
        Do.REFUSE_NEWER,
        "The file `meta` has a newer format than this release reads. Start a newer release.",
        meta=MetaState.NEWER,
    ),
)

_GOOD, _BAD = SnapshotState.GOOD, SnapshotState.BAD
_UNUSABLE = (SnapshotState.NONE, SnapshotState.BAD, SnapshotState.NEWER)

SNAPSHOT = (
    Case("no snapshot", Do.USE, "replay all records", newest=SnapshotState.NONE, reached=True),
    Case(
        "first records missing",
        Do.REFUSE,
        "There is no snapshot, and the journal does not begin with the first record: snapshot or "
        "segment files are missing." + _ADVICE,
        newest=SnapshotState.NONE,
        reached=False,
    ),
    Case("newest snapshot", Do.USE, "replay what came after it", newest=_GOOD, reached=True),
    Case(
        "segments after the snapshot missing",
        Do.REFUSE,
        "The segment that follows snapshot {lsn} is missing." + _ADVICE,
        newest=_GOOD,
        reached=False,
    ),
    Case(
        "older snapshot",
        Do.USE,
        "the newest is damaged, the journal still reaches the older",
        newest=_BAD,
        older=_GOOD,
        reached=True,
    ),
    Case(
        "older snapshot out of reach",
        Do.REFUSE,
        "The newest snapshot is damaged, and the journal no longer has all records after the older one ({lsn})."
        + _ADVICE,
        newest=_BAD,
        older=_GOOD,
        reached=False,
    ),
    Case(
        "from the first record",
        Do.USE,
        "no snapshot is usable, but the journal is complete",
        newest=_BAD,
        older=_UNUSABLE,
        reached=True,
    ),
    Case(
        "no usable snapshot",
        Do.REFUSE,
        "All snapshots are damaged, and the journal no longer has all records." + _ADVICE,
        newest=_BAD,
        older=_UNUSABLE,
        reached=False,
    ),
    Case(
        "newer snapshot",
        Do.REFUSE_NEWER,
        "The newest snapshot has a newer format than this release reads. Start a newer release.",
        newest=SnapshotState.NEWER,
    ),
)

_WHERE = "{file}, position {position}, LSN {lsn}: "
_HEADLESS = (HeaderState.BAD, HeaderState.EMPTY)

SEGMENT = (
    Case("complete", Do.USE, "sealed: every record was read", header=HeaderState.GOOD, tail=Tail.SEALED),
    Case("clean tail", Do.USE, "appending goes on here", header=HeaderState.GOOD, newest=True, tail=Tail.CLEAN),
    Case(
        "torn tail",
        Do.CUT,
        "a crash interrupted the last commit, which was never confirmed",
        header=HeaderState.GOOD,
        newest=True,
        tail=Tail.BAD,
        proven=False,
        torn=True,
    ),
    Case(
        "damaged record",
        Do.REFUSE,
        _WHERE + "{problem}, though it was on disk once: a later commit proves it." + _ADVICE,
        header=HeaderState.GOOD,
        newest=True,
        tail=Tail.BAD,
        proven=True,
    ),
    Case(
        "changed record",
        Do.REFUSE,
        _WHERE + "{problem}, and no sector is missing as after a crash: bytes were changed." + _ADVICE,
        header=HeaderState.GOOD,
        newest=True,
        tail=Tail.BAD,
        proven=False,
        torn=False,
    ),
    Case(
        "damaged inside",
        Do.REFUSE,
        _WHERE + "{problem}, and there are later segments." + _ADVICE,
        header=HeaderState.GOOD,
        newest=False,
        tail=(Tail.BAD, Tail.CLEAN),
    ),
    Case(
        "torn birth",
        Do.CUT,
        "a crash interrupted the first commit of the newest segment",
        header=_HEADLESS,
        newest=True,
        proven=False,
        torn=True,
    ),
    Case(
        "damaged header",
        Do.REFUSE,
        "{file}: the file header is damaged, though a later commit proves that it was on disk once." + _ADVICE,
        header=_HEADLESS,
        newest=True,
        proven=True,
    ),
    Case(
        "changed header",
        Do.REFUSE,
        "{file}: the file header is damaged, and no sector is missing as after a crash." + _ADVICE,
        header=_HEADLESS,
        newest=True,
        proven=False,
        torn=False,
    ),
    Case(
        "damaged header inside",
        Do.REFUSE,
        "{file}: the file header is damaged, and there are later segments." + _ADVICE,
        header=_HEADLESS,
        newest=False,
    ),
    Case(
        "newer segment",
        Do.REFUSE_NEWER,
        "{file} has a newer format than this release reads. Start a newer release.",
        header=HeaderState.NEWER,
    ),
    Case(
        "foreign segment",
        Do.REFUSE,
        "{file} belongs to another journal or was renamed. Nothing was changed: move it out of the data directory.",
        header=HeaderState.FOREIGN,
    ),
)

ORDER = (
    Case("in order", Do.USE, "each LSN follows the one before", gap=Gap.NONE, thinned=False),
    Case("dropped", Do.USE, "nobody needed the segments between", gap=Gap.BELOW, thinned=False),
    Case(
        "missing segment",
        Do.REFUSE,
        "{file} begins after LSN {lsn}, but records between are needed: a segment file is missing." + _ADVICE,
        gap=Gap.ABOVE,
    ),
    Case(
        "overlap",
        Do.REFUSE,
        "{file} begins before the segment ahead of it ends, at LSN {lsn}: one of them is from another time." + _ADVICE,
        gap=Gap.OVERLAP,
    ),
    Case(
        "thinned too early",
        Do.REFUSE,
        "{file} was compacted, but the snapshot in use needs its records." + _ADVICE,
        gap=(Gap.NONE, Gap.BELOW),
        thinned=True,
    ),
)

RESERVE_CASES = (
    Case("reserve ready", Do.USE, "allocated in full", present=True, whole=True),
    Case("reserve missing", Do.MAKE, "allocate one", present=False),
    Case(
        "reserve half made",
        Do.REBUILD,
        "of another size: made by a crashed start or other settings",
        present=True,
        whole=False,
    ),
)

INDEX_CASES = (
    Case("index ready", Do.USE, "the segment need not be scanned", present=True, matches=True),
    Case("index missing", Do.REBUILD, "scan the segment", present=False),
    Case(
        "index damaged",
        Do.REBUILD,
        "scan the segment: the file is damaged or of another state",
        present=True,
        matches=False,
    ),
)
