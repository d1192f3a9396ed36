"""`tocsin cluster`: a real cluster of separate processes on this machine, and the birth of any cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli import exits, options
from tocsin.cli.output import note, on_terminal, print_json
from tocsin.model.errors import TimedOut

if TYPE_CHECKING:
    from tocsin.cli.cluster.directory import ClusterDirectory
    from tocsin.cli.cluster.status import ClusterStatus
    from tocsin.node.cluster_config import ClusterConfig

app = typer.Typer(
    help="Clusters: make one, start it on this machine, look at it, break it and mend it.", no_args_is_help=True
)

DIRECTORY_DEFAULT = Path("tocsin-cluster")
READY_SECONDS = 60.0

Directory = Annotated[Path, typer.Option("--directory", "-C", help="Where the cluster lives.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node, such as mm-1a.", show_default=False)]
Confirm = Annotated[
    str | None, typer.Option(metavar="GROUP", help="The group's name once more, instead of typing it when asked.")
]
ClientManagers = Annotated[int, typer.Option(min=1, max=16, help="How many client managers.")]
Groups = Annotated[int, typer.Option(min=1, max=32, help="How many groups of message managers.")]
Members = Annotated[int, typer.Option(min=1, max=9, help="How many members each group has, the primary included.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Of the first client manager; 0 takes any free ones.")]
Profile = Annotated[str, typer.Option(help='"fast" finds a dead primary sooner, and takes a hiccup for one sooner.')]
Name = Annotated[str, typer.Option(help="Name of the cluster.")]


@app.command()
def init(
    directory: Directory = DIRECTORY_DEFAULT,
    config: Annotated[
        Path | None, typer.Option(help="Draft of a cluster file, for a cluster on several machines; see examples.")
    ] = None,
    name: Name = "local",
    client_managers: ClientManagers = 2,
    groups: Groups = 2,
    members: Members = 2,
    port: Port = 7177,
    profile: Profile = "default",
    json: options.Json = False,
) -> None:
    """Make a new cluster: its id, its secret, a folder for each node with its first configuration. Once."""
    made = _create(directory, config, name, client_managers, groups, members, port, profile)
    if json:
        print_json({"cluster": made.name, "id": made.cluster_id, "directory": str(directory), "nodes": _names(made)})
        return
    note(f"The cluster {made.name} has {len(made.nodes)} nodes and {len(made.groups)} groups, in {directory}.")
    if config is None:
        note(f"Start it: tocsin cluster up -C {directory}")
    else:
        note("Bring cluster.toml, secret and the folder nodes/NAME to the machine of each node, at the same places;")
        note("then start each node: tocsin node --config nodes/NAME/node.toml")


@app.command()
def up(
    directory: Directory = DIRECTORY_DEFAULT,
    name: Name = "local",
    client_managers: ClientManagers = 2,
    groups: Groups = 2,
    members: Members = 2,
    port: Port = 7177,
    profile: Profile = "default",
    detach: Annotated[bool, options.flag("--detach", "-d", help="Return when all is well; the nodes go on.")] = False,
    json: options.Json = False,
) -> None:
    """Start all nodes on this machine, and show them until Ctrl-C, which stops them. A new cluster is made first."""
    from tocsin.cli.cluster.directory import ClusterDirectory
    from tocsin.cli.cluster.status import look
    from tocsin.node.cluster_init import CLUSTER_FILE

    if not (directory / CLUSTER_FILE).exists():
        _create(directory, None, name, client_managers, groups, members, port, profile)
    cluster = ClusterDirectory(directory)
    signal.signal(signal.SIGTERM, _interrupt)
    status = _start_all(cluster)
    if json:
        print_json(status.as_json())
    if not detach:
        try:
            _show_until_interrupted(cluster, look, as_json=json)
        except KeyboardInterrupt:
            note("Stopping the cluster.")
        finally:
            _stop_all(cluster)
    elif not json:
        stop = "tocsin cluster down" + ("" if directory == DIRECTORY_DEFAULT else f" -C {directory}")
        note(f"The cluster {status.name} runs; clients connect to {status.url}. `{stop}` stops it.")


@app.command()
def status(
    directory: Directory = DIRECTORY_DEFAULT,
    url: Annotated[
        str | None, typer.Option("--url", help="Ask a client manager, perhaps of another machine, instead.")
    ] = None,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    watch: Annotated[bool, options.flag("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    json: options.Json = False,
) -> None:
    """Show groups and nodes. Exit code 0: all is well; 1: something is missing; 3: nothing runs."""
    with _watcher(directory, url, options.Access(url or "", user, password, tls_ca)) as look:
        _show(look, watch=watch, json=json)


@contextmanager
def _watcher(directory: Path, url: str | None, access: options.Access) -> Iterator[Callable[[], ClusterStatus]]:
    """Tells the state of the cluster as often as it is asked."""
    if url is None:
        from tocsin.cli.cluster.status import look

        cluster = _open(directory)
        yield lambda: look(cluster)
        return
    from tocsin.cli.cluster.remote import from_client_manager

    with access.connect() as connection:
        yield lambda: from_client_manager(connection.cluster_status(), url)


def _show(look: Callable[[], ClusterStatus], *, watch: bool, json: bool) -> None:
    from tocsin.cli.cluster import view

    if watch:
        view.watch(look, "")
    seen = look()
    if json:
        print_json(seen.as_json())
    else:
        view.print_status(seen)
    if not seen.is_well:
        raise typer.Exit(exits.FAILED if seen.is_anything_running else exits.NOTHING_FOUND)


@app.command()
def kill(name: NodeName, directory: Directory = DIRECTORY_DEFAULT, json: options.Json = False) -> None:
    """Kill a node at once, as a power failure would (SIGKILL). Exit code 3: it did not run."""
    done = _open(directory).kill(name)
    _tell(json, name, "killed" if done else "not running", f"{name} {'is dead' if done else 'did not run'}.")
    if not done:
        raise typer.Exit(exits.NOTHING_FOUND)


@app.command()
def start(name: NodeName, directory: Directory = DIRECTORY_DEFAULT, json: options.Json = False) -> None:
    """Start a node that does not run."""
    cluster = _open(directory)
    done = cluster.start(name)
    cluster.wait_until_started(name)
    _tell(json, name, "started" if done else "running", f"{name} {'has started' if done else 'runs already'}.")


@app.command()
def drain(name: NodeName, directory: Directory = DIRECTORY_DEFAULT, json: options.Json = False) -> None:
    """Let a node hand over what it leads and tell its clients, then stop it. Exit code 3: it did not run."""
    cluster = _open(directory)
    if not cluster.ask_to_stop(name):
        _tell(json, name, "not running", f"{name} did not run.")
        raise typer.Exit(exits.NOTHING_FOUND)
    if not cluster.wait_until_stopped(name):
        raise TimedOut(f"{name} did not stop in time and was killed; nothing that was confirmed is lost.")
    _tell(json, name, "stopped", f"{name} has stopped in order.")


@app.command("unclean-promote")
def unclean_promote(
    name: NodeName,
    group: Annotated[str, typer.Argument(help="The group that it shall lead.")],
    confirm: Confirm = None,
    directory: Directory = DIRECTORY_DEFAULT,
    json: options.Json = False,
) -> None:
    """Lead a group from a member that is not in sync. What it lacks is LOST: only when nobody else will come back."""
    from tocsin.cli.cluster.unclean import gap_of, promote

    cluster = _open(directory)
    gap = gap_of(cluster, name, group)
    note(gap.sentence())
    _ask_for(group, confirm)
    line = promote(cluster, name, group)
    if json:
        print_json({"node": name, "group": group, "epoch": line.epoch, "lsn": line.unclean_lsn, "missing": gap.records})
    else:
        note(
            f"{name} leads {group} in epoch {line.epoch}. What others had behind that is given up when they come back."
        )


@app.command("rebuild-votes")
def rebuild_votes(
    name: NodeName,
    group: Annotated[str, typer.Argument(help="The group whose votes are lost.")],
    confirm: Confirm = None,
    directory: Directory = DIRECTORY_DEFAULT,
    json: options.Json = False,
) -> None:
    """Make new votes for a group that has lost most of them for good, from a member that has its records. Offline."""
    from tocsin.cli.cluster.rebuild import plan_of, rebuild

    cluster = _open(directory)
    plan = plan_of(cluster, name, group)
    note(plan.sentence())
    _ask_for(group, confirm)
    value = rebuild(cluster, plan)
    if json:
        print_json({"node": name, "group": group, "epoch": value.epoch, "lsn": value.unclean_lsn})
    else:
        note(f"{name} votes alone for {group} from now on. Start it, then the others: they are taken in one by one.")


def _ask_for(group: str, confirm: str | None) -> None:
    typed = confirm if confirm is not None else typer.prompt(f"Type the group's name ({group}) to go on", err=True)
    if typed != group:
        hint = "--confirm" if confirm is not None else "the group's name"
        raise typer.BadParameter(f"{typed!r} is not {group!r}; nothing was done.", param_hint=hint)


@app.command()
def down(directory: Directory = DIRECTORY_DEFAULT, json: options.Json = False) -> None:
    """Stop all nodes on this machine. Exit code 3: none ran."""
    cluster = _open(directory)
    stopped, killed = _stop_all(cluster)
    if json:
        print_json({"stopped": stopped, "killed": killed})
    else:
        note(f"Stopped: {', '.join(stopped) or 'nothing, no node ran'}.")
        if killed:
            note(f"Did not stop in time and were killed: {', '.join(killed)}.")
    if not stopped and not killed:
        raise typer.Exit(exits.NOTHING_FOUND)


def _create(
    directory: Path, draft: Path | None, name: str, client_managers: int, groups: int, members: int, port: int,
    profile: str,
) -> ClusterConfig:  # fmt: skip
    from tocsin.node.cluster_config import PROFILES
    from tocsin.node.cluster_file import read_cluster_file
    from tocsin.node.cluster_init import ClusterExists, create_cluster
    from tocsin.node.cluster_layout import local_cluster

    if profile not in PROFILES:
        raise typer.BadParameter(f"{profile!r} is none of {', '.join(PROFILES)}.", param_hint="--profile")

    def make(cluster_id: str, fingerprint: str) -> ClusterConfig:
        if draft is not None:
            return read_cluster_file(draft, given={"id": cluster_id, "secret_fingerprint": fingerprint})
        return local_cluster(
            name=name,
            cluster_id=cluster_id,
            secret_fingerprint=fingerprint,
            client_managers=client_managers,
            groups=groups,
            members=members,
            port=port,
            profile=profile,
        )

    try:
        return create_cluster(directory, make)
    except ClusterExists as error:
        note(f"tocsin: {error}")
        raise typer.Exit(exits.USAGE) from None


def _names(config: ClusterConfig) -> list[str]:
    return [node.name for node in config.nodes]


def _open(directory: Path) -> ClusterDirectory:
    from tocsin.cli.cluster.directory import ClusterDirectory

    return ClusterDirectory(directory)


def _start_all(cluster: ClusterDirectory) -> ClusterStatus:
    """Returns when all is well, or says what is not. What was started in vain is stopped again."""
    started: list[str] = []
    try:
        for name in cluster.names:
            if cluster.start(name):
                started.append(name)
        for name in cluster.names:
            cluster.wait_until_started(name)
        return _wait_until_led(cluster)
    except BaseException:
        for name in started:
            cluster.kill(name)
        raise


def _wait_until_led(cluster: ClusterDirectory) -> ClusterStatus:
    from tocsin.cli.cluster.processes import until
    from tocsin.cli.cluster.status import look

    until(lambda: look(cluster).is_well, READY_SECONDS)
    seen = look(cluster)
    for group in seen.groups:
        if group.primary is None:
            raise TimedOut(f"{group.name} has no primary after {READY_SECONDS:g} s; see the logs in {cluster.path}.")
        if group.out_of_sync:
            note(f"{group.name} is not whole: {', '.join(group.out_of_sync)} not in sync yet.")
    return seen


def _stop_all(cluster: ClusterDirectory) -> tuple[list[str], list[str]]:
    """Client managers first, so that clients are told while everything still works; then all others at once."""
    asked: list[str] = []
    killed: list[str] = []
    managers = {node.name for node in cluster.config.client_managers}
    for names in (
        [each for each in cluster.names if each in managers],
        [n for n in cluster.names if n not in managers],
    ):
        waiting = [name for name in names if cluster.ask_to_stop(name)]
        for name in waiting:
            (asked if cluster.wait_until_stopped(name) else killed).append(name)
    return asked, killed


def _show_until_interrupted(cluster: ClusterDirectory, look: Any, *, as_json: bool) -> None:
    from tocsin.cli.cluster import view

    if as_json or not on_terminal():
        if not as_json:
            view.print_status(look(cluster))
            note(f"Clients connect to {cluster.url}. Ctrl-C stops the cluster.")
        while True:
            signal.pause()
    view.watch(lambda: look(cluster), "Ctrl-C stops the cluster; nothing that was confirmed is lost.")


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _tell(json: bool, name: str, state: str, sentence: str) -> None:
    if json:
        print_json({"node": name, "state": state})
    else:
        note(sentence)
