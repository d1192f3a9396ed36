"""The applications of one simulation: who sends to what, who consumes from what, and who replaces whom."""

from __future__ import annotations

from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.history import DEAD_MESSAGES, History
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.workload import Pace, Source, Workload

HEARTBEAT_SECONDS = 4.0
"""Longer than by default of a cluster's own heartbeats: what is quiet costs no events."""
CLIENT_SETTINGS = ClientSettings(heartbeat=HEARTBEAT_SECONDS)


class Crew:
    def __init__(self, timeline: Timeline, exchange: Exchange, hosts: list[str], pace: Pace) -> None:
        self._timeline, self._exchange, self._hosts = timeline, exchange, hosts
        self.history = History()
        self.workload = Workload(timeline, self.history, pace)
        self.pace = pace
        self.clients: list[SimulatedClient] = []
        self._numbers = 0
        self._former_resumes = 0
        random = timeline.random
        self.queues = [f"queue:q{number}" for number in range(random.randint(1, 3))]
        self.topics = [f"topic:t{number}" for number in range(random.randint(0, 2))]
        self.sources = [Source(queue) for queue in self.queues]
        self.sources += [Source(topic, f"s{number}") for number, topic in enumerate(self.topics)]

    def assemble(self) -> None:
        random = self._timeline.random
        producers = random.randint(1, 2)
        self.pace.publish_seconds *= producers
        for _ in range(producers):
            self._produce()
        for source in self.sources:
            for _ in range(random.randint(1, 2)):
                self._consume(source)
        self._consume(Source(DEAD_MESSAGES))

    def _produce(self) -> None:
        client = self._new()
        self._start(client, self.workload.produce(client, [*self.queues, *self.topics]))

    def _consume(self, source: Source) -> None:
        client = self._new()
        ack = self._timeline.random.choice(("auto", "client", "client"))
        self._start(client, self.workload.consume(client, source, ack))

    def _new(self) -> SimulatedClient:
        self._numbers += 1
        hosts = list(self._hosts)
        self._timeline.random.shuffle(hosts)
        return SimulatedClient(self._timeline, self._exchange, self._numbers, hosts, HEARTBEAT_SECONDS)

    def _start(self, client: SimulatedClient, script: Script) -> None:
        self.clients.append(client)
        client.start(script)

    # ---- faults

    def kill(self, client: SimulatedClient) -> None:
        """A program dies; somebody starts another that does the same, as another client."""
        self.clients.remove(client)
        client.stop()
        self._former_resumes += max(0, client.dials - 1)
        self.workload.abandoned(client)

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
