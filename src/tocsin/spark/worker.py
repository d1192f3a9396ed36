"""A Python worker of Spark, the process that tasks run in one after another."""

from __future__ import annotations

import ctypes
import gc
from functools import cache

from pyspark import TaskContext

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What `mallopt` calls them."""
_KEPT_BYTES_MAX = 128 * 1024 * 1024
_OWN_MAPPING_BYTES = 32 * 1024 * 1024
"""The most that glibc takes: larger pieces of memory come from the system one by one."""


def settle_worker() -> None:
    """Called by every task; does its work in the first of a process."""
    if TaskContext.get() is not None:
        _leave_imports_alone()
        _keep_memory()


@cache
def _leave_imports_alone() -> None:
    """Spark collects garbage after each task and looks through all that was ever imported: a hundredth of a second and
    more, in which 100,000 rows could be read. What is there before the first task is no garbage, so it is left alone.
    """
    gc.collect()
    gc.freeze()


@cache
def _keep_memory() -> None:
    """The megabyte of one record batch is freed before the next one comes. By default the C library gives it back to
    the system each time, which hands it out again page by page and cleared.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # Only GNU's C library has it.
        set_option(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
