"""A topic: every subscription gets every message; two consumers that share a subscription divide them.

Prints:

    screen: ['EUR 1.09', 'USD 1.00', 'EUR 1.10', 'USD 1.01']
    only euros: ['EUR 1.09', 'EUR 1.10']
    shared by two, each once: ['EUR 1.09', 'EUR 1.10', 'USD 1.00', 'USD 1.01']
"""

from __future__ import annotations

from any_server import any_server

import tocsin


def take_all(consumer: tocsin.Consumer) -> list[str]:
    """What is there and what comes within a moment."""
    found = []
    while message := consumer.receive(timeout=0.3):
        found.append(message.body)
    return found


def main(url: str) -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        prices = session.topic("examples.prices")
        # A subscription gets what is published after it was made, so the subscribers come first.
        screen = session.consumer(prices)
        euros = session.consumer(prices, selector="currency = 'EUR'")
        first = session.shared_consumer(prices, "examples.ledger")
        second = session.shared_consumer(prices, "examples.ledger")

        producer = session.producer(prices)
        for text in ("EUR 1.09", "USD 1.00", "EUR 1.10", "USD 1.01"):
            producer.send(text, properties={"currency": text[:3]})

        print("screen:", take_all(screen))
        print("only euros:", take_all(euros))
        print("shared by two, each once:", sorted(take_all(first) + take_all(second)))


if __name__ == "__main__":
    with any_server() as url:
        main(url)
