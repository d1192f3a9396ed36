"""The workloads: which workers each needs, when its clock runs, and what its numbers mean.

publish    durable, confirmed, pipelined: from the first send to the last confirmation
e2e        producer to consumer, every body checked: from the first send to the last confirmed acknowledgement
latency    end to end at a fixed rate
sync       one message at a time, against what disk and network alone would cost
fanout     one producer, four subscribers
backlog    publish all, then consume all
recovery   kill -9, restart, first delivery
selector   one match behind many others, while another destination goes on
bus        one sender, two receivers on loopback multicast, without a server
failover   kill -9 of a primary to the next confirmed publish, again and again
replication  what a published byte costs on the bus, by the number of members
loss       from producer to consumer over a bus that loses datagrams
join       a backup with an empty disk joins while others publish
steady     full load without faults: nothing changes in the group
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import Settings, Workload
from tocsin.cli.bench.workloads import (
    backlog,
    bus,
    e2e,
    failover,
    fanout,
    join,
    latency,
    loss,
    publish,
    recovery,
    replication,
    selector,
    steady,
    sync,
)

RUN: dict[Workload, Callable[[Settings], Result]] = {
    Workload.PUBLISH: publish.run,
    Workload.E2E: e2e.run,
    Workload.LATENCY: latency.run,
    Workload.SYNC: sync.run,
    Workload.FANOUT: fanout.run,
    Workload.BACKLOG: backlog.run,
    Workload.RECOVERY: recovery.run,
    Workload.SELECTOR: selector.run,
    Workload.BUS: bus.run,
    Workload.FAILOVER: failover.run,
    Workload.REPLICATION: replication.run,
    Workload.LOSS: loss.run,
    Workload.JOIN: join.run,
    Workload.STEADY: steady.run,
}
