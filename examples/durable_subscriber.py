"""A durable subscription collects messages while its subscriber is away.

It belongs to a client id and has a name; it stays until unsubscribe(), also when the server restarts.

Prints:

    while away, 3 invoices came
    received: ['invoice 1', 'invoice 2', 'invoice 3']
    unsubscribed
"""

from __future__ import annotations

from any_server import any_server

import tocsin

TOPIC = "examples.invoices"


def main(url: str) -> None:
    with tocsin.connect(url, client_id="examples.bookkeeping") as connection, connection.session() as session:
        session.durable_consumer(session.topic(TOPIC), "books").close()

    # The subscriber is gone now; somebody else publishes.
    with tocsin.connect(url) as connection, connection.session() as session:
        session.producer(session.topic(TOPIC)).send_many(f"invoice {number}" for number in (1, 2, 3))

    with tocsin.connect(url, client_id="examples.bookkeeping") as connection, connection.session() as session:
        waiting = connection.show_destination(session.topic(TOPIC))["messages"]
        print(f"while away, {waiting} invoices came")
        with session.durable_consumer(session.topic(TOPIC), "books") as consumer:
            received = []
            while message := consumer.receive(timeout=0.5):
                received.append(message.body)
        print("received:", received)
        session.unsubscribe("books")
        print("unsubscribed")


if __name__ == "__main__":
    with any_server() as url:
        main(url)
