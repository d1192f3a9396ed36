"""CRC-32, as in zlib: what blocks, records and files are checked with, each of them several times on its way.

zlib-ng uses the instructions that processors have for it and is ten times as fast as zlib; without it only the time
changes.
"""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
