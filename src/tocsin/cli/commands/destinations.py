"""`tocsin destinations`: list, show, create, delete, purge, release."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli import options
from tocsin.cli.output import counted, duration_ms, note, on_terminal, print_fields, print_json, print_table, size
from tocsin.model.limits import COPIES_MAX

if TYPE_CHECKING:
    import tocsin

app = typer.Typer(help="Queues and topics: list, show, create, delete, purge, release.", no_args_is_help=True)

COLUMNS = ("kind", "name", "messages", "bytes", "consumers", "in_flight", "dead", "retained")
SUBSCRIPTION_COLUMNS = ("name", "client_id", "durable", "shared", "selector", "messages", "in_flight")
DRAIN_COLUMNS = ("drain", "takes", "messages", "last", "finished")
HOLD_COLUMNS = ("name", "offset", "lag", "expires_in")
NO_LIMIT = "no limit"


@app.command("list")
def list_destinations(
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """List all destinations in name order."""
    with options.Access(url, user, password, tls_ca).connect() as connection:
        found = [_object(info) for info in connection.destinations()]
    if json:
        print_json(found)
    else:
        _print_rows(COLUMNS, found)


@app.command()
def show(
    destination: options.DestinationArgument,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Show one destination with its options, subscriptions, consumers, and holds on its retention."""
    with options.Access(url, user, password, tls_ca).connect() as connection:
        found = _object(connection.show_destination(destination))
    if json:
        print_json(found)
    elif on_terminal():
        subscriptions = found.pop("subscriptions", None) or []
        drains = found.pop("drains", None) or []
        holds = found.pop("holds", None) or []
        print_fields(_in_words(found), title=str(destination))
        if subscriptions:
            _print_rows(SUBSCRIPTION_COLUMNS, subscriptions, title="subscriptions")
        if drains:
            _print_rows(DRAIN_COLUMNS, drains, title="drains")
        if holds:
            now_ms = time.time_ns() // 1_000_000
            left = [{**hold, "expires_in": duration_ms(max(0, hold["expires"] - now_ms))} for hold in holds]
            _print_rows(HOLD_COLUMNS, left, title="holds")
    else:
        print_fields(found)


@app.command()
def create(
    destination: options.DestinationArgument,
    retained: Annotated[bool, options.flag("--retained", help="Topics: messages stay and can be replayed.")] = False,
    max_age: Annotated[
        Any, options.duration_option("--max-age", help="Retained: drop what is older, such as 7d.")
    ] = None,
    max_bytes: Annotated[
        Any, options.size_option("--max-bytes", help="Retained: keep at most so much, such as 10GiB.")
    ] = None,
    redelivery_limit: Annotated[
        int | None,
        typer.Option(min=0, help="Failed deliveries before a message goes to _DMQ; 0 is no limit."),
    ] = None,
    backoff: Annotated[
        Any, options.duration_option("--backoff", help="Wait before the second delivery; doubles then.")
    ] = None,
    min_copies: Annotated[
        int | None,
        typer.Option(min=1, max=COPIES_MAX, help="Clusters: refuse messages while fewer members would have them."),
    ] = None,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Create a destination with options. Without any need for options the first use creates it, too."""
    wanted = {
        "retained": retained or None,
        "max_age": max_age,
        "max_bytes": max_bytes,
        "redelivery_limit": redelivery_limit,
        "backoff": backoff,
        "min_copies": min_copies,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    with options.Access(url, user, password, tls_ca).connect() as connection:
        created = connection.create_destination(destination.name, destination.kind.word, **given)
    if json:
        print_json({"destination": str(destination), "created": created})
    else:
        note(f"{destination} {'was created' if created else 'exists already with these options'}.")


@app.command()
def delete(
    destination: options.DestinationArgument,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Delete a destination and everything in it; refused while somebody consumes from it."""
    with options.Access(url, user, password, tls_ca).connect() as connection:
        connection.delete_destination(destination)
    if json:
        print_json({"destination": str(destination), "deleted": True})
    else:
        note(f"{destination} was deleted.")


@app.command()
def purge(
    destination: options.DestinationArgument,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Drop all messages of a destination, and keep the destination."""
    with options.Access(url, user, password, tls_ca).connect() as connection:
        dropped = connection.purge_destination(destination)
    if json:
        print_json({"destination": str(destination), "dropped": dropped})
    else:
        note(f"{counted(dropped, 'message was', 'messages were')} dropped from {destination}.")


@app.command()
def release(
    destination: options.DestinationArgument,
    drain: Annotated[str, typer.Argument(help="The drain's name, as `show` tells it.", show_default=False)],
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """End a drain of a queue: what it holds goes back to the queue, flagged as redelivered."""
    with options.Access(url, user, password, tls_ca).connect() as connection:
        released = connection.drain_release(destination, drain)
    if json:
        print_json({"destination": str(destination), "drain": drain, "released": released})
    else:
        note(f"{counted(released, 'message went', 'messages went')} back to {destination}.")


def _object(info: tocsin.DestinationInfo) -> dict[str, Any]:
    return {"destination": str(info.destination), "kind": info.kind, "name": info.name, **info.details}


def _print_rows(columns: Sequence[str], found: Iterable[Mapping[str, Any]], title: str | None = None) -> None:
    names = [column.replace("_", " ") for column in columns]
    print_table(names, [[_sized(column, info.get(column)) for column in columns] for info in found], title)


def _sized(column: str, value: Any) -> Any:
    return size(value) if column == "bytes" and value is not None else value


def _in_words(found: Mapping[str, Any]) -> dict[str, Any]:
    """What people want to know: limits in words, and none that mean nothing here."""
    shown: dict[str, Any] = {}
    for name, value in found.items():
        match name:
            case "destination" | "kind" | "name":
                pass  # The title says it.
            case "bytes":
                shown[name] = size(value)
            case "max_age_ms":
                if found.get("retained"):
                    shown["max_age"] = duration_ms(value) if value else NO_LIMIT
            case "max_bytes":
                if found.get("retained"):
                    shown[name] = size(value) if value else NO_LIMIT
            case "redelivery_limit":
                shown[name] = value or NO_LIMIT
            case "damaged":
                if value:
                    shown["damaged"] = ", ".join(f"offsets {first} to {end}" for first, end in value)
            case "backoff_ms":
                shown["backoff"] = duration_ms(value) if value else "none"
            case _:
                shown[name] = value
    return shown
