"""An application process in virtual time: the real client core, and scripts that use it as a program would.

A script is a generator: it yields what it waits for (a Pending, or seconds as a number) and is resumed when that is
there. An error of a Pending is raised in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import nullcontext
from typing import Any, TypeAlias

from tocsin.client.core import Core, Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_settling import Settlements
from tocsin.client.delivered import Decoded
from tocsin.client.pending import Pending
from tocsin.client.settings import Settings
from tocsin.client.sync_line import DONE
from tocsin.client.url import Place, ServerUrl
from tocsin.model.errors import TocsinError
from tocsin.model.ranges import Range
from tocsin.testing.clusters.history import History, ViewHistory
from tocsin.testing.clusters.lines import Exchange, Line
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.simulation.register_checks import Violation
from tocsin.wire.frames import Outcome

Script: TypeAlias = Generator["Pending | float", Any, None]
_NO_LOCK = nullcontext()
_FOR_EVER = 1e8


class WatchedSettlements(Settlements):
    """Tells the history which acknowledgements the server has confirmed."""

    __slots__ = ("_blocks", "bodies", "history", "timeline", "view")

    def __init__(self, consumer: ConsumerState, timeline: Timeline, history: History, view: ViewHistory) -> None:
        super().__init__(consumer)
        self.timeline, self.history, self.view = timeline, history, view
        self.bodies: dict[int, str] = {}
        """What the application was given, by offset."""
        self._blocks: dict[int, tuple[Decoded, float]] = {}

    def note_blocks(self, said_at: float) -> None:
        """Blocks that are new in the buffer have just arrived; the server said them then."""
        for run in self.consumer.buffer:
            self._blocks.setdefault(id(run.decoded), (run.decoded, said_at))

    def said_at(self, decoded: Decoded) -> float:
        return self._blocks[id(decoded)][1]

    def _settle(self, outcome: Outcome, ranges: list[Range], delay_ms: int | None = None, reason: str = "") -> None:
        self.history.settlements += 1
        if outcome is Outcome.ACKNOWLEDGE:
            self.view.acknowledging.update(self._bodies(ranges))
        super()._settle(outcome, ranges, delay_ms, reason)

    def confirm(self, number: int) -> None:
        for settle in self.unconfirmed:
            if settle.number > number:
                break
            if settle.outcome is Outcome.ACKNOWLEDGE:
                self.history.acknowledged(self.view, self._bodies(settle.ranges), self.timeline.time)
        super().confirm(number)

    def _bodies(self, ranges: list[Range]) -> list[str]:
        offsets = [offset for start, end in ranges for offset in range(start, end)]
        unknown = [offset for offset in offsets if offset not in self.bodies]
        if unknown:
            raise Violation("I10", f"{unknown} of {self.view} are acknowledged, and the application never had them")
        return [self.bodies[offset] for offset in offsets]


class _Port:
    """What the core asks of its shell. Nothing is locked and nothing waited for: scripts do that."""

    lock = _NO_LOCK

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client

    def flush(self) -> None:
        """Whatever the core has said leaves at the end of the turn."""

    def wall_ms(self) -> int:
        return self._client.wall_ms()

    def steady_ms(self) -> int:
        return int(self._client.now() * 1000)

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        return DONE

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        return DONE


class SimulatedClient(Being):
    """The client's end of a line, with the core behind it."""

    def __init__(
        self, timeline: Timeline, exchange: Exchange, number: int, hosts: list[str], heartbeat: float,
        client_id: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(timeline)
        self.number = number
        self._exchange = exchange
        url = ServerUrl(tuple(Place(host, 1) for host in hosts))
        settings = Settings(url, client_id=client_id, heartbeat=heartbeat, reconnect_timeout=_FOR_EVER)
        random = timeline.random
        self.core = Core(settings, _Port(self), chance=random.random, nonce=lambda: f"{random.getrandbits(96):x}")
        # The first server may be down when a program starts; a program would try again, and so does this one.
        self.core.ready.finish()
        self._line: Line | None = None
        self._dialing = False
        self._wake_at = float("inf")
        self._woken: list[tuple[Script, Pending]] = []
        self.dials = 0

    # ---- lives

    def start(self, *scripts: Script) -> None:
        self.begin_life()
        for script in scripts:
            self._step(script, None)
        self._tick()

    def stop(self) -> None:
        """The process is killed: nobody says goodbye."""
        self.end_life()
        if self._line is not None:
            self._exchange.hang_up(self._line)
            self._line = None

    def wall_ms(self) -> int:
        return int(self.wall() * 1000)

    @property
    def is_working(self) -> bool:
        """Whether the application was handed messages that it has not acknowledged, and has said so to nobody."""
        return any(
            consumer.settlements.outstanding and not consumer.automatic for consumer in self.core.consumers.values()
        )

    # ---- scripts

    def run(self, script: Script) -> None:
        self._step(script, None)
        self._turn()

    def _step(self, script: Script, pending: Pending | None) -> None:
        """Goes on with a script until it has to wait."""
        while True:
            try:
                if pending is None:
                    wanted = next(script)
                elif pending.error is not None:
                    wanted = script.throw(pending.error.with_traceback(None))
                else:
                    wanted = script.send(pending.result)
            except StopIteration:
                return
            except TocsinError:
                # A program that an error ends; the clients that stay make up for it.
                return
            if isinstance(wanted, float | int):
                self.timeline.after(wanted, self, self._resume, script, None)
                return
            if not wanted.done:
                wanted.when_done(lambda done: self._woken.append((script, done)))
                return
            pending = wanted

    def _resume(self, script: Script, pending: Pending | None) -> None:
        self._step(script, pending)
        self._turn()

    # ---- the line

    def answered(self, line: Line) -> None:
        self._dialing = False
        if self.core.phase is not Phase.CONNECTING:
            self._exchange.hang_up(line)
            return
        self._line = line
        self.core.connected(self.now())
        self._turn()

    def unanswered(self, error: TocsinError) -> None:
        self._dialing = False
        if self.core.phase is Phase.CONNECTING:
            self.core.connect_failed(self.now(), error)
        self._turn()

    def heard(self, line: Line, data: bytes, said_at: float) -> None:
        if line is self._line:
            self.core.received(data, self.now())
            for consumer in self.core.consumers.values():
                if consumer.buffer and isinstance(consumer.settlements, WatchedSettlements):
                    consumer.settlements.note_blocks(said_at)
            self._turn()

    def hung_up(self, line: Line, error: TocsinError) -> None:
        if line is self._line:
            self._line = None
            self.core.disconnected(self.now(), error)
            self._turn()

    def say(self, line: Line, data: bytes) -> None:
        self._exchange.say(line, data)

    def _turn(self) -> None:
        """What follows from whatever just happened."""
        core = self.core
        while self._woken:
            woken, self._woken = self._woken, []
            for script, pending in woken:
                self._step(script, pending)
        if core.output:
            data = b"".join(core.output)
            core.output.clear()
            if self._line is not None:
                self.say(self._line, data)
                core.sent(self.now())
        if self._line is not None and core.phase in (Phase.DOWN, Phase.CLOSED):
            self._exchange.hang_up(self._line)
            self._line = None
        if core.dial is not None and not self._dialing:
            self._dialing = True
            self.dials += 1
            self._exchange.dial(self, core.dial[0])
        deadline = core.next_deadline()
        if deadline is not None and deadline < self._wake_at:
            self._wake_at = deadline
            self.timeline.at(self.clock.world(deadline) + 1e-6, self, self._on_time, deadline)

    def _on_time(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = float("inf")
            self._tick()

    def _tick(self) -> None:
        self.core.tick(self.now())
        self._turn()
