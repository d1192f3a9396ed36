"""A running node of a cluster: the node's parts on an asyncio loop, with sockets, threads and timers around them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import NoReturn

from tocsin.bus.events import Event
from tocsin.bus.machine import Bus
from tocsin.journal.jobs import WriteJob
from tocsin.model.errors import ConfigError, StorageFailed
from tocsin.model.limits import BUS_SOCKET_BUFFER_BYTES, BUS_WINDOW_BYTES
from tocsin.node.access_files import AccessFiles
from tocsin.node.bus_networks import open_networks
from tocsin.node.cluster_file import write_cluster
from tocsin.node.cluster_init import group_folder
from tocsin.node.cluster_node import ClusterNode
from tocsin.node.cluster_parts import NodeParts, memberships, open_parts
from tocsin.node.cluster_report import note_of, report
from tocsin.node.loop_faults import LoopFaults
from tocsin.node.node_config import NodeConfig
from tocsin.node.rebalancing import Rebalancing
from tocsin.node.service import joined
from tocsin.node.status_file import remove_status, write_status
from tocsin.node.threads import ThreadWorkers
from tocsin.node.watches import DiskWatch, StallWatch
from tocsin.replication.roles import Role
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.bus_loop import BusLoop
from tocsin.runtime.datagrams import Transport
from tocsin.runtime.disk import SystemClock, lock_directory
from tocsin.runtime.lossy import LossyTransport
from tocsin.runtime.tcp import TcpServer
from tocsin.runtime.udp import receive_buffer_bytes

log = logging.getLogger("tocsin")

_TICK_SECONDS = 0.1
_TICK_SLACK_SECONDS = 0.001
_STATUS_SECONDS = 0.5
_GOODBYE_SECONDS = 5.0
_HAND_OVER_SECONDS = 3.0
_DISK_SECONDS = 5.0
_POLL_SECONDS = 0.005
_MEETING_SECONDS = 2.0
_START_SECONDS = 10.0
"""Between these a node that has started with another cluster file than most of the others stops; later it complains."""
_ALONE_SECONDS = 3.0


class ClusterService:
    """Make it, `start` it on a running loop, `stop` it. `failed` is set when the node had to give up."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._clock = SystemClock()
        self._lock = lock_directory(config.server.data_dir)
        try:
            self._access = AccessFiles(config.server)
            self._parts: NodeParts = open_parts(config, self._clock, self._access)
        except BaseException:
            self._lock.release()
            raise
        self.port = 0
        self.failed: asyncio.Future[BaseException] | None = None
        self._workers: list[ThreadWorkers] = []
        self._tcp: TcpServer | None = None
        self._bus_loop: BusLoop[Event] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._status_timer: asyncio.TimerHandle | None = None
        self._tick_due = 0.0
        self._scheduled = self._stopping = self._closed = False
        self._in_bus_turn = self._writing_status = False
        self._complained: set[str] = set()
        cluster, own, chance = config.cluster, config.node.number, random.SystemRandom().random
        self._rebalancing = {
            group.number: Rebalancing(own, cluster.numbers(group.members), chance)
            for group in cluster.groups
            if group.number in self._parts.members
        }
        self._watches = {
            group.number: (
                StallWatch(group.name, cluster.name_of),
                DiskWatch(config.server.data_dir / group_folder(group.number)),
            )
            for group in cluster.groups
            if group.number in self._parts.members
        }

    # ---- life

    async def start(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        loop.set_exception_handler(LoopFaults(self._parts.faults, self._give_up))
        self._started_at = self._clock.now()
        self._attach_workers(loop)
        try:
            self._join(loop)
            if self._parts.clients is not None:
                server, journals = self._config.server, len(self._parts.members)
                self._tcp = TcpServer(self, journals=journals, handshake_seconds=server.login_s)
                self.port = await self._tcp.listen(
                    server.host,
                    server.port,
                    self._access.open_tls(),
                    local=server.data_dir if server.local_socket else None,
                )
        except BaseException:
            self._close()
            raise
        self._schedule()
        self._tick()
        self._say_status()

    def force_promotion(self, name: str) -> None:
        """Before the start: lead a group without being in sync, if nobody else leads it."""
        numbers = {group.name: group.number for group in self._config.cluster.groups}
        member = self._parts.members.get(numbers.get(name, 0))
        if member is None:
            self._close()
            own = ", ".join(each for each, number in numbers.items() if number in self._parts.members) or "no group"
            raise ConfigError(f"{self._config.node.name} is a member of {own}, so it can't lead {name!r}.")
        member.force_promotion()

    def _attach_workers(self, loop: asyncio.AbstractEventLoop) -> None:
        for member in self._parts.members.values():
            workers = ThreadWorkers(loop, member.write, self._give_up)
            self._workers.append(workers)
            member.attach(workers, self._schedule)
        if self._parts.witnesses:
            workers = ThreadWorkers(loop, _no_commits, self._give_up)
            self._workers.append(workers)
            for witness in self._parts.witnesses.values():
                witness.attach(workers, self._schedule)

    def _join(self, loop: asyncio.AbstractEventLoop) -> None:
        config, cluster = self._config, self._config.cluster
        secret, suite = (config.secret, AesGcm()) if cluster.encryption else (None, None)
        chance = random.SystemRandom().random
        self._bus = Bus(config.node.number, self._parts.boot, chance, secret=secret, suite=suite)
        self.node = ClusterNode(
            config.node.number,
            self._parts.boot,
            write_cluster(cluster),
            self._clock,
            self._bus,
            memberships(cluster, config.node),
            members=self._parts.members,
            witnesses=self._parts.witnesses,
            clients=self._parts.clients,
            faults=self._parts.faults,
        )
        transport: Transport = open_networks(loop, cluster, config.node)
        if config.drop_percent:
            transport = LossyTransport(transport, config.drop_percent / 100, random.Random(config.node.number))
        self._transport = transport
        granted = receive_buffer_bytes(next(iter(config.node.addresses.values())))
        if granted < BUS_WINDOW_BYTES:
            log.warning(
                "The system grants sockets %d KiB only, so datagrams may be lost under load and sent again. As root:"
                " sysctl -w net.core.rmem_max=%d",
                granted // 1024,
                BUS_SOCKET_BUFFER_BYTES,
            )
        self._bus_loop = BusLoop(self._bus, transport, loop, self._bus_events, self._parts.faults)
        self._bus_loop.start()

    async def until(self, stop: asyncio.Event) -> None:
        """Waits until somebody wants to stop the node, or it had to give up."""
        assert self.failed is not None
        self.failed.add_done_callback(lambda _: stop.set())
        await stop.wait()

    @property
    def url(self) -> str | None:
        return None if self._tcp is None else self._access.url(self.port)

    async def stop(self) -> None:
        """Drains: clients are told, what this node leads is handed over, the others hear that it leaves."""
        if self._stopping:
            return
        self._stopping = True
        assert self.failed is not None
        if not self.failed.done():
            await self._say_goodbye()
            await self._hand_over()
            await self._finish_disk_work()
            self._leave()
        self._close()
        await self._loop.shutdown_default_executor()
        remove_status(self._config.server.data_dir)

    async def _say_goodbye(self) -> None:
        if self._tcp is None or self._parts.clients is None:
            return
        await self._tcp.stop_listening()
        self._parts.clients.clients.drain()
        self._pump()
        self._tcp.close_all()
        tcp = self._tcp
        await self._wait_until(lambda: not len(tcp), _GOODBYE_SECONDS)
        tcp.abort_all()

    async def _hand_over(self) -> None:
        """Somebody in sync takes each role over, if there is somebody; the group chooses by itself otherwise."""
        leading = [member for member in self._parts.members.values() if member.hand_over()]
        self._pump()
        await self._wait_until(lambda: all(member.role is not Role.PRIMARY for member in leading), _HAND_OVER_SECONDS)

    async def _finish_disk_work(self) -> None:
        members = self._parts.members.values()
        for member in members:
            member.prepare_to_stop()
        self._pump()
        await self._wait_until(lambda: all(member.idle for member in members), _DISK_SECONDS)

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        assert self.failed is not None
        deadline = self._loop.time() + seconds
        while not condition() and self._loop.time() < deadline and not self.failed.done():
            await asyncio.sleep(_POLL_SECONDS)

    def _leave(self) -> None:
        for group in self._config.cluster.groups_of(self._config.node):
            for burst in self._bus.leave(group.number, self._loop.time()):
                self._transport.send(burst)

    def _close(self) -> None:
        # What the threads still report, or a timer, must not begin anything any more.
        self._closed = True
        for timer in (self._timer, self._status_timer):
            if timer is not None:
                timer.cancel()
        if self._bus_loop is not None:
            self._bus_loop.close()
        if self._tcp is not None:
            self._tcp.abort_all()
        for workers in self._workers:
            workers.stop()
        self._parts.close()
        self._lock.release()

    def reload(self) -> None:
        """Takes users, certificates and trusted authorities that were changed on disk; users who have lost the right to
        be here are sent away.
        """
        self._access.reload()
        lost = 0 if self._parts.clients is None else self._parts.clients.clients.review()
        log.info(
            "Users and certificates have been reloaded; %d connections have lost their right and are closed.", lost
        )
        self._schedule()

    # ---- events

    def connected(self, connection: int, peer: str, near: bool, over_tls: bool) -> None:
        assert self._parts.clients is not None
        self._parts.clients.clients.connected(connection, peer, self._clock.now(), near, over_tls)
        self._schedule()

    def received(self, connection: int, data: bytes) -> int:
        assert self._parts.clients is not None
        wanted = self._parts.clients.clients.received(connection, data, self._clock.now())
        self._schedule()
        return wanted

    def slowed(self, connection: int, slow: bool) -> None:
        assert self._parts.clients is not None
        self._parts.clients.clients.slowed(connection, slow)
        self._schedule()

    def disconnected(self, connection: int) -> None:
        assert self._parts.clients is not None
        if not self._closed:
            self._parts.clients.clients.disconnected(connection, self._clock.now())
            self._schedule()

    def _bus_events(self, events: Sequence[Event]) -> None:
        """What is said in answer leaves within the same turn of the bus."""
        self.node.bus_events(events)
        self._in_bus_turn = True
        self._pump()
        self._in_bus_turn = False

    # ---- the loop's turns

    def _schedule(self) -> None:
        """One pump for everything that happens in this turn of the loop."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        more = self.node.pump()
        if self._tcp is not None and self._parts.clients is not None:
            self._write_to_clients(self._tcp)
        if self._bus_loop is not None and not self._in_bus_turn:
            self._bus_loop.flush()
        if more:
            self._schedule()
        self._arm()

    def _write_to_clients(self, tcp: TcpServer) -> None:
        port = self._parts.clients
        assert port is not None
        out = port.clients.take_out()
        for connection, parts in joined(out) if len(out) > 1 else out:
            tcp.write(connection, parts)
        for connection in port.clients.take_closing():
            tcp.close_connection(connection)
        for connection, paused in port.clients.take_pauses().items():
            tcp.pause_reading(connection, paused)

    def _arm(self) -> None:
        """The next tick comes at the earliest deadline, when that is sooner than the regular one."""
        if self._timer is None:
            return
        deadline = self.node.next_deadline()
        if deadline < self._tick_due - _TICK_SLACK_SECONDS:
            self._timer.cancel()
            self._set_timer(max(0.0, deadline - self._clock.now()))

    def _set_timer(self, delay: float) -> None:
        self._tick_due = self._clock.now() + delay
        self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        if self._closed:
            return
        self._set_timer(_TICK_SECONDS)
        self.node.tick()
        self._schedule()

    # ---- how it is

    def _say_status(self) -> None:
        """Written by another thread, because a disk that stands still must not hold the node up."""
        if self._closed:
            return
        self._status_timer = self._loop.call_later(_STATUS_SECONDS, self._say_status)
        self._look_around()
        if not self._writing_status:
            self._writing_status = True
            said = report(
                self._config,
                self.node,
                self._clock,
                boot=self._parts.boot,
                url=self.url,
                connections=0 if self._tcp is None else len(self._tcp),
                draining=self._stopping,
                faults=self._parts.faults.count,
                counters=self._bus.counters,
            )
            writing = self._loop.run_in_executor(None, write_status, self._config.server.data_dir, said)
            writing.add_done_callback(self._status_written)

    def _status_written(self, _: object) -> None:
        self._writing_status = False

    def _look_around(self) -> None:
        cluster, age = self._config.cluster, self._clock.now() - self._started_at
        for number, line in self.node.disagreeing().items():
            where = f"it has not our line `{line}`" if line else "it has more lines than ours"
            text = (
                f"{cluster.name_of(number)} runs with another cluster file: {where}. The file must be the same on all"
                " nodes; copy one of them to the others and start again."
            )
            if self.node.is_outvoted and _MEETING_SECONDS < age < _START_SECONDS:
                self._give_up(ConfigError(text))
            else:
                self._complain(text)
        if self._bus.counters.forged and not self.node.hears_anybody and age > _ALONE_SECONDS:
            self._complain(
                f"{self._bus.counters.forged} datagrams came that were not sealed with this cluster's secret, and no"
                " other node is heard: the others have another secret, or another cluster uses the same addresses."
            )
        for group, witness in self.node.witnesses.items():
            if witness.older is not None:
                self._complain(f"Group {group}: {witness.older}")
        for group, member in self.node.members.items():
            stall, disk = self._watches[group]
            stall.look(member.status(), self._clock.now())
            disk.look(member.manager.ledger.journal.full, self._clock.now())
            if member.alarm is not None:
                self._complain(f"The member of group {group} has stopped: {member.alarm}")
            elif note := note_of(member):
                self._complain(f"Group {group}: {note}")
            forced = member.promoted_uncleanly
            if forced is not None:
                self._complain(
                    f"Group {group} is led from here by an operator's word, without the members that were in sync."
                    f" Its log ended at record {forced.lsn}; at least {forced.missing} confirmed records are lost."
                )
            leads = member.serving is not None and not self._stopping
            if self._rebalancing[group].is_due(leads, member.in_sync, self._clock.now()) and member.hand_over():
                log.info("Group %d is whole again: its preferred member is asked to lead.", group)

    def _complain(self, text: str) -> None:
        """Once for each: a log that repeats itself is not read."""
        kind = text.partition(" ")[2]
        if kind not in self._complained:
            self._complained.add(kind)
            log.error("%s", text)

    def _give_up(self, error: BaseException) -> None:
        """A disk that fails is not trusted again; the others take over."""
        if self.failed is not None and not self.failed.done():
            log.critical("The node stops: %s", error)
            self.failed.set_result(error if isinstance(error, Exception) else StorageFailed(str(error)))
            if self._tcp is not None:
                self._tcp.abort_all()


def _no_commits(job: WriteJob) -> NoReturn:
    raise AssertionError("a witness has no journal")
