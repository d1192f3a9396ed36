"""Mistakes are not contained in a simulation: each one is what it looks for."""

from __future__ import annotations

from typing import NoReturn

from tocsin.model.faults import Faults


class StrictFaults(Faults):
    __slots__ = ()

    def note(self, doing: str, error: Exception) -> NoReturn:
        raise error
