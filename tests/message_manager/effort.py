"""How much work something is, counted and not timed: the lines of Python that it runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(action: Callable[[], Any]) -> int:
    steps = 0

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return watch

    former = sys.gettrace()
    # What others have left behind is not to be cleared away meanwhile.
    gc.collect()
    gc.disable()
    sys.settrace(watch)
    try:
        action()
    finally:
        sys.settrace(former)
        gc.enable()
    return steps
