"""A cache of Spark's classes, loaded and linked, with which Java starts in a fraction of the time.

Java makes it itself at the end of a run: from version 25 on as an AOT cache, before as an archive of classes (AppCDS).
That run is one of ours, in the background and at low priority, after the first session of a machine has ended. A cache
is bound to the exact Java and Spark it was made with, so its name is a hash of both. Those of environments that are not
used any more go when a new one is made: each has more than a hundred megabytes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from tocsin.model.spark_limits import SPARK_CLASS_CACHES_MAX, SPARK_WARMING_SECONDS_MAX
from tocsin.spark.java import Java, cache_directory

NO_WARMING = "TOCSIN_SPARK_WARM"
"""Set to `no`, no process is left behind: for tests, and for machines that are used once."""
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For runs of seconds: less compiling, no threads for collecting garbage."""
_AOT_SINCE = 25
_SUFFIXES = (".aot", ".jsa")


def java_options(java: Java, *, quick: bool) -> list[str]:
    """What to start Java with: the cache if there is one."""
    options = list(QUICK) if quick else []
    cache = cache_file(java)
    if cache.is_file():
        options += _use(java, cache)
        # So that it is known which ones are in use. Somebody may just have removed it: then Java does without.
        with suppress(OSError):
            os.utime(cache)
    return options


def cache_file(java: Java) -> Path:
    made_for = (str(java.home), java.version, version("pyspark"), _jars())
    digest = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
    aot, archive = _SUFFIXES
    return cache_directory() / f"spark-{digest}{aot if java.major >= _AOT_SINCE else archive}"


def _jars() -> str:
    """Where Spark's classes are, and since when: a cache of others would not be used."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return f"{jars} {jars.stat().st_mtime_ns if jars.is_dir() else 0}"


def _use(java: Java, cache: Path) -> list[str]:
    if java.major >= _AOT_SINCE:
        return [f"-XX:AOTCache={cache}", "-Xlog:disable"]
    return [f"-XX:SharedArchiveFile={cache}", "-Xlog:disable"]


def record_options(java: Java, output: Path) -> list[str]:
    """What makes Java write a cache when it ends."""
    if java.major >= _AOT_SINCE:
        return [f"-XX:AOTCacheOutput={output}", "-Xlog:disable"]
    return [f"-XX:ArchiveClassesAtExit={output}", "-Xlog:disable"]


def warm_in_background(java: Java) -> subprocess.Popen[bytes] | None:
    """Begins to make the cache, unless it is there or somebody else is at it."""
    cache = cache_file(java)
    if os.environ.get(NO_WARMING) == "no" or cache.is_file() or not claim(cache):
        return None
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "_PYSPARK"))
    }
    return subprocess.Popen(
        warming_command(cache, background=True),
        env={**environment, "JAVA_HOME": str(java.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def warming_command(cache: Path, *, background: bool) -> list[str]:
    return [sys.executable, "-m", "tocsin.spark.warming", str(cache), *(["--background"] if background else [])]


def keep_few(cache: Path) -> None:
    """After one was made: those that were not used for longest go, and what runs that died have left.

    A Java that is running with one keeps its classes, since the file is mapped; the next one starts without.
    """
    old = time.time() - SPARK_WARMING_SECONDS_MAX
    found = [(_used_at(each), each) for each in cache.parent.glob("spark-*") if each != cache]
    caches = [each for _, each in sorted(found, reverse=True) if each.suffix in _SUFFIXES]
    left = [each for used, each in found if each.suffix not in _SUFFIXES and used < old]
    for each in [*caches[SPARK_CLASS_CACHES_MAX - 1 :], *left]:
        with suppress(OSError):
            each.unlink()


def _used_at(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def claim(cache: Path) -> bool:
    """Whether it is up to us to make it. A claim that is older than any run takes was left by one that died."""
    mark = cache.with_suffix(".claim")
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        try:
            if time.time() - mark.stat().st_mtime < SPARK_WARMING_SECONDS_MAX:
                return False
            os.utime(mark)
        except FileNotFoundError:
            return False
    return True


def give_up_claim(cache: Path) -> None:
    cache.with_suffix(".claim").unlink(missing_ok=True)
