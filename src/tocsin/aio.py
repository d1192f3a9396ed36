"""tocsin for asyncio: the same names as tocsin, with await.

async with await aio.connect("tocsin://localhost:7177") as connection, await connection.session() as session:
    async for message in await session.consumer(session.queue("orders")):
        print(message.body)
"""

from tocsin.client.aio import Connection, connect
from tocsin.client.aio_consumer import Browser, Consumer
from tocsin.client.aio_producer import Producer
from tocsin.client.aio_session import Session
from tocsin.model.destination import Destination
from tocsin.model.message import Message

__all__ = ["Browser", "Connection", "Consumer", "Destination", "Message", "Producer", "Session", "connect"]
