"""What a connection can tell about the server and its destinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.client import operations
from tocsin.client.core import Core
from tocsin.client.pending import Steps
from tocsin.model.destination import Destination, parse_destination
from tocsin.model.limits import PAGE_ITEMS_MAX, PAGES_MAX
from tocsin.model.properties import JMSX_NAMES


def own_version() -> str:
    # Imported here, because it takes longer than the whole client and hardly anybody asks.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tocsin")
    except PackageNotFoundError:
        # Loaded from a source tree or a zip file.
        return "0"


@dataclass(frozen=True, slots=True)
class Metadata:
    """Who provides the messaging, in which version, and which JMSX properties it knows."""

    provider: str
    provider_version: str
    server: str
    jms_version: str
    jmsx_properties: tuple[str, ...]


def metadata(core: Core) -> Metadata:
    return Metadata("tocsin", own_version(), core.server_product, "3.1", JMSX_NAMES)


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """A destination and what the server says about it."""

    destination: Destination
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any], destination: Destination | None = None) -> DestinationInfo:
        details = {name: value for name, value in fields.items() if name != "id"}
        if destination is None:
            destination = parse_destination(details["destination"])
        return cls(destination, details)

    @property
    def name(self) -> str:
        return self.destination.name

    @property
    def kind(self) -> str:
        return self.destination.kind.word

    def __getitem__(self, name: str) -> Any:
        return self.details[name]


def list_steps(core: Core, prefix: str) -> Steps[list[DestinationInfo]]:
    """Page after page, in the order of names."""
    found: list[DestinationInfo] = []
    fields: dict[str, Any] = {"limit": PAGE_ITEMS_MAX}
    if prefix:
        fields["prefix"] = prefix
    for _ in range(PAGES_MAX):
        reply = yield from operations.request(core, 0, "destination.list", dict(fields))
        page = [DestinationInfo.of(entry) for entry in reply["destinations"]]
        found += page
        if not reply.get("more") or not page:
            break
        fields["after"] = page[-1].name
    return found


def destination_options(
    retained: bool | None,
    max_age: float | None,
    max_bytes: int | None,
    redelivery_limit: int | None,
    backoff: float | None,
    min_copies: int | None = None,
) -> dict[str, Any]:
    options = {
        "retained": retained,
        "max_age_ms": None if max_age is None else round(max_age * 1000),
        "max_bytes": max_bytes,
        "redelivery_limit": redelivery_limit,
        "backoff_ms": None if backoff is None else round(backoff * 1000),
        "min_copies": min_copies,
    }
    return {name: value for name, value in options.items() if value is not None}
