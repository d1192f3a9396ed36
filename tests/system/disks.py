"""What can happen to the data directory of a node: each is a small file system of its own, in memory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tocsin.cli.bench.cluster import OwnCluster
from tocsin.runtime.local import SOCKET_NAME

DISK_BYTES = 96 * 1024 * 1024
_BALLAST = "ballast"
_CHUNK = bytes(64 * 1024)
_LOST_AND_KEPT = {_BALLAST}


@contextmanager
def small_disks(cluster: OwnCluster) -> Iterator[Disks]:
    """Before the first start: from then on every node has a small disk."""
    mounted: list[Path] = []
    try:
        for name in cluster.names:
            place = cluster.data_folder(name)
            _mount_under(place)
            mounted.append(place)
        yield Disks(cluster)
    finally:
        for place in mounted:
            # Lazily, because a process that was just killed may still hold it for a moment.
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount_under(place: Path) -> None:
    """An empty file system at that place, and in it what was there before."""
    before = place.with_name(place.name + ".before")
    shutil.copytree(place, before)
    options = f"size={DISK_BYTES},mode=0700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.decode().strip()}")
    shutil.copytree(before, place, dirs_exist_ok=True)
    shutil.rmtree(before)


class Disks:
    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster

    def fill(self, name: str) -> None:
        """To the last byte."""
        with open(self._cluster.data_folder(name) / _BALLAST, "wb", buffering=0) as file:
            for chunk in (_CHUNK, _CHUNK[:1024], b"0"):
                with suppress(OSError):
                    while file.write(chunk):
                        pass

    def free(self) -> None:
        for name in self._cluster.names:
            (self._cluster.data_folder(name) / _BALLAST).unlink(missing_ok=True)

    def lose(self, name: str) -> None:
        """As with a new disk: of a node that does not run nothing is left."""
        _empty(self._cluster.data_folder(name))

    def copy(self, name: str) -> Path:
        """A backup of a node that does not run."""
        kept = self._cluster.folder / f"{name}.copy"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._cluster.data_folder(name), kept, ignore=shutil.ignore_patterns(SOCKET_NAME))
        return kept

    def restore(self, name: str, kept: Path) -> None:
        place = self._cluster.data_folder(name)
        _empty(place)
        shutil.copytree(kept, place, dirs_exist_ok=True)

    def files(self, name: str, *patterns: str) -> list[Path]:
        """Of a member, those that have something in them."""
        folder = self._cluster.member_folder(name)
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        # A segment that is allocated ahead is as long as any, and empty.
        return [path for path in found if any(path.read_bytes())]

    @staticmethod
    def flip(path: Path, chance: random.Random) -> str:
        """Turns one bit round, of a byte that somebody has written."""
        content = path.read_bytes()
        written = len(content.rstrip(b"\0"))
        place = chance.randrange(written)
        with open(path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), bytes([content[place] ^ 1 << chance.randrange(8)]), place)
        return f"byte {place} of {written} in {path.parent.name}/{path.name}"


def _empty(folder: Path) -> None:
    for path in _children(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _children(folder: Path) -> Iterable[Path]:
    return [path for path in folder.iterdir() if path.name not in _LOST_AND_KEPT]
