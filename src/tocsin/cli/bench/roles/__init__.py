"""What worker processes do. A role is a generator: each `yield` reports and waits for the word to go on.

publishing  many messages as fast as they are confirmed
consuming   take and check every message
pacing      messages at a fixed rate, and how long each was under way
one_by_one  the next message when the last one is confirmed
searching   many messages that do not match and one that does
recovering  the first message of a server that was killed
echo        bytes there and back over TCP, without any server
keeping_on  messages at a fixed rate while something fails, and what came of them
unceasing   as many messages as possible, until told to stop
multicasting  one node of a bus that sends, and others that receive
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tocsin.cli.bench.roles import (
    consuming,
    echo,
    keeping_on,
    multicasting,
    one_by_one,
    pacing,
    publishing,
    recovering,
    searching,
    unceasing,
)

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
    "steadfast sender": keeping_on.send_on,
    "steadfast receiver": keeping_on.receive_on,
    "unceasing sender": unceasing.send_without_end,
    "unceasing receiver": unceasing.receive_without_end,
    "bus sender": multicasting.send,
    "bus receiver": multicasting.receive,
}
