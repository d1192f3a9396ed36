"""The library that applications import: one machine with two thin shells, threads and asyncio.

core               the connection's machine; its mechanisms are in core_login, core_sessions, core_publishing,
                   core_consuming and core_settling
pending            what operations wait for; operations, producing, requesting and admin are written in steps of it
batching, headers  messages on their way into blocks
delivered          messages on their way out of blocks
sync, sync_*       the shell for threads: line (socket and I/O thread), worker, session, producer, consumer
aio, aio_*         the same for asyncio
settings, opening, url   what a connection is told to be
"""

from tocsin.client.sync import Connection, connect

__all__ = ["Connection", "connect"]
