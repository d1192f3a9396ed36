"""The bus on bad networks, from seeds; and mutants of it that the checks must catch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import inf

import pytest
from tests.simulation.bus_scenario import (
    IN,
    MANAGER,
    MEMBERS,
    OBSERVER,
    Scenario,
    run_quietly,
    run_with_restarts,
)

from tocsin.bus.fragments import Reassembly
from tocsin.bus.machine import Delivered
from tocsin.bus.receive_window import Lost, ReceiveWindow
from tocsin.bus.receiving import Receiving
from tocsin.bus.send_window import SendWindow
from tocsin.testing.network import Conditions

SEEDS = range(8)
MUTANT_SEEDS = range(4)
BAD = Conditions(loss=0.3, duplication=0.05, reordering=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_comes_in_order_and_once(seed: int) -> None:
    run_quietly(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_incarnations_come_and_go(seed: int) -> None:
    run_with_restarts(seed)


def test_everything_comes_with_a_third_of_the_datagrams_lost_and_sealed() -> None:
    scenario = Scenario(3, BAD, sealed=True)
    scenario.send_some(40)
    scenario.finish()
    tally = scenario.cluster.network.tally
    assert tally.lost > 0.25 * tally.sent
    assert scenario.manager.bus.counters.forged == 0


def test_one_seed_gives_one_run() -> None:
    def trace(seed: int) -> str:
        scenario = Scenario(seed, BAD)
        record = scenario.cluster.network.sent = []
        scenario.send_some(10)
        scenario.finish()
        return sha256(b"".join(datagram for _, datagram in record)).hexdigest()

    assert trace(5) == trace(5) != trace(6)


def test_a_silent_observer_stops_nobody_and_is_told_what_it_missed() -> None:
    scenario = Scenario(1, Conditions())
    scenario.cluster.network.partition([OBSERVER], [MANAGER, *MEMBERS])
    scenario.send_some(60)
    scenario.finish()
    scenario.cluster.run(2.0)
    assert scenario.observer.losses_from(scenario.manager, IN) == 1


def test_a_member_that_counts_and_dies_holds_the_sender_until_it_counts_no_more() -> None:
    scenario = Scenario(1, BAD)
    dead = scenario.members.pop()
    scenario.cluster.kill(dead.node)
    scenario.send_some(60)
    scenario.cluster.run(5.0)
    assert scenario.manager.bus.pending(IN) > 0
    assert scenario.manager.bus.behind(IN) == [dead.node]
    scenario.manager.bus.count(IN, [member.node for member in scenario.members])
    scenario.finish()


# Mutants: each takes one mechanism away, and the same checks must fail.


def no_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReceiveWindow, "_retry_pause", lambda self, asked: 1e9)


def no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def naks(self: ReceiveWindow, now: float) -> list[tuple[int, int]]:
        self.nak_at = inf
        return []

    monkeypatch.setattr(ReceiveWindow, "naks", naks)


def no_duplicate_check(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ReceiveWindow.packet

    def packet(self: ReceiveWindow, sequence: int, content: memoryview, now: float) -> Sequence[memoryview]:
        return (content,) if sequence < self.expected else original(self, sequence, content, now)

    monkeypatch.setattr(ReceiveWindow, "packet", packet)


def no_gap_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def packet(self: ReceiveWindow, sequence: int, content: memoryview, now: float) -> Sequence[memoryview]:
        if sequence < self.expected:
            return ()
        self.expected = sequence + 1
        self.highest = sequence
        return (content,)

    monkeypatch.setattr(ReceiveWindow, "packet", packet)


def released_without_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SendWindow, "_settle", lambda self: self._release(self.high))


def released_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(self: SendWindow) -> int:
        positions = [self._positions.get(node, 0) for node in self._counted]
        return self._release(max(positions, default=self.high))

    monkeypatch.setattr(SendWindow, "_settle", settle)


def loss_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ReceiveWindow.status

    def status(self: ReceiveWindow, high: int, low: int, now: float) -> Lost | None:
        original(self, high, low, now)
        return None

    monkeypatch.setattr(ReceiveWindow, "status", status)


def rest_of_a_lost_message_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reassembly, "skip", lambda self: None)


def end_of_a_stream_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Receiving._status

    def status(self: Receiving, channel: object, flow: object, report: object, now: float) -> None:
        positions = [each._replace(high=max(0, each.released)) for each in report.positions]  # type: ignore[attr-defined]
        changed = report._replace(positions=positions)  # type: ignore[attr-defined]
        original(self, channel, flow, changed, now)  # type: ignore[arg-type]

    monkeypatch.setattr(Receiving, "_status", status)


@pytest.mark.parametrize(
    "mutant",
    [
        no_second_request,
        no_request,
        no_duplicate_check,
        no_gap_check,
        released_without_acknowledgement,
        released_by_the_first,
        loss_is_not_told,
        rest_of_a_lost_message_is_kept,
        end_of_a_stream_is_not_announced,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_mutant_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in MUTANT_SEEDS:
            run_quietly(seed)
            run_with_restarts(seed)
            lossy_observer(seed)


@pytest.mark.parametrize("seed", MUTANT_SEEDS)
def test_the_observer_of_the_mutants_is_well_without_them(seed: int) -> None:
    lossy_observer(seed)


def lossy_observer(seed: int) -> None:
    """Large messages to an observer that misses much: it must be told, and get nothing that is half lost."""
    scenario = Scenario(seed, Conditions(loss=0.3))
    for _ in range(3):
        for _ in range(15):
            scenario.manager.send(IN, 20_000)
            scenario.cluster.run(0.002)
        scenario.cluster.network.partition([OBSERVER], [MANAGER, *MEMBERS])
        for _ in range(25):
            scenario.manager.send(IN, 20_000)
            scenario.cluster.run(0.05)
        scenario.cluster.network.heal()
        scenario.cluster.run(0.5)
    scenario.finish()
    assert scenario.observer.losses_from(scenario.manager, IN)
    assert any(isinstance(event, Delivered) for event in scenario.observer.events)
