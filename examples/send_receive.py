"""A queue: send three orders, take those of one region, then the rest.

Prints:

    confirmed
    from the EU: two dozen
    the others: ['a gross', 'one']
"""

from __future__ import annotations

from any_server import any_server

import tocsin


def main(url: str) -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        orders = session.queue("examples.orders")
        producer = session.producer(orders)
        # send() returns when the message is on disk.
        producer.send("a gross", properties={"region": "US"})
        producer.send("two dozen", properties={"region": "EU"})
        producer.send("one", properties={"region": "US"})
        print("confirmed")

        with session.consumer(orders, selector="region = 'EU'") as european:
            message = european.receive(timeout=5)
            assert message is not None
            print("from the EU:", message.body)

        with session.consumer(orders) as everything:
            others = []
            while message := everything.receive(timeout=0.5):
                others.append(message.body)
        print("the others:", others)


if __name__ == "__main__":
    with any_server() as url:
        main(url)
