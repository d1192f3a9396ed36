"""Python environments as a cluster's machines have them: one without tocsin, and one that is packed and shipped."""

from __future__ import annotations

import tarfile
import venv
import zipfile
from pathlib import Path

import pyarrow

from tocsin.spark.packing import zip_package


def bare_environment(folder: Path) -> Path:
    """An environment with pyarrow and pyspark, and nothing of tocsin; its Python.

    A .pth file adds the folder of the installed libraries. Python does not look for further .pth files there, so
    an editable installation of tocsin is not seen.
    """
    builder = venv.EnvBuilder(symlinks=True, with_pip=False)
    builder.create(folder)
    (_site_packages(folder) / "libraries.pth").write_text(f"{Path(pyarrow.__file__).parent.parent}\n")
    return folder / "bin" / "python"


def packed_environment(folder: Path) -> Path:
    """An environment with tocsin in it as a .tar.gz, as venv-pack makes it."""
    inside = folder / "environment"
    bare_environment(inside)
    with zipfile.ZipFile(zip_package(folder)) as archive:
        archive.extractall(_site_packages(inside))
    packed = folder / "environment.tar.gz"
    with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
        archive.add(inside, arcname=".")
    return packed


def _site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/site-packages")
    return found
