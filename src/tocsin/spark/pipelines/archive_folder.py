"""The files of an archive: on the local file system by the system's own calls, elsewhere through Hadoop's.

Names are relative to the archive's folder, with slashes. What the commits lean on is `create_once`: a name is
created whole or not at all, by one of all who try. The local file system gives this by a link to a synced file, HDFS
and ABFS by a rename that refuses to overwrite. S3 has no such rename: there it is up to the user that one archive at
a time writes to a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tocsin.model.errors import ArchiveDamaged, DataDirectoryInUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class FileInfo:
    name: str
    bytes: int
    modified: int
    """Milliseconds since 1970."""


class Folder(Protocol):
    @property
    def root(self) -> str:
        """As Spark takes it."""

    def create_once(self, name: str, data: bytes) -> bool:
        """False when the name exists; what is in it then is somebody else's."""

    def read(self, name: str) -> bytes | None: ...

    def exists(self, name: str) -> bool: ...

    def files(self, folder: str) -> list[FileInfo]:
        """All files below a folder, hidden ones too; none when it is not there."""

    def folders(self, folder: str) -> list[FileInfo]:
        """The folders that are directly in a folder."""

    def move(self, source: str, target: str) -> None:
        """To be repeated at will: done already is done."""

    def copy(self, source: str, target: str) -> None:
        """The target appears whole."""

    def remove(self, name: str) -> None:
        """A file or a folder with all that is in it; nothing there is fine."""

    def sync(self, names: Iterable[str]) -> None:
        """Makes files that others have written outlive a power failure, where that is ours to do."""

    def lock(self, name: str, sentence: str) -> contextlib.AbstractContextManager[None]:
        """Keeps a second process on this machine out, where the file system can; `sentence` is the refusal."""


def open_folder(spark: SparkSession, path: str) -> Folder:
    local = local_path(path)
    if local is not None and _default_is_local(spark, path):
        return LocalFolder(local)
    return HadoopFolder(spark, path)


def local_path(path: str) -> Path | None:
    """The path on this machine, or None for another file system."""
    parts = urlsplit(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(parts.path)
    # A single letter is a drive, and a colon may stand in any name; a scheme is followed by a slash.
    return None if "://" in path or (len(parts.scheme) > 1 and parts.path.startswith("/")) else Path(path)


def _default_is_local(spark: SparkSession, path: str) -> bool:
    """A path without a scheme is where Hadoop's configuration says."""
    if urlsplit(path).scheme == "file":
        return True
    java: Any = spark
    default = java._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return bool(str(default).startswith("file:"))


class LocalFolder:
    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    @property
    def root(self) -> str:
        # Hadoop reads a percent sign as itself, so the path is not quoted.
        return f"file://{self._path}"

    def create_once(self, name: str, data: bytes) -> bool:
        target = self._path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        _sync_folders(target.parent, self._path)
        return True

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def files(self, folder: str) -> list[FileInfo]:
        found = []
        for parent, _, names in os.walk(self._path / folder):
            for name in names:
                path = Path(parent, name)
                # Whoever tidies up at the same time may have taken it.
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    relative = path.relative_to(self._path).as_posix()
                    found.append(FileInfo(relative, status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found, key=lambda each: each.name)

    def folders(self, folder: str) -> list[FileInfo]:
        below = self._path / folder
        inside = sorted(below.iterdir()) if below.is_dir() else []
        return [
            FileInfo(path.relative_to(self._path).as_posix(), 0, path.stat().st_mtime_ns // 1_000_000)
            for path in inside
            if path.is_dir()
        ]

    def move(self, source: str, target: str) -> None:
        old, new = self._path / source, self._path / target
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            old.rename(new)
        except FileNotFoundError:
            if not new.exists():
                raise ArchiveDamaged(missing(source, target)) from None
        _sync_folders(new.parent, self._path)

    def copy(self, source: str, target: str) -> None:
        new = self._path / target
        new.parent.mkdir(parents=True, exist_ok=True)
        draft = new.parent / f".{new.name}.{uuid.uuid4().hex}"
        shutil.copyfile(self._path / source, draft)
        _sync(draft)
        draft.replace(new)
        _sync_folders(new.parent, self._path)

    def remove(self, name: str) -> None:
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def sync(self, names: Iterable[str]) -> None:
        folders = set()
        for name in names:
            _sync(self._path / name)
            folders.add((self._path / name).parent)
        for folder in folders:
            _sync_folders(folder, self._path)

    @contextlib.contextmanager
    def lock(self, name: str, sentence: str) -> Iterator[None]:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # The system lets go of the lock when the process ends, however it ends.
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataDirectoryInUse(sentence) from None
            yield


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _sync_folders(folder: Path, root: Path) -> None:
    """The entries on the way from the root, since any of the folders may be new."""
    _sync(folder)
    while folder != root and root in folder.parents:
        folder = folder.parent
        _sync(folder)


def missing(source: str, target: str) -> str:
    return f"The archive has lost a file: it is neither at {source} nor at {target}; restore it from a copy."


class HadoopFolder:
    """Any file system that Spark reaches, through the driver's Java."""

    __slots__ = ("_configuration", "_files", "_java", "_root")

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._java = session._jvm
        self._configuration = session._jsc.hadoopConfiguration()
        given = self._java.org.apache.hadoop.fs.Path(path)
        self._files = given.getFileSystem(self._configuration)
        self._root = self._files.makeQualified(given)

    @property
    def root(self) -> str:
        return str(self._root.toString())

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._root, name)

    def create_once(self, name: str, data: bytes) -> bool:
        target = self._path(name)
        self._files.mkdirs(target.getParent())
        draft = self._draft(target)
        stream = self._files.create(draft, True)
        try:
            stream.write(bytearray(data))
            stream.hflush()
        finally:
            stream.close()
        try:
            return self._rename_once(draft, target)
        finally:
            self._files.delete(draft, False)

    def _draft(self, target: Any) -> Any:
        return self._java.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}")

    def _rename_once(self, draft: Any, target: Any) -> bool:
        from py4j.protocol import Py4JJavaError

        hadoop = self._java.org.apache.hadoop.fs
        try:
            context = hadoop.FileContext.getFileContext(target.toUri(), self._configuration)
            context.rename(draft, target, self._no_overwriting())
            return True
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind == "FileAlreadyExistsException":
                return False
            if kind != "UnsupportedFileSystemException":
                raise
        # A file system with the older interface alone: its rename tells by False that the target is there.
        return not self._files.exists(target) and bool(self._files.rename(draft, target))

    def _no_overwriting(self) -> Any:
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        assert gateway is not None
        kind = getattr(self._java.org.apache.hadoop.fs, "Options$Rename")
        chosen = gateway.new_array(kind, 1)
        chosen[0] = kind.NONE
        return chosen

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def files(self, folder: str) -> list[FileInfo]:
        below = self._path(folder)
        if not self._files.exists(below):
            return []
        found, listed = [], self._files.listFiles(below, True)
        while listed.hasNext():
            found.append(self._info(listed.next()))
        return sorted(found, key=lambda each: each.name)

    def folders(self, folder: str) -> list[FileInfo]:
        below = self._path(folder)
        inside = self._files.listStatus(below) if self._files.exists(below) else []
        return [self._info(status) for status in inside if status.isDirectory()]

    def _info(self, status: Any) -> FileInfo:
        prefix = self._root.toUri().getPath().rstrip("/") + "/"
        name = str(status.getPath().toUri().getPath()).removeprefix(prefix)
        return FileInfo(name, int(status.getLen()), int(status.getModificationTime()))

    def move(self, source: str, target: str) -> None:
        old, new = self._path(source), self._path(target)
        self._files.mkdirs(new.getParent())
        moved = self._files.exists(old) and self._files.rename(old, new)
        if not moved and not self._files.exists(new):
            raise ArchiveDamaged(missing(source, target))

    def copy(self, source: str, target: str) -> None:
        new = self._path(target)
        draft = self._draft(new)
        copier = self._java.org.apache.hadoop.fs.FileUtil
        copier.copy(self._files, self._path(source), self._files, draft, False, self._configuration)
        self._files.delete(new, False)
        self._files.rename(draft, new)

    def remove(self, name: str) -> None:
        self._files.delete(self._path(name), True)

    def sync(self, names: Iterable[str]) -> None:
        """Such file systems keep what was closed."""

    @contextlib.contextmanager
    def lock(self, name: str, sentence: str) -> Iterator[None]:
        """There is nothing to hold; the second of two archives fails at its first commit."""
        yield
