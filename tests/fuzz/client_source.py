"""Draws what hostile clients do: dialogues as a client would have them, each step perhaps with a field at its extreme,
damaged, repeated, pipelined, left out or said by another; and requests from the server's own tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.fuzz.client_cases import (
    Batch,
    Case,
    Control,
    Dial,
    FrameSpec,
    HangUp,
    Own,
    Patched,
    Raw,
    Repeated,
    Restart,
    Say,
    Sent,
    Snapshot,
    Wait,
)
from tests.fuzz.engine import Source
from tests.fuzz.extremes import ADDRESS, BITS, NAMES, RAW, SELECTORS, TEXT, WHOLE, anything, of_type

from tocsin.client_manager.requests import ADMINISTRATION, FIELDS, MODES, NEEDED, OWN_FIELDS
from tocsin.client_manager.stage_requests import STAGE_REQUESTS
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.model.limits import BATCH_MESSAGES_MAX, RANGES_PER_FRAME_MAX
from tocsin.model.ranges import pack_ranges
from tocsin.wire.frames import CONTROL, Credit, FrameType, Outcome, Settle

SLOTS = 4
_MUTATED = 0.12
_AMPLE = 1 << 40
_SESSION = 1
_TABLE = ("session.open", "session.close", "producer.open", "producer.close", "consumer.open", "consumer.close",
          "temporary.create", "client_id.set", "cluster.status")  # fmt: skip
_OTHER_FIELDS: dict[str, type] = {
    "session": int, "producer": int, "consumer": int, "epoch": int, "since": int, "producer_id": bytes, "mode": str,
    "selector": str, "no_local": bool, "shared": bool, "messages": int, "bytes": int, "held": bytes, "kind": str,
    "client_id": str, "offsets": list, "stage": bytes, "app": str, "stages": list, "destinations": list, "run": int,
}  # fmt: skip
_GIANTS = 0.012
"""So often a dialogue is one that makes something large; it takes a large part of a second."""
_GIANTS_WHOLE = 0.75
"""So many of them are said as they are: of the others hardly one comes to its end."""
_HEADER_EXTREMES: dict[str, tuple[Any, ...]] = {
    "delivery_mode": (DeliveryMode.NON_PERSISTENT,), "priority": (0, 9, 10, 255), "producer_epoch": BITS[32],
    "first_sequence": (0, 2**63 - 1, 2**63, 2**64 - 1), "unconfirmed_from": (0, 2**63 - 1, 2**64 - 1),
    "base_timestamp": (0, -1, 2**63 - 1), "delivery_time": (1, -1, 2**63 - 1, 1_000_000_000_500, 1_000_000_060_000),
    "earliest_expiry": (1, -1, 2**63 - 1, 1_000_000_000_500), "stage": (b"s" * 16, b"t" * 16, b"\xff" * 16),
    "large_message": (b"\x01" * 16,), "body_kind": tuple(BodyKind), "codec": (1, 255), "flags": (1, 2, 3, 255),
}  # fmt: skip


def held_of(flat: Any) -> Any:
    """Ranges as a consumer that resumes names them; what can't be a range stays as it is."""
    if not isinstance(flat, list) or len(flat) % 2 or not all(type(each) is int and 0 <= each < 2**64 for each in flat):
        return flat
    return pack_ranges(list(zip(flat[::2], flat[1::2], strict=True)))


class ClientSource(Source[Case]):
    def __init__(self, chance: Random, *, restarts: bool, lists: int, giants: float = _GIANTS) -> None:
        """`restarts`: the machine has one disk, and can come up from it again. `lists`: so many are asked for at once
        at most. `giants`: the share of dialogues that make something large.
        """
        self._chance, self._restarts, self._lists_max, self._giants = chance, restarts, lists, giants
        self._steps: dict[int, deque[Case]] = {slot: deque() for slot in range(SLOTS)}
        self._whole: set[int] = set()
        """Slots whose dialogue is said as it is."""
        self._sequences: dict[tuple[int, int], int] = {}
        self._requests = 0
        self._created = 0

    def draw(self) -> Case:
        chance = self._chance
        if chance.random() < 0.03:
            return self._around()
        slot = chance.randrange(SLOTS)
        steps = self._steps[slot]
        if not steps:
            self._whole.discard(slot)
            if chance.random() < self._giants:
                steps.extend(chance.choice((self._gaps, self._gaps, self._lists))(slot))
                if chance.random() < _GIANTS_WHOLE:
                    self._whole.add(slot)
            else:
                steps.extend(chance.choice(self._dialogues())(slot))
        case = steps.popleft()
        if isinstance(case, Say) and slot not in self._whole and chance.random() < _MUTATED:
            return self._mutated(case)
        return case

    def _dialogues(self) -> list[Any]:
        return [
            self._greeting, self._working, self._working, self._reading, self._reading, self._asking, self._asking,
            self._asking, self._staging, self._draining, self._resuming, self._noise,
        ]  # fmt: skip

    def _around(self) -> Case:
        """What happens beside the clients."""
        chance = self._chance
        way = chance.randrange(10)
        if way < 5:
            return Wait(chance.choice((0.01, 0.3, 1.5, 6.0, 40.0)))
        if way < 8 or not self._restarts:
            return Snapshot()
        return Restart()

    # ---- frames

    def _request(self, op: str, on: int = 0, **fields: Any) -> Control:
        self._requests += 1
        return Control(FrameType.REQUEST, on, {"id": self._requests, "op": op, **fields})

    def _hello(self, **fields: Any) -> Control:
        return Control(FrameType.HELLO, 0, {"version": 1, "product": "fuzz", "heartbeat": 1e9, **fields})

    def _batch(self, slot: int, producer: int, destination: str, **more: Any) -> Batch:
        key = slot, producer
        first = self._sequences.get(key, 1)
        batch = Batch(_SESSION, producer, destination, first=first, **more)
        self._sequences[key] = first + batch.count
        return batch

    def _mutated(self, say: Say) -> Case:
        chance = self._chance
        frames = list(say.frames)
        at = chance.randrange(len(frames))
        way = chance.randrange(10)
        if way < 4:
            frames[at] = self._with_extreme(frames[at])
        elif way == 4:
            patches = tuple(
                (chance.random(), chance.choice(BITS[8 * size]).to_bytes(size, "little"))
                for size in chance.choices((1, 2, 4, 8), k=chance.choice((1, 1, 2)))
            )
            frames[at] = Patched(frames[at], patches)
        elif way == 5:
            frames.insert(at, frames[at])
        elif way == 6:
            return replace(say, held_back=chance.choice((1, 5, 40)))
        elif way == 7:
            return replace(say, slot=chance.randrange(SLOTS))
        elif way == 8:
            frames[at] = self._elsewhere(frames[at])
        elif isinstance(frame := frames[at], Control):
            return Say(say.slot, (Repeated(frame, chance.choice((3, 30, 200))),))
        return replace(say, frames=tuple(frames))

    def _with_extreme(self, frame: FrameSpec) -> FrameSpec:
        chance = self._chance
        if isinstance(frame, Control):
            names = [name for name in frame.fields if name not in ("id", "op")] or ["destination"]
            name = chance.choice(names)
            kinds = FIELDS | _OTHER_FIELDS
            value = of_type(kinds[name], chance) if name in kinds else anything(chance)
            return replace(frame, fields={**frame.fields, name: value})
        if isinstance(frame, Batch):
            name = chance.choice(list(_HEADER_EXTREMES))
            value = chance.choice(_HEADER_EXTREMES[name])
            if chance.random() < 0.5:
                return replace(frame, changes={name: value})
            return replace(frame, header={name: value})
        if isinstance(frame, Sent):
            return Sent(frame.session, self._fixed())
        return frame

    def _elsewhere(self, frame: FrameSpec) -> FrameSpec:
        if isinstance(frame, Control | Sent | Batch):
            return replace(frame, session=self._chance.choice((0, 1, 2, 77, 2**32 - 1)))
        return frame

    def _fixed(self) -> Credit | Settle:
        chance = self._chance
        number = chance.choice((0, 1, 2, 3, 2**32 - 1))
        if chance.random() < 0.4:
            return Credit(number, chance.choice(BITS[64]), chance.choice(BITS[64]))
        ranges = [
            tuple(sorted(chance.choices((*range(20), *BITS[64]), k=2))) for _ in range(chance.choice((0, 1, 1, 3, 200)))
        ]
        delay = chance.choice((None, 0, 1, 1_000, 2**32 - 2))
        reason = chance.choice(("", "no", "x" * 1_024, "\ud800", "größe"))
        return Settle(
            number, chance.choice(list(Outcome)), chance.choice((*range(9), *BITS[64])), ranges, delay, reason
        )

    # ---- dialogues

    def _entered(self, slot: int, **hello: Any) -> Iterator[Case]:
        yield Dial(slot)
        yield Say(slot, (self._hello(**hello),))
        yield Say(slot, (self._request("session.open", session=_SESSION),))

    def _greeting(self, slot: int) -> Iterator[Case]:
        chance = self._chance
        more: dict[str, Any] = {}
        if chance.random() < 0.5:
            more["client_id"] = chance.choice(("one", "two", *TEXT))
        if chance.random() < 0.2:
            more[chance.choice(("version", "heartbeat", "sasl", "user", "resume", "product"))] = anything(chance)
        yield from self._entered(slot, **more)
        if chance.random() < 0.3:
            yield Say(slot, (self._request("client_id.set", client_id=chance.choice(("one", *TEXT))),))
        if chance.random() < 0.3:
            yield chance.choice((HangUp(slot), Say(slot, (Control(FrameType.GOODBYE, 0, {}),))))

    def _working(self, slot: int) -> Iterator[Case]:
        """Publishes and consumes as a client should."""
        chance = self._chance
        destination, producer, consumer = chance.choice(NAMES), chance.randint(1, 3), chance.randint(1, 3)
        if chance.random() < 0.6:
            yield from self._entered(slot)
        yield Say(slot, (self._request("producer.open", 1, producer=producer, destination=destination),))
        yield Say(slot, (self._open(consumer, destination),))
        for _ in range(chance.randint(1, 6)):
            yield Say(slot, (self._some_batch(slot, producer, destination),))
        for number in range(1, chance.randint(2, 5)):
            first = chance.randint(0, 30)
            settle = Settle(consumer, chance.choice(list(Outcome)), number, [(first, first + chance.randint(1, 9))])
            yield Say(slot, (Sent(1, settle), Sent(1, Credit(consumer, 100 * number, _AMPLE))))
        closing = chance.choice(("consumer.close", "producer.close", "session.close"))
        yield Say(slot, (self._request(closing, 1, consumer=consumer, producer=producer),))

    def _some_batch(self, slot: int, producer: int, destination: str) -> Batch:
        chance = self._chance
        more: dict[str, Any] = {}
        if chance.random() < 0.3:
            name = chance.choice(("n", "größe", "JMSXGroupID", "JMSXDeliveryCount", "x" * 256, "_x"))
            more["properties"] = {name: chance.choice((1, True, "a", 1.5, b"b"))}
        body = chance.choice((b"", b"x", b"hostile", b"x" * 3_000))
        return self._batch(slot, producer, destination, count=chance.choice((1, 1, 3, 40)), body=body, **more)

    def _open(self, consumer: int, destination: str, **more: Any) -> Control:
        return self._request(
            "consumer.open",
            1,
            consumer=consumer,
            destination=destination,
            mode="consume",
            messages=100,
            bytes=_AMPLE,
            **more,
        )

    def _reading(self, slot: int) -> Iterator[Case]:
        """Consumers of every sort."""
        chance = self._chance
        if chance.random() < 0.4:
            yield from self._entered(slot, client_id=chance.choice(("one", "two")))
        for _ in range(chance.randint(1, 3)):
            fields: dict[str, Any] = {}
            if chance.random() < 0.6:
                fields["mode"] = chance.choice(sorted(MODES))
            if chance.random() < 0.4:
                fields["selector"] = chance.choice(SELECTORS)
            if chance.random() < 0.5:
                fields["subscription"] = chance.choice(("s", "t", *TEXT))
                fields["durable"], fields["shared"] = chance.random() < 0.5, chance.random() < 0.5
            if chance.random() < 0.3:
                fields["start"] = of_type(dict, chance)
            if chance.random() < 0.2:
                fields["held"] = held_of(of_type(list, chance))
            if chance.random() < 0.2:
                fields[chance.choice(("messages", "bytes"))] = chance.choice(WHOLE)
            opened = self._open(chance.randint(1, 4), chance.choice((*NAMES, *NAMES, *ADDRESS)))
            yield Say(slot, (replace(opened, fields={**opened.fields, **fields}),))
            yield Say(slot, (Sent(1, self._fixed()),))

    def _asking(self, slot: int) -> Iterator[Case]:
        """Requests from the tables, the fields that they need and some that they do not."""
        chance = self._chance
        if chance.random() < 0.2:
            yield from self._entered(slot)
        for _ in range(chance.randint(1, 5)):
            op = chance.choice((*ADMINISTRATION, *ADMINISTRATION, *_TABLE))
            kinds = FIELDS | _OTHER_FIELDS | OWN_FIELDS.get(op, {})
            names = {*NEEDED.get(op, ()), *chance.sample(sorted(kinds), chance.randint(0, 4))}
            if op in _TABLE:
                names |= {"session", "producer", "consumer", "destination"}
            fields = {name: self._plausible(name, kinds.get(name, str)) for name in sorted(names)}
            frames: list[FrameSpec] = [self._request(op, chance.choice((0, 1, 1)), **fields)]
            if chance.random() < 0.1:
                frames *= chance.choice((2, 20))
            yield Say(slot, tuple(frames))

    def _plausible(self, name: str, kind: type) -> Any:
        chance = self._chance
        if chance.random() < 0.25:
            return of_type(kind, chance)
        if name == "destination":
            return chance.choice((*NAMES, *NAMES, *ADDRESS))
        if name == "producer_id":
            return Own("producer_id", 1)
        if name in ("session", "producer", "consumer"):
            return chance.randint(1, 3)
        pools: dict[type, tuple[Any, ...]] = {
            int: (0, 1, 5, 100, 1_000), str: ("one", "s", "a"), bytes: (b"s" * 16, b"t" * 16), bool: (True, False),
            list: ([0, 5], [0, 1, 3, 4]), dict: ({},),
        }  # fmt: skip
        return chance.choice(pools[kind])

    def _staging(self, slot: int) -> Iterator[Case]:
        chance = self._chance
        destination, stage = chance.choice(NAMES), chance.choice((b"s" * 16, b"t" * 16, *RAW))
        app = chance.choice(("app", "app", *TEXT))
        if chance.random() < 0.5:
            yield from self._entered(slot)
        yield Say(slot, (self._request("stage.claim", app=app, destination=destination),))
        yield Say(slot, (self._request("stage.open", destination=destination, stage=stage, seconds=60),))
        yield Say(slot, (self._request("producer.open", 1, producer=9, destination=destination),))
        yield Say(slot, (self._batch(slot, 9, destination, header={"stage": stage}),))
        named = {"destination": destination, "stage": stage, "messages": chance.choice((0, 1, 1, 2**62))}
        run = chance.choice((None, 1, 2**63 - 1))
        epoch = chance.choice((0, 1, 2, *WHOLE))
        yield Say(slot, (self._request("stage.commit", app=app, epoch=epoch, stages=[named], run=run),))
        last: dict[str, Any] = {
            "app": app,
            "destinations": [destination],
            "stages": [named],
            "destination": destination,
        }
        yield Say(slot, (self._request(chance.choice(sorted(STAGE_REQUESTS)), **last),))

    def _draining(self, slot: int) -> Iterator[Case]:
        chance = self._chance
        queue, drain = chance.choice(("queue:one", "queue:two", *NAMES)), chance.choice(("d", "e", *TEXT))
        after = 0
        for op in chance.choices(("drain.take", "drain.list", "drain.finish", "drain.release"), k=chance.randint(1, 5)):
            more = {
                name: chance.choice((*range(5), *WHOLE))
                for name in ("messages", "bytes", "seconds")
                if chance.random() < 0.4
            }
            fields = {"destination": queue, "drain": drain, "after": after, "upto": after, **more}
            yield Say(slot, (self._request(op, **fields),))
            after += op == "drain.take"

    def _resuming(self, slot: int) -> Iterator[Case]:
        """The line breaks, and the client comes back for what it had."""
        chance = self._chance
        if chance.random() < 0.8:
            yield HangUp(slot)
        yield Dial(slot)
        yield Say(slot, (self._hello(resume={"connection": Own("identity"), "token": Own("token")}),))
        epoch = chance.choice((0, 1, 2, *WHOLE))
        opened = self._request("session.open", session=1, producer_id=Own("producer_id", 1), epoch=epoch)
        yield Say(slot, (opened,))
        held = held_of(chance.choice(([0, 10], [0, 3, 5, 9], [0, 2**62], [])))
        yield Say(slot, (self._open(chance.randint(1, 3), chance.choice(NAMES), held=held),))
        yield Say(
            slot, (self._request("producer.open", 1, producer=1, destination="queue:one", since=chance.choice(WHOLE)),)
        )

    def _noise(self, slot: int) -> Iterator[Case]:
        chance = self._chance
        yield Dial(slot)
        if chance.random() < 0.7:
            yield Say(slot, (self._hello(),))
        for _ in range(chance.randint(1, 3)):
            way = chance.randrange(4)
            if way == 0:
                yield Say(slot, (Raw(chance.randbytes(chance.choice((1, 11, 12, 13, 300)))),))
            elif way == 1:
                kind = chance.choice(sorted(CONTROL))
                fields = {
                    chance.choice(("id", "op", "code", "text", "sasl", "consumer")): anything(chance) for _ in range(3)
                }
                yield Say(slot, (Control(kind, chance.choice((0, 1, 2**32 - 1)), fields),))
            elif way == 2:
                length = chance.choice(BITS[32]).to_bytes(4, "little")
                yield Say(slot, (Raw(length + bytes((chance.randrange(20), 1, 0, 0)) + bytes(chance.choice((4, 30)))),))
            else:
                yield Say(slot, (Sent(chance.choice((0, 1)), self._fixed()),))

    # ---- giants

    def _gaps(self, slot: int) -> Iterator[Case]:
        """So many gaps in what a consumer holds that they do not fit one answer, when it comes back."""
        chance = self._chance
        queue = f"queue:gaps{self._created}"
        self._created += 1
        yield from self._entered(slot)
        yield Say(slot, (self._request("producer.open", 1, producer=7, destination=queue),))
        blocks = chance.choice((2, 5, 5))
        self._sequences[slot, 7] = 1
        for _ in range(blocks):
            yield Say(slot, (self._batch(slot, 7, queue, count=BATCH_MESSAGES_MAX, body=b""),))
        opened = self._open(7, queue)
        yield Say(slot, (replace(opened, fields={**opened.fields, "messages": 65_536}),))
        stride = chance.choice((2, 2, 3))
        offsets = range(0, blocks * BATCH_MESSAGES_MAX, stride)
        for number, begin in enumerate(range(0, len(offsets), RANGES_PER_FRAME_MAX), start=1):
            ranges = [(each, each + 1) for each in offsets[begin : begin + RANGES_PER_FRAME_MAX]]
            outcome = chance.choice((Outcome.ACKNOWLEDGE, Outcome.ACKNOWLEDGE, Outcome.ACKNOWLEDGE, Outcome.RELEASE))
            yield Say(slot, (Sent(1, Settle(7, outcome, number, ranges)),))
        yield HangUp(slot)
        if chance.random() < 0.3:
            yield Wait(6.0)
        yield Dial(slot)
        yield Say(slot, (self._hello(resume={"connection": Own("identity"), "token": Own("token")}),))
        yield Say(slot, (self._request("session.open", session=1, producer_id=Own("producer_id", 1), epoch=0),))
        held = self._open(7, queue, held=held_of(chance.choice(([0, blocks * BATCH_MESSAGES_MAX], [0, 2**53 - 1]))))
        yield Say(slot, (replace(held, fields={**held.fields, "messages": 65_536}),))
        yield Say(slot, (self._request("destination.delete", destination=queue),))

    def _lists(self, slot: int) -> Iterator[Case]:
        """Many long names, and their list asked for many times in one piece."""
        chance = self._chance
        yield from self._entered(slot)
        kind, long = chance.choice(("queue", "topic")), "x" * chance.choice((1, 200, 230))
        prefix = f"{kind}:list{self._created}.{long}"
        self._created += 1
        created = self._request("destination.create", destination=prefix + "{}", retained=kind == "topic")
        yield Say(slot, (Repeated(created, 1_000),))
        yield Say(
            slot, (Repeated(self._request("destination.list"), chance.choice((5, self._lists_max, self._lists_max))),)
        )
        shown = self._request("destination.show", destination=prefix + "{}")
        yield Say(slot, (Repeated(shown, 300),))
