"""A node of a cluster as a process of its own: signals, log, exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from tocsin.model.errors import TocsinError
from tocsin.node.cluster_service import ClusterService
from tocsin.node.loop import new_event_loop
from tocsin.node.node_config import NodeConfig
from tocsin.node.process import SWITCH_SECONDS, keep_what_is_there, set_up_log
from tocsin.runtime.descriptors import raise_limit

log = logging.getLogger("tocsin")


def run_node(config: NodeConfig, *, log_json: bool = False, unclean_promote: str | None = None) -> int:
    """Runs until SIGTERM or SIGINT, which drain; SIGHUP reloads users and certificates. Returns the exit code.

    `unclean_promote` names a group that this node shall lead, if nobody does, without being in sync (R13).
    """
    set_up_log(log_json)
    raise_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_run(config, unclean_promote))
    finally:
        loop.close()


async def _run(config: NodeConfig, unclean_promote: str | None) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    # Before anybody can know that the node is there: a signal that comes early must not end it the hard way.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = ClusterService(config)
    if unclean_promote is not None:
        service.force_promotion(unclean_promote)
    loop.add_signal_handler(signal.SIGHUP, _reload, service)
    keep_what_is_there()
    await service.start()
    _announce(config, service)
    assert service.failed is not None
    await service.until(stop)
    failed = service.failed.done()
    if not failed:
        log.info("Stopping: handing over.")
    await service.stop()
    if failed:
        return 1
    log.info("Stopped.")
    return 0


def _announce(config: NodeConfig, service: ClusterService) -> None:
    node, cluster = config.node, config.cluster
    parts = [f"member of {group.name}" for group in cluster.groups if node.name in group.members]
    parts += [f"witness of {group.name}" for group in cluster.groups if node.name in group.witnesses]
    if service.url is not None:
        parts.append(f"client manager at {service.url}")
    log.info(
        "%s of cluster %s runs: %s; data in %s.", node.name, cluster.name, ", ".join(parts), config.server.data_dir
    )


def _reload(service: ClusterService) -> None:
    try:
        service.reload()
    except TocsinError as error:
        log.error("Users and certificates were not reloaded, the old ones stay in use: %s", error)
