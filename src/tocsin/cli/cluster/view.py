"""A cluster for eyes: two tables on a terminal, drawn once or again and again; lines when piped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tocsin.cli.cluster.status import ClusterStatus, GroupLine, NodeLine
from tocsin.cli.output import for_table, note, on_terminal, print_table, show_number
from tocsin.cli.quantities import show_size
from tocsin.node.cluster_config import CLIENT_MANAGER, MESSAGE_MANAGER

if TYPE_CHECKING:
    from rich.table import Table

_REFRESH_SECONDS = 0.5
_COLOURS = {
    "running": "green",
    "well": "green",
    "degraded": "yellow",
    "stalled": "bold red",
    "starting": "yellow",
    "draining": "yellow",
    "silent": "red",
    "stopped": "red",
    "no primary": "bold red",
}
_ROLES = {CLIENT_MANAGER: "client manager", MESSAGE_MANAGER: "message manager"}
GROUP_COLUMNS = ("group", "state", "primary", "epoch", "in sync", "out of sync", "witnesses", "records", "stored")
NODE_COLUMNS = ("node", "state", "roles", "process", "clients", "url")


def print_status(status: ClusterStatus) -> None:
    """When piped: the groups' lines, then the nodes' lines, each with its kind first."""
    if on_terminal():
        from rich.console import Console

        Console().print(_drawn(status, ""))
        return
    for warning in _warnings(status):
        note(warning)
    print_table(("", *GROUP_COLUMNS), [("group", *_group_row(group)) for group in status.groups])
    print_table(("", *NODE_COLUMNS), [("node", *_node_row(node)) for node in status.nodes])


def watch(look: Callable[[], ClusterStatus], hint: str) -> None:
    """Live, until a signal ends it."""
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False, transient=False) as live:
        while True:
            live.update(_drawn(look(), hint), refresh=True)
            time.sleep(_REFRESH_SECONDS)


def _drawn(status: ClusterStatus, hint: str) -> Table:
    from rich.table import Table

    whole = Table.grid(padding=(0, 0))
    whole.add_row(_table(f"cluster {status.name}", GROUP_COLUMNS, [_group_row(each) for each in status.groups]))
    whole.add_row(_table("nodes", NODE_COLUMNS, [_node_row(each) for each in status.nodes]))
    for warning in _warnings(status):
        whole.add_row(f"[yellow]{for_table(warning)}[/]")
    whole.add_row(for_table(f"clients: {status.url}" + (f"\n{hint}" if hint else "")))
    return whole


def _warnings(status: ClusterStatus) -> list[str]:
    found: list[str] = []
    for group in status.groups:
        if status.is_anything_running:
            found += [f"{group.name}: {trouble}." for trouble in group.troubles]
        found += [f"{group.name}, {note}" for note in group.notes]
        if group.unclean_epoch:
            found.append(
                f"{group.name} was promoted uncleanly in epoch {group.unclean_epoch}: what had been confirmed behind"
                f" record {group.unclean_lsn:,} is lost."
            )
        found += [
            f"{records:,} of {group.name}'s records are damaged on the disk of {node}, and no other member could mend"
            " them: its log and `tocsin destinations show` say which."
            for node, records in group.damaged.items()
        ]
        found += [
            f"{records:,} of {group.name}'s records were damaged on the disk of {node} and have been mended: look at"
            " the disk."
            for node, records in group.mended.items()
        ]
    return found


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        *columns, title=for_table(title), title_justify="left", title_style="bold cyan", box=SIMPLE_HEAD, pad_edge=False
    )
    for row in rows:
        cells = [show_number(cell) if isinstance(cell, int) else "-" if cell is None else str(cell) for cell in row]
        colour = _COLOURS.get(cells[1])
        shown = [for_table(cell) for cell in cells]
        if colour is not None:
            shown[1] = f"[{colour}]{shown[1]}[/]"
        table.add_row(*shown)
    return table


def _group_row(group: GroupLine) -> tuple[object, ...]:
    return (
        group.name,
        group.state,
        group.primary,
        str(group.epoch),
        " ".join(group.in_sync),
        " ".join(group.out_of_sync),
        " ".join(group.witnesses),
        group.committed_lsn,
        show_size(group.live_bytes),
    )


def _node_row(node: NodeLine) -> tuple[object, ...]:
    roles = [_ROLES[CLIENT_MANAGER]] if CLIENT_MANAGER in node.roles else []
    roles += [f"{role} of {group}" for group, role in node.groups.items() if role not in roles]
    told = ", ".join(roles if node.groups else [_ROLES[role] for role in node.roles])
    process = None if node.pid is None else str(node.pid)
    return node.name, node.state, told, process, node.connections if node.url else None, node.url
