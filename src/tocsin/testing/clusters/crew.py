"""The applications of one simulation: who sends to what, who consumes from what, and who replaces whom."""

from __future__ import annotations

from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.drainers import Drainer
from tocsin.testing.clusters.epochs import EpochWriter
from tocsin.testing.clusters.historians import Historian
from tocsin.testing.clusters.history import DEAD_MESSAGES, History
from tocsin.testing.clusters.hostile import HostileClient
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.workload import Pace, Source, Workload
from tocsin.testing.strict_faults import StrictFaults

HEARTBEAT_SECONDS = 4.0
"""Longer than by default of a cluster's own heartbeats: what is quiet costs no events."""
DRAINED = "queue:drained"
_RETAINED_SHARE = _HOSTILE_SHARE = 0.35
"""Of the seeds have such a program."""
CLIENT_SETTINGS = ClientSettings(heartbeat=HEARTBEAT_SECONDS, faults=StrictFaults())


class Crew:
    def __init__(self, timeline: Timeline, exchange: Exchange, hosts: list[str], pace: Pace) -> None:
        self._timeline, self._exchange, self._hosts = timeline, exchange, hosts
        self.history = History()
        self.workload = Workload(timeline, self.history, pace)
        self.pace = pace
        self.clients: list[SimulatedClient] = []
        self._numbers = 0
        self._producers: set[int] = set()
        self.epochs: EpochWriter | None = None
        self._epoch_writer = 0
        self.historian: Historian | None = None
        self._remembering = 0
        self.drainer: Drainer | None = None
        self._draining = 0
        self._former_resumes = 0
        random = timeline.random
        self.queues = [f"queue:q{number}" for number in range(random.randint(1, 3))]
        self.topics = [f"topic:t{number}" for number in range(random.randint(0, 2))]
        self.sources = [Source(queue) for queue in self.queues]
        for number, topic in enumerate(self.topics):
            client_id = f"c{number}" if random.random() < 0.4 else None
            self.sources.append(Source(topic, f"s{number}", client_id))
            if random.random() < 0.5:
                self.sources.append(Source(topic, f"u{number}", urgent=True))
        self._owners: dict[Source, SimulatedClient] = {}
        """Subscriptions that belong to one client id have one consumer at a time."""

    def assemble(self, strict: int = 0, staging: bool = False, draining: bool = False, retaining: bool = False) -> None:
        """`strict`: how many queues give a message up after its second delivery. `staging`: epochs are committed.
        `draining`: queues are drained, too. `retaining`: one topic is retained, in any case.
        """
        random = self._timeline.random
        if draining:
            # Before the producers begin: it is theirs as well.
            self.drainer = Drainer(self.workload, list(self.queues), DRAINED)
            self.queues.append(DRAINED)
        self.destinations = [*self.queues, *self.topics]
        producers = random.randint(1, 2)
        self.pace.publish_seconds *= producers
        for _ in range(producers):
            self._produce()
        for source in self.sources:
            for _ in range(random.randint(1, 2)):
                self._consume(source)
        self._consume(Source(DEAD_MESSAGES))
        if random.random() < 0.5:
            client = self._new()
            self._start(client, self.workload.administer(client, self.queues[:strict], ["queue:x0", "queue:x1"]))

        if random.random() < _RETAINED_SHARE or retaining:
            self.historian = Historian(self.workload, self.destinations)
            self._remember(self.historian)
        if random.random() < _HOSTILE_SHARE:
            self._misbehave()
        if staging:
            self.epochs = EpochWriter(self.workload, [*self.queues, *self.topics])
            self._write_epochs()
        if self.drainer is not None:
            self._drain(self.drainer)

    def _remember(self, historian: Historian) -> None:
        client = self._new()
        self._remembering = client.number
        self._start(client, historian.run(client))

    def _misbehave(self) -> None:
        self._numbers += 1
        client = HostileClient(self._timeline, self._exchange, self._numbers, list(self._hosts), HEARTBEAT_SECONDS)
        self._start(client, client.misbehave(self.pace))

    def _drain(self, drainer: Drainer) -> None:
        client = self._new()
        self._draining = client.number
        self._start(client, drainer.run(client))

    def _write_epochs(self) -> None:
        assert self.epochs is not None
        client = self._new()
        self._epoch_writer = client.number
        self._start(client, self.epochs.run(client))

    def _produce(self) -> None:
        client = self._new()
        self._producers.add(client.number)
        self._start(client, self.workload.produce(client, self.destinations))

    def _consume(self, source: Source) -> None:
        if source.client_id is not None and source in self._owners:
            return
        client = self._new(source.client_id)
        if source.client_id is not None:
            self._owners[source] = client
        ack = self._timeline.random.choice(("auto", "client", "client"))
        self._start(client, self.workload.consume(client, source, ack))

    def _new(self, client_id: str | None = None) -> SimulatedClient:
        self._numbers += 1
        hosts = list(self._hosts)
        self._timeline.random.shuffle(hosts)
        return SimulatedClient(self._timeline, self._exchange, self._numbers, hosts, HEARTBEAT_SECONDS, client_id)

    def _start(self, client: SimulatedClient, script: Script) -> None:
        self.clients.append(client)
        client.start(script)

    # ---- faults

    def kill(self, client: SimulatedClient) -> None:
        """A program dies; somebody starts another that does the same, as another client."""
        self.clients.remove(client)
        self._owners = {source: owner for source, owner in self._owners.items() if owner is not client}
        client.stop()
        self._former_resumes += max(0, client.dials - 1)
        self.workload.abandoned(client)
        if isinstance(client, HostileClient):
            self._misbehave()
        elif client.number == self._remembering and self.historian is not None:
            self._remember(self.historian)
        elif client.number in self._producers:
            self._produce()
        elif client.number == self._epoch_writer:
            self._write_epochs()
        elif client.number == self._draining and self.drainer is not None:
            self._drain(self.drainer)

    def replace_all(self) -> None:
        """One consumer more for each source, so that none is without."""
        for source in [*self.sources, Source(DEAD_MESSAGES)]:
            self._consume(source)

    # ---- the end

    @property
    def resumes(self) -> int:
        return self._former_resumes + sum(max(0, client.dials - 1) for client in self.clients)

    def is_done(self) -> bool:
        """Everything that was sent is confirmed, and everything confirmed was consumed."""
        return not self.workload.unconfirmed and not self.history.all_missing()
