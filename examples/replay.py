"""A retained topic keeps its messages; any number of readers go back in it as far as they like.

Prints:

    kept: offsets 0 to 5
    from the start: ['reading 0', 'reading 1', 'reading 2', 'reading 3', 'reading 4']
    from offset 3: ['reading 3', 'reading 4']
    from a time on: ['reading 3', 'reading 4']
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import sleep
from typing import Any

from any_server import any_server

import tocsin

TOPIC = "examples.readings"


def read(session: tocsin.Session, start: Any, end: int) -> list[str]:
    """Everything from `start` up to the offset `end`. A replay takes nothing away and acknowledges nothing."""
    found: list[str] = []
    with session.replay(session.topic(TOPIC), start=start) as reader:
        while message := reader.receive(timeout=5):
            assert message.offset is not None
            found.append(message.body)
            if message.offset + 1 >= end:
                break
    return found


def main(url: str) -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        # Kept for a week or up to 100 MB, whatever comes first; the oldest goes first.
        connection.create_destination(TOPIC, "topic", retained=True, max_age=7 * 86400, max_bytes=100_000_000)
        producer = session.producer(session.topic(TOPIC))
        producer.send_many(f"reading {number}" for number in range(3))
        sleep(0.01)
        later = datetime.now(UTC)
        producer.send_many(f"reading {number}" for number in range(3, 5))

        info = connection.show_destination(session.topic(TOPIC))
        print(f"kept: offsets {info['earliest']} to {info['latest']}")
        print("from the start:", read(session, "earliest", info["latest"]))
        print("from offset 3:", read(session, 3, info["latest"]))
        print("from a time on:", read(session, later, info["latest"]))
        # So that the next run of this example begins at offset 0 again.
        producer.close()
        connection.delete_destination(session.topic(TOPIC))


if __name__ == "__main__":
    with any_server() as url:
        main(url)
