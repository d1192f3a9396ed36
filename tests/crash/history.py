"""What a client did and what it was promised: the oracle of the crash tests.

Every message has a body of its own, so it can be followed through queues, subscriptions and the dead message queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import Received, ScriptedConsumer, ScriptedProducer, ScriptedSession


@dataclass
class Line:
    """One destination as its producer knows it."""

    producer: ScriptedProducer
    blocks: list[tuple[int, bytes]] = field(default_factory=list)
    """(last sequence, block) of everything that was sent, in order."""
    bodies: list[str] = field(default_factory=list)
    """Message number n is at n - 1."""

    def send(self, *bodies: str, **headers: object) -> None:
        data = self.producer.block([_padded(body) for body in bodies], **headers)  # type: ignore[arg-type]
        self.bodies += bodies
        self.producer.next_sequence += len(bodies)
        self.blocks.append((self.producer.next_sequence - 1, data))
        self.producer.resend(data)

    def confirmed(self) -> list[str]:
        return self.bodies[: self.producer.confirmed]


@dataclass
class Taken:
    """One view as its consumer knows it."""

    consumer: ScriptedConsumer
    delivered: set[str] = field(default_factory=set)
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Body to the number of the settlement."""
    refused: dict[str, list[int]] = field(default_factory=dict)
    """Body to the numbers of its nacks."""

    def take(self) -> list[Received]:
        messages = self.consumer.take()
        self.delivered |= {body_of(message) for message in messages}
        return messages

    def seen(self) -> set[str]:
        return self.delivered | {body_of(message) for message in self.consumer.messages}

    def ack(self, messages: list[Received]) -> None:
        if messages:
            number = self.consumer.last_settlement + 1
            self.acknowledged |= {body_of(message): number for message in messages}
            self.consumer.ack(*messages)

    def nack(self, messages: list[Received]) -> None:
        if messages:
            number = self.consumer.last_settlement + 1
            for message in messages:
                self.refused.setdefault(body_of(message), []).append(number)
            self.consumer.nack(*messages, delay_ms=0)

    def is_gone(self, body: str) -> bool:
        """Its acknowledgement was confirmed."""
        number = self.acknowledged.get(body)
        return number is not None and self.consumer.settled >= number

    def attempts(self, body: str) -> int:
        """Refusals that were confirmed."""
        return sum(1 for number in self.refused.get(body, ()) if self.consumer.settled >= number)


@dataclass
class History:
    client: ScriptedClient | None = None
    session: ScriptedSession | None = None
    lines: dict[str, Line] = field(default_factory=dict)
    views: dict[str, Taken] = field(default_factory=dict)
    epoch: int = -1
    """The last one that was begun; all before it are committed."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    """Of this epoch, as a commit names them."""


def body_of(message: Received) -> str:
    return message.body.decode().partition(" ")[0]


def _padded(body: str) -> bytes:
    """Bodies of many sizes, some longer than a sector."""
    number = sum(body.encode())
    return body.encode() + b" " + b"." * (20 + number * 37 % 160 + (500 if number % 11 == 0 else 0))
