"""The library that applications import: one machine with two thin shells, threads and asyncio.

core                     the connection's machine. Its mechanisms: core_dialing, core_login, core_requests,
                         core_sessions, core_publishing, core_consuming, core_reading, core_credit, core_settling,
                         core_acknowledging
server_fields            what a server may say in the fields that the core goes by
port                     what the core's objects need of a shell
pending                  what operations wait for. In steps of it are written: operations, producing, requesting, admin,
                         draining, reading
patience                 how long they wait
consumer_spec            what a consumer was asked to be
forking, dropping        connections belong to the process that opened them, and end when nobody has them
source                   what send_many takes bodies from
batching, headers        messages on their way into blocks
staging                  messages that are published all at once, given as columns
delivered                messages on their way out of blocks
local_files              ranges out of the server's own files
sync, sync_*             the shell for threads: line (socket, I/O thread, with bell), waiter, worker, session,
                         producer, consumer, reader
aio, aio_*               the same for asyncio
settings, opening, url   what a connection is told to be
temporary                destinations that end with their connection
"""

from tocsin.client.admin import DestinationInfo, Metadata
from tocsin.client.core_reading import RangeBlock
from tocsin.client.draining import DrainTake
from tocsin.client.reading import Offsets
from tocsin.client.sync import Connection, connect
from tocsin.client.sync_consumer import Browser, Consumer
from tocsin.client.sync_producer import Producer
from tocsin.client.sync_reader import RangeReader
from tocsin.client.sync_session import Session

__all__ = [
    "Browser",
    "Connection",
    "Consumer",
    "DestinationInfo",
    "DrainTake",
    "Metadata",
    "Offsets",
    "Producer",
    "RangeBlock",
    "RangeReader",
    "Session",
    "connect",
]
