"""What a run is against: a server of its own, a cluster of its own, or one that somebody else runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tocsin.cli.bench.cluster import own_cluster
from tocsin.cli.bench.server import ForeignServer, Target, own_server
from tocsin.cli.bench.settings import Settings


@contextmanager
def target(settings: Settings) -> Iterator[Target]:
    if settings.url is not None:
        yield ForeignServer(settings.url)
    elif settings.cluster is not None:
        with own_cluster(settings.cluster.client_managers, settings.cluster.members, str(settings.profile)) as cluster:
            yield cluster
    else:
        with own_server(local=settings.local) as server:
            yield server
