"""`tocsin pipeline`: ready pipelines and your own, on Spark."""

from __future__ import annotations

import typer

from tocsin.cli import options
from tocsin.cli.output import print_json, print_table
from tocsin.cli.pipelines.group import RunGroup

app = typer.Typer(help="Pipelines on Spark: list them, run one.", no_args_is_help=True)
app.add_typer(
    typer.Typer(
        cls=RunGroup,
        no_args_is_help=True,
        help="Run a ready pipeline by its name, or your own by its file.",
        callback=lambda: None,
    ),
    name="run",
    subcommand_metavar="NAME|FILE [OPTIONS]...",
)


@app.command("list")
def list_pipelines(json: options.Json = False) -> None:
    """List the ready pipelines; `tocsin pipeline run NAME --help` shows the options of one."""
    from tocsin.spark.pipelines.registry import pipelines

    found = [(each.name, each.summary) for each in pipelines()]
    if json:
        print_json([{"name": name, "summary": summary} for name, summary in found])
    else:
        print_table(("name", "what it does"), found)
