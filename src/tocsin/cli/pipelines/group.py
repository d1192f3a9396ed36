"""`tocsin pipeline run`: a command for each ready pipeline, and one for any file. Nothing of it is loaded before."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup


class RunGroup(TyperGroup):
    """Commands by name, from the registry; a word that looks like a file is the user's own pipeline."""

    _made: MutableMapping[str, Any] | None = None

    @property
    def commands(self) -> MutableMapping[str, Any]:
        if self._made is None:
            from tocsin.cli.pipelines.arguments import command_of
            from tocsin.spark.pipelines.registry import pipelines

            self._made = {each.name: command_of(each) for each in pipelines()}
        return self._made

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        """The parser's own list, which is empty."""

    def get_command(self, context: Any, name: str) -> Any:
        if name.endswith(".py") or "/" in name:
            return file_command(name)
        return self.commands.get(name)


def file_command(path: str) -> Any:
    from inspect import Parameter

    from tocsin.cli.pipelines.arguments import SHARED, make_command
    from tocsin.cli.pipelines.running import RunSettings, run_file

    def command(context: typer.Context, **given: Any) -> None:
        run_file(RunSettings(**given), path, list(context.args))

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in SHARED.items()
    ]
    about = "Run the function pipeline(spark, options) of a file; all other options are the file's own."
    return make_command(command, path, about, parameters, ignore_unknown_options=True, allow_extra_args=True)
