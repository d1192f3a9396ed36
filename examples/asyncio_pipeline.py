"""asyncio: one task publishes words, one turns them into capitals, one collects; all over one connection.

Prints:

    1000 words went through
    the first: ['WORD 0', 'WORD 1', 'WORD 2']
"""

from __future__ import annotations

import asyncio

from any_server import any_server

from tocsin import aio

COUNT = 1000


async def publish(connection: aio.Connection) -> None:
    async with await connection.session() as session:
        producer = await session.producer(session.queue("examples.words"))
        await producer.send_many(f"word {number}" for number in range(COUNT))


async def transform(connection: aio.Connection) -> None:
    async with await connection.session() as session:
        words = await session.consumer(session.queue("examples.words"))
        capitals = await session.producer(session.queue("examples.capitals"))
        done = 0
        async for message in words:
            # Not awaited one by one: sends overlap, and flush() waits for all of them.
            capitals.send_nowait(message.body.upper())
            done += 1
            if done % 100 == 0:
                await capitals.flush()
            if done == COUNT:
                return


async def collect(connection: aio.Connection) -> list[str]:
    async with await connection.session() as session:
        found: list[str] = []
        async for message in await session.consumer(session.queue("examples.capitals")):
            found.append(message.body)
            if len(found) == COUNT:
                break
        return found


async def main(url: str) -> None:
    async with await aio.connect(url) as connection, asyncio.TaskGroup() as tasks:
        tasks.create_task(publish(connection))
        tasks.create_task(transform(connection))
        collected = tasks.create_task(collect(connection))
    words = collected.result()
    print(f"{len(words)} words went through")
    print("the first:", words[:3])


if __name__ == "__main__":
    with any_server() as url:
        asyncio.run(main(url))
