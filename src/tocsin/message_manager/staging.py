"""Requests about stages. Answers wait until what they tell is durable.

    stage.open    {destination, stage, seconds}                            -> {}
    stage.claim   {destination, app}                                       -> {run}
    stage.commit  {app, epoch, stages: [{destination, stage, messages}], run?, seconds?}  -> {committed, epoch}
    stage.check   as commit: refused when that would be                    -> {}
    stage.drop    {stages: [{destination, stage}]}                         -> {dropped}
    stage.last    {app}                                                    -> {epoch}

A commit is one record, whatever it commits: it names stages, and not their batches. An epoch that is not above the last
one of its application was committed before, maybe with other stages: then those that are named now are dropped.

Who claims an application becomes its newest run. From then on only commits that name this run are taken: a run that is
still alive and knows nothing of the newer one can't add to what that one found. The number of the run is kept as the
last epoch of another name.

An epoch is remembered for 30 days, or for `seconds` when a commit says so: one that nobody will ever repeat with other
stages needs no more than the time in which its own could still be there. A claim is remembered until whatever an
earlier run has staged before it is over for certain, and from the first commit of its run on as long as that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RecordKind, identities_per_record, write_map
from tocsin.message_manager.request_fields import check_stage_fields
from tocsin.message_manager.stages import STAGE_ID_BYTES, Stage, run_of
from tocsin.message_manager.storing import append_time, check_heard, lack_of_room, reserve_ahead
from tocsin.model.destination import parse_destination
from tocsin.model.errors import Fenced, IllegalState, InvalidDestination, JournalDamaged, ResourceExhausted, StorageFull
from tocsin.model.limits import CLAIM_MEMORY_SECONDS, STAGES_PER_DESTINATION_MAX

Fields = dict[str, Any]
Result = tuple[Fields, int]


class StageService:
    """`changed` is told of each destination that needs attention afterwards."""

    def __init__(self, directory: Directory, ledger: Ledger, changed: Callable[[DestinationState], None]) -> None:
        self._directory = directory
        self._ledger = ledger
        self._changed = changed
        # The last change, which every answer waits for.
        self._lsn = 0
        self._operations: dict[str, Callable[[Fields], Fields]] = {
            "stage.open": self._open,
            "stage.claim": self._claim,
            "stage.commit": self._commit,
            "stage.check": self._check,
            "stage.drop": self._drop,
            "stage.last": self._last,
        }

    def knows(self, operation: str) -> bool:
        return operation in self._operations

    def run(self, operation: str, fields: Fields) -> Result:
        check_stage_fields(fields)
        found = self._operations[operation](fields)
        return found, self._lsn

    def _open(self, fields: Fields) -> Fields:
        address = parse_destination(fields["destination"])
        incarnation, user = fields.get("incarnation") or 0, fields.get("user")
        state = self._directory.find_or_create(address, self._ledger, incarnation, lasting=True, user=user)
        identity = fields["stage"]
        if identity in state.stages.open:
            return {}
        check_heard(state)
        if self._ledger.journal.full:
            raise StorageFull(f"The server's disk is full, so {address} takes no messages; free disk space.")
        if len(state.stages.open) >= STAGES_PER_DESTINATION_MAX:
            raise ResourceExhausted(
                f"{address} has {STAGES_PER_DESTINATION_MAX} open stages, which is the most; commit or drop some."
            )
        record = {
            "destination": state.id, "stage": identity, "seconds": fields["seconds"], "time": self._ledger.now_ms,
        }  # fmt: skip
        self._lsn = self._ledger.append(RecordKind.STAGE, write_map(record))
        apply_stage(state, record, self._lsn)
        self._changed(state)
        return {}

    def _claim(self, fields: Fields) -> Fields:
        if self._state(fields) is None:
            raise InvalidDestination(f"There is no {fields['destination']} that an application could write to.")
        name, user = run_of(fields["app"]), fields.get("user")
        self._directory.epochs.check_room(name, user, self._ledger.now_ms)
        # Also higher than one that was forgotten after its time, and may still be alive.
        run = max(self._directory.epochs.last(name) + 1, self._ledger.now_ms)
        record: Fields = {
            "app": name, "epoch": run, "time": self._ledger.now_ms, "parts": [], "user": user,
            "seconds": round(CLAIM_MEMORY_SECONDS),
        }  # fmt: skip
        self._lsn = self._ledger.append(RecordKind.COMMIT, write_map(record))
        self._directory.epochs.apply(record)
        return {"run": run}

    def _check_run(self, fields: Fields) -> None:
        app, newest = fields["app"], self._directory.epochs.last(run_of(fields["app"]))
        if newest not in (-1, fields.get("run")):
            raise Fenced(
                f"Another run of {app!r} has taken over since this one began, and goes on from what was committed "
                "before, maybe by an earlier attempt of this commit. This one is refused; let this run end."
            )

    def _last(self, fields: Fields) -> Fields:
        return {"epoch": self._directory.epochs.last(fields["app"])}

    def _check(self, fields: Fields) -> Fields:
        self._check_run(fields)
        if fields["epoch"] > self._directory.epochs.last(fields["app"]):
            self._plan(fields)
        return {}

    def _commit(self, fields: Fields) -> Fields:
        self._check_run(fields)
        app, epoch = fields["app"], fields["epoch"]
        last = self._directory.epochs.last(app)
        if epoch <= last:
            self._drop(fields)
            return {"committed": False, "epoch": last}
        plan = self._plan(fields)
        parts = [
            {
                "destination": state.id, "first": state.log.next_offset, "time": append_time(state, self._ledger),
                "stages": b"".join(stages),
            }
            for state, stages in plan
        ]  # fmt: skip
        more = {name: fields[name] for name in ("user", "seconds", "run") if fields.get(name) is not None}
        record = {"app": app, "epoch": epoch, "time": self._ledger.now_ms, "parts": parts, **more}
        lsn = self._lsn = self._ledger.append(RecordKind.COMMIT, write_map(record))
        self._directory.epochs.apply(record)
        for (state, _), part in zip(plan, parts, strict=True):
            state.counters.published += apply_commit(state, part, lsn, self._ledger)
            reserve_ahead(state, self._ledger)
            state.commits.append((lsn, state.log.next_offset))
            self._changed(state)
        return {"committed": True, "epoch": epoch}

    def _plan(self, fields: Fields) -> list[tuple[DestinationState, list[bytes]]]:
        """Destinations in the order given, each with its stages in the order given; refused when one is amiss."""
        self._directory.epochs.check_room(fields["app"], fields.get("user"), self._ledger.now_ms)
        plan: dict[int, tuple[DestinationState, list[bytes]]] = {}
        named: set[bytes] = set()
        for entry in fields["stages"]:
            state = self._state(entry)
            identity, messages = entry["stage"], entry["messages"]
            stage = state.stages.open.get(identity) if state is not None else None
            if identity in named:
                raise IllegalState("A stage is named twice in one commit; name each stage once.")
            named.add(identity)
            if stage is None and not messages:
                continue
            if state is None or stage is None:
                raise IllegalState(
                    f"A stage of {entry['destination']} is not there: it was committed or dropped, or its time was "
                    "over. Nothing was committed; stage the epoch again."
                )
            if stage.messages != messages:
                raise IllegalState(
                    f"A stage of {entry['destination']} has {stage.messages} messages and not {messages}. "
                    "Nothing was committed; stage the epoch again."
                )
            plan.setdefault(state.id, (state, []))[1].append(identity)
        for state, _ in plan.values():
            check_heard(state)
            if (error := lack_of_room(state, self._ledger)) is not None:
                raise error
        return list(plan.values())

    def _state(self, entry: Fields) -> DestinationState | None:
        name, incarnation = parse_destination(entry["destination"]).name, entry.get("incarnation") or 0
        if incarnation and self._directory.outdated(name, incarnation, self._ledger) is not None:
            return None
        return self._directory.named(name)

    def _drop(self, fields: Fields) -> Fields:
        found: dict[int, tuple[DestinationState, list[bytes]]] = {}
        for entry in fields["stages"]:
            state = self._directory.named(parse_destination(entry["destination"]).name)
            if state is not None and entry["stage"] in state.stages.open:
                stages = found.setdefault(state.id, (state, []))[1]
                if entry["stage"] not in stages:
                    stages.append(entry["stage"])
        for state, stages in found.values():
            self._lsn = drop_stages(state, stages, self._ledger)
        return {"dropped": sum(len(stages) for _, stages in found.values())}


def expire_stages(state: DestinationState, ledger: Ledger) -> None:
    """Who staged something and never came back has lost it."""
    stages = state.stages.over(ledger.now_ms)
    if stages:
        drop_stages(state, stages, ledger)


def drop_stages(state: DestinationState, stages: list[bytes], ledger: Ledger) -> int:
    """Drops stages, in as many records as their number needs; returns the last LSN."""
    most = identities_per_record(ledger.journal.record_limit)
    for index in range(0, len(stages), most):
        record = {"destination": state.id, "stages": b"".join(stages[index : index + most])}
        apply_unstage(state, record, ledger.append(RecordKind.UNSTAGE, write_map(record)), ledger)
    return state.lsn


# ---- what records describe


def apply_stage(state: DestinationState, record: Fields, lsn: int) -> None:
    state.lsn = lsn
    state.stages.begin(record["stage"], Stage(record["seconds"], record["time"]))


def apply_commit(state: DestinationState, part: Fields, lsn: int, ledger: Ledger | None) -> int:
    """The part of a COMMIT record that is about one destination; returns how many messages that are."""
    state.lsn = lsn
    messages = 0
    for identity in _identities(part["stages"]):
        stage = state.stages.take(identity)
        if stage is None:
            raise JournalDamaged(f"Record {lsn} commits a stage of {state.address} that is not there.")
        messages += stage.messages
        state.apply_commit(stage, lsn, part["time"], ledger)
    return messages


def apply_unstage(state: DestinationState, record: Fields, lsn: int, ledger: Ledger | None) -> None:
    state.lsn = lsn
    for identity in _identities(record["stages"]):
        stage = state.stages.take(identity)
        if stage is not None and ledger is not None:
            for each in stage.lsns:
                ledger.release(each)


def _identities(joined: bytes) -> list[bytes]:
    return [joined[at : at + STAGE_ID_BYTES] for at in range(0, len(joined), STAGE_ID_BYTES)]
