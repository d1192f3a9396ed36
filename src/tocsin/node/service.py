"""A running server: the broker on an asyncio loop, with sockets, threads and timers around it."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter

from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.client_manager.publishing import rehearse
from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.checksum import crc32
from tocsin.model.errors import StorageFailed
from tocsin.model.faults import Faults
from tocsin.model.values import Bytes
from tocsin.node.access_files import AccessFiles
from tocsin.node.broker import Broker
from tocsin.node.config import ServerConfig
from tocsin.node.identity_files import next_boot, node_secret
from tocsin.node.loop_faults import LoopFaults
from tocsin.node.storage import Storage
from tocsin.node.threads import ThreadWorkers
from tocsin.node.watches import DiskWatch
from tocsin.runtime.descriptors import connections_max
from tocsin.runtime.disk import Disk, SystemClock, SystemRandom, lock_directory
from tocsin.runtime.local import host_identity, local_url
from tocsin.runtime.spinning import Spinning
from tocsin.runtime.tcp import TcpServer

log = logging.getLogger("tocsin")

_TICK_SECONDS = 0.25
_TICK_SLACK_SECONDS = 0.001
_LONE_BYTES = 4096
_SPIN_SECONDS = 0.0003
_DRAIN_SECONDS = 5.0


class Service:
    """Make it, `start` it on a running loop, `stop` it. `failed` is set when the node had to give up."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._lock = lock_directory(config.data_dir)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        self.port = 0
        self.failed: asyncio.Future[BaseException] | None = None
        self._scheduled = False
        self._stopping = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._sync_timer: asyncio.TimerHandle | None = None
        self._tick_due = 0.0
        self._disk_watch = DiskWatch(config.data_dir)
        self._spinning = Spinning(_SPIN_SECONDS)
        # What a lone request was, while its answer is awaited; empty when there is none.
        self._lone = b""
        # When the loop ran out of work, while it may be worth waiting awake; 0.0 otherwise.
        self._rested = 0.0

    def _open(self) -> None:
        config = self._config
        self._clock = SystemClock()
        random = SystemRandom()
        self._faults = Faults()
        files = Disk(config.data_dir)
        self._storage = Storage(files, random, config.segment_bytes, sync_every_commit=config.sync == "always")
        defaults = Options(redelivery_limit=config.redelivery_limit, backoff_ms=config.redelivery_backoff_ms)
        settings = ManagerSettings(
            config.lease_s, config.cache_bytes, defaults, host=host_identity(), faults=self._faults
        )
        manager = self._storage.open(settings, self._clock.now(), self._clock.wall())
        for note in self._storage.recovered.notes:
            log.warning("%s", note)
        boot = next_boot(files, self._clock.wall())
        identities = Identities(name_number(config.site), name_number(config.node), boot)
        access = self._access = AccessFiles(config)
        login = Login(node_secret(files, random), random.bytes, access.finder, access.bindings, access.shapes)
        clients = ClientSettings(
            message_bytes_max=config.max_message_bytes,
            block_bytes_max=config.max_block_bytes,
            host=settings.host,
            heartbeat=config.heartbeat_s,
            grace=config.session_grace_s,
            login=config.login_s,
            faults=self._faults,
            connections_max=connections_max(journals=1),
        )
        self.broker = Broker(self._storage, manager, self._clock, clients, login, identities)

    # ---- life

    async def start(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        loop.set_exception_handler(LoopFaults(self._faults, self._give_up))
        writer = self._storage.recovered.writer
        self._workers = ThreadWorkers(loop, writer.write, self._give_up, writer.begin, writer.finish)
        self._storage.attach(self._workers, self._durable, self._schedule)
        self._tcp = TcpServer(self, handshake_seconds=self._config.login_s)
        try:
            self.port = await self._tcp.listen(
                self._config.host,
                self._config.port,
                self._access.open_tls(),
                local=self._config.data_dir if self._config.local_socket else None,
            )
        except BaseException:
            self._close_storage()
            raise
        self._schedule()
        self._tick()

    async def until(self, stop: asyncio.Event) -> None:
        """Waits until somebody wants to stop the server, or it had to give up."""
        assert self.failed is not None
        self.failed.add_done_callback(lambda _: stop.set())
        await stop.wait()

    @property
    def url(self) -> str:
        return self._access.url(self.port)

    @property
    def local_url(self) -> str | None:
        """For clients of the same user on this host; None when there is no local socket."""
        path = self._tcp.local_path
        return None if path is None else local_url(path)

    async def stop(self) -> None:
        """Drains: no new connections, clients are told, everything reaches the disk, a snapshot is taken."""
        if self._stopping:
            return
        self._stopping = True
        await self._tcp.stop_listening()
        self.broker.clients.drain()
        self._pump()
        self._tcp.close_all()
        deadline = self._loop.time() + _DRAIN_SECONDS
        while len(self._tcp) and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        self._tcp.abort_all()
        if self.failed is not None and not self.failed.done():
            self.broker.manager.settle_reserves()
            self._storage.begin_snapshot()
            deadline = self._loop.time() + _DRAIN_SECONDS
            while not self._storage.idle or self._storage.snapshotting:
                if self._storage.needs_sync:
                    self._storage.want_sync()
                self._pump()
                await asyncio.sleep(0.002)
                # On a full disk what waits to be written, and was not confirmed, may wait for ever.
                if self.failed.done() or (self._storage.is_full and self._loop.time() > deadline):
                    break
        self._close_storage()

    def _close_storage(self) -> None:
        # What the threads still report, or a timer, must not begin anything any more.
        self._closed = True
        for timer in (self._timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        self._workers.stop()
        self._storage.close()
        self._lock.release()

    def reload(self) -> None:
        """Takes users, certificates and trusted authorities that were changed on disk; users who have lost the right to
        be here are sent away.
        """
        self._access.reload()
        lost = self.broker.clients.review()
        log.info(
            "Users and certificates have been reloaded; %d connections have lost their right and are closed.", lost
        )
        self._schedule()

    # ---- events of the transport

    def connected(self, connection: int, peer: str, near: bool, over_tls: bool) -> None:
        self.broker.connected(connection, peer, near, over_tls)
        self._schedule()

    def received(self, connection: int, data: bytes) -> int:
        now = perf_counter()
        if self._rested:
            self._spinning.waited(now - self._rested)
            self._rested = 0.0
        # Only one who asks, waits and asks again gains by an answer that comes a little sooner.
        self._lone = data if len(data) <= _LONE_BYTES and not self._scheduled else b""
        wanted = self.broker.received(connection, data)
        self._schedule()
        return wanted

    def slowed(self, connection: int, slow: bool) -> None:
        self.broker.clients.slowed(connection, slow)
        self._schedule()

    def disconnected(self, connection: int) -> None:
        self.broker.disconnected(connection)
        self._schedule()

    # ---- the loop's turns

    def _durable(self) -> None:
        self.broker.durable()
        self._pump()

    def _schedule(self) -> None:
        """One pump for everything that happens in this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        more = self.broker.pump()
        out = self.broker.take_out()
        if len(out) > 1:
            out = joined(out)
        for connection, parts in out:
            self._tcp.write(connection, parts)
        for connection in self.broker.take_closing():
            self._tcp.close_connection(connection)
        for connection, paused in self.broker.clients.take_pauses().items():
            self._tcp.pause_reading(connection, paused)
        if more:
            self._schedule()
        elif self._lone:
            self._rest()
        self._arm()
        self._arm_sync()

    def _rest(self) -> None:
        """Nothing is left to do. Stays awake for a moment when the next request is expected within it."""
        data, self._lone = self._lone, b""
        self._rested = perf_counter()
        seconds = self._spinning.seconds
        if seconds:
            self._loop.call_soon(self._spin, self._rested + seconds)
            rehearse(data)

    def _spin(self, until: float) -> None:
        if not self._rested:
            return
        if perf_counter() < until:
            self._loop.call_soon(self._spin, until)
        else:
            self._spinning.in_vain()
            self._rested = 0.0

    def _arm(self) -> None:
        """The next tick comes at the earliest deadline, when that is sooner than the regular one."""
        deadline = self.broker.next_deadline()
        if deadline is None or self._timer is None:
            return
        if deadline < self._tick_due - _TICK_SLACK_SECONDS:
            self._timer.cancel()
            self._set_timer(max(0.0, deadline - self._clock.now()))

    def _arm_sync(self) -> None:
        """With sync = "interval": what is only written now is synced that much later."""
        if self._sync_timer is None and self._storage.needs_sync:
            self._sync_timer = self._loop.call_later(self._config.sync_interval_ms / 1000, self._sync)

    def _sync(self) -> None:
        self._sync_timer = None
        self._storage.want_sync()
        self._schedule()

    def _set_timer(self, delay: float) -> None:
        self._tick_due = self._clock.now() + delay
        self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._set_timer(_TICK_SECONDS)
        self.broker.tick()
        self._disk_watch.look(self._storage.is_full, self._clock.now())
        self._schedule()

    def _give_up(self, error: BaseException) -> None:
        """A disk that fails is not trusted again: what is confirmed is on disk, nothing more will be."""
        if self.failed is not None and not self.failed.done():
            log.critical("The server stops: %s", error)
            self.failed.set_result(error if isinstance(error, Exception) else StorageFailed(str(error)))
            self._tcp.abort_all()


def joined(out: list[tuple[int, list[Bytes]]]) -> list[tuple[int, list[Bytes]]]:
    """Everything for one connection in one write: system calls cost more than lists."""
    together: dict[int, list[Bytes]] = {}
    for connection, parts in out:
        known = together.get(connection)
        if known is None:
            together[connection] = list(parts)
        else:
            known += parts
    return list(together.items())


def name_number(name: str) -> int:
    """A name as 16 bits for unique ids."""
    return crc32(name.encode()) & 0xFFFF
