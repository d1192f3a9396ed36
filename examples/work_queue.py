"""A work queue: three workers share the jobs, one job fails twice before it succeeds, one never does.

Each job is acknowledged when it is done. A job that fails goes back with nack(): it comes again after a pause that
doubles, and after the third failure it goes to the dead message queue, _DMQ, with the reason.

Prints:

    done: 9 of 10 jobs, by 3 workers
    attempts needed by job 4: 3
    dead: job 7 after 3 attempts, because: division by zero
"""

from __future__ import annotations

import threading
from queue import Queue

from any_server import any_server

import tocsin

QUEUE = "examples.jobs"
JOBS = 10
WORKERS = 3


def work(job: str, attempt: int) -> None:
    if job == "job 4" and attempt < 3:
        raise TimeoutError("the printer is busy")
    if job == "job 7":
        _ = 1 / 0


def worker(connection: tocsin.Connection, stop: threading.Event, done: Queue[tuple[str, int]]) -> None:
    # A session belongs to one thread; the connection is shared. prefetch=1 takes a job only when free for it.
    with connection.session(ack="client") as session:
        jobs = session.consumer(session.queue(QUEUE), prefetch=1)
        while not stop.is_set():
            message = jobs.receive(timeout=0.1)
            if message is None:
                continue
            try:
                work(message.body, message.delivery_count)
            except Exception as error:
                message.nack(reason=str(error))
            else:
                message.ack()
                done.put((message.body, message.delivery_count))


def main(url: str) -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        connection.create_destination(QUEUE, redelivery_limit=3, backoff=0.05)
        stop, done = threading.Event(), Queue[tuple[str, int]]()
        workers = [threading.Thread(target=worker, args=(connection, stop, done)) for _ in range(WORKERS)]
        for thread in workers:
            thread.start()
        try:
            session.producer(session.queue(QUEUE)).send_many(f"job {number}" for number in range(JOBS))
            attempts = dict(done.get(timeout=10) for _ in range(JOBS - 1))
            dead = session.consumer(session.queue("_DMQ"), selector=f"JMS_tocsin_origin = 'queue:{QUEUE}'")
            lost = dead.receive(timeout=10)
        finally:
            stop.set()
            for thread in workers:
                thread.join()
        assert lost is not None
        print(f"done: {len(attempts)} of {JOBS} jobs, by {WORKERS} workers")
        print("attempts needed by job 4:", attempts["job 4"])
        notes = lost.properties
        print(f"dead: {lost.body} after {notes['JMS_tocsin_attempts']} attempts, because: {notes['JMS_tocsin_reason']}")


if __name__ == "__main__":
    with any_server() as url:
        main(url)
