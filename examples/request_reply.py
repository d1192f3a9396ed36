"""Request and reply: a service answers to the temporary queue that each request names.

Prints:

    6 * 7 = 42
    6 / 0: the service says division by zero
"""

from __future__ import annotations

from any_server import any_server

import tocsin

SERVICE = "examples.calculator"


def serve(session: tocsin.Session) -> None:
    """Answers requests as they come, on the session's own thread."""
    replies = session.producer()

    def answer(request: tocsin.Message) -> None:
        left, operator, right = request.body.split()
        try:
            result = int(left) * int(right) if operator == "*" else int(left) // int(right)
            reply = tocsin.Message(str(result))
        except ZeroDivisionError:
            reply = tocsin.Message("division by zero", properties={"failed": True})
        # The correlation id tells the asker which of its requests this answers.
        replies.send(reply, request.reply_to, correlation_id=request.correlation_id)

    session.consumer(session.queue(SERVICE)).on_message = answer


def main(url: str) -> None:
    with tocsin.connect(url) as connection, connection.session() as service, connection.session() as session:
        serve(service)
        calculator = session.queue(SERVICE)
        print("6 * 7 =", session.request(calculator, "6 * 7", timeout=5).body)
        reply = session.request(calculator, "6 / 0", timeout=5)
        if reply.properties.get("failed"):
            print("6 / 0: the service says", reply.body)


if __name__ == "__main__":
    with any_server() as url:
        main(url)
