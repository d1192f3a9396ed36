"""The server that the examples use: the one in TOCSIN_URL, else one inside this process that ends with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import tocsin


@contextmanager
def any_server() -> Iterator[str]:
    """The URL to connect to. In a program of your own, write the URL where the examples call this."""
    url = os.environ.get("TOCSIN_URL")
    if url:
        yield url
        return
    with TemporaryDirectory() as folder, tocsin.Server(folder) as server:
        yield server.url
