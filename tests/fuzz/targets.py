"""Every machine that is fuzzed, by name."""

from __future__ import annotations

from typing import Any

from tests.fuzz.bus_stage import INSIDERS, STRANGERS
from tests.fuzz.cluster_stage import CLUSTER, REPLICATED
from tests.fuzz.core_stage import CLIENT
from tests.fuzz.engine import Target
from tests.fuzz.lone_stage import LONE

_ALL = (LONE, CLUSTER, REPLICATED, STRANGERS, INSIDERS, CLIENT)
TARGETS: dict[str, Target[Any]] = {target.name: target for target in _ALL}
