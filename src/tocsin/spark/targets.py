"""Where rows go: a topic that keeps them, or that somebody hears."""

from __future__ import annotations

from tocsin.client import Session
from tocsin.model.destination import Destination, Kind


def prepare_target(session: Session, destination: Destination) -> None:
    """Makes a topic that is not there, as a retained one; refuses one that would publish rows to nobody.

    The server has just these rules for stages, so a stage is opened, and given up with nothing in it. A queue keeps
    what it gets in any case.
    """
    if destination.kind is Kind.TOPIC:
        session.stage(destination).drop()
