"""What worker processes do. A role is a generator: each `yield` reports and waits for the word to go on.

publishing  many messages as fast as they are confirmed
consuming   take and check every message
pacing      messages at a fixed rate, and how long each was under way
one_by_one  the next message when the last one is confirmed
searching   many messages that do not match and one that does
recovering  the first message of a server that was killed
echo        bytes there and back over TCP, without any server
multicasting  one node of a bus that sends, and others that receive
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tocsin.cli.bench.roles import consuming, echo, multicasting, one_by_one, pacing, publishing, recovering, searching

Role = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]

ROLES: dict[str, Role] = {
    "publisher": publishing.publish,
    "consumer": consuming.consume,
    "paced sender": pacing.send_paced,
    "latency receiver": pacing.receive_timed,
    "one-by-one sender": one_by_one.send_one_by_one,
    "filler": searching.fill,
    "searcher": searching.search,
    "first receiver": recovering.receive_first,
    "echo": echo.answer,
    "caller": echo.call,
    "bus sender": multicasting.send,
    "bus receiver": multicasting.receive,
}
