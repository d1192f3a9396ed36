"""A pipeline's dataclass of options as a command: each field is an option, with its type, default and help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from tocsin.cli import options
from tocsin.cli.pipelines.running import RunSettings, run_pipeline
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions

Master = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*] is this machine, spark://HOST:PORT a cluster.")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; more than once for more.")
]
PyFiles = Annotated[
    list[str] | None, typer.Option("--py-files", metavar="FILE", help="Python files or zips for the workers.")
]
SHARED: dict[str, tuple[Any, Any]] = {
    "master": (Master, "local[*]"),
    "conf": (Conf, None),
    "py_files": (PyFiles, None),
    "json": (options.Json, False),
}
"""What every run takes: the annotation and the default."""


def command_of(pipeline: Pipeline) -> Any:
    """The command that runs a pipeline."""
    hints = get_type_hints(pipeline.options)
    common = {field.name for field in fields(PipelineOptions)}
    # What is the pipeline's own comes first.
    ordered = sorted(fields(pipeline.options), key=lambda field: field.name in common)
    parameters = [_parameter(field, hints[field.name]) for field in ordered]
    parameters += [_keyword(name, annotation, default) for name, (annotation, default) in SHARED.items()]

    def command(**given: Any) -> None:
        settings = RunSettings(**{name: given.pop(name) for name in SHARED})
        values = {name: _plain(value) for name, value in given.items()}
        given_options = pipeline.options(**values)
        run_pipeline(settings, pipeline.name, lambda: pipeline.run, given_options, pipeline.reads(given_options))

    return make_command(command, pipeline.name, pipeline.summary, parameters)


def make_command(
    function: Callable[..., None], name: str, summary: str, parameters: list[Parameter], **context: Any
) -> Any:
    """A command out of a function that takes its arguments by name."""
    function.__doc__ = summary
    function.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    function.__signature__ = Signature(sorted(parameters, key=_has_default))  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    help_names = {"help_option_names": ["-h", "--help"]}
    app.command(name, context_settings={**help_names, **context})(function)
    return typer.main.get_command(app)


def _has_default(parameter: Parameter) -> bool:
    return parameter.default is not Parameter.empty


def _keyword(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parameter(field: Field[Any], hint: Any) -> Parameter:
    about = field.metadata
    name = f"--{field.name.replace('_', '-')}"
    default = Parameter.empty if field.default is MISSING else field.default
    if hint is bool:
        if default is True:
            name = f"{name}/--no-{name.removeprefix('--')}"
        return _keyword(field.name, Annotated[bool, options.flag(name, help=about["help"])], default)
    kind, default = _kind(field, hint, default)
    reader = None if about.get("read") is None else options.usage(about["read"])
    shown = typer.Option(
        name,
        help=about["help"],
        metavar=about.get("metavar"),
        envvar=about.get("variable"),
        parser=reader,
        show_default=default is not None,
    )
    return _keyword(field.name, Annotated[kind, shown], default)


def _kind(field: Field[Any], hint: Any, default: Any) -> tuple[Any, Any]:
    """The type as typer knows it, and the default as a value of that type."""
    if field.metadata.get("read") is not None:
        return Any, default
    if get_origin(hint) in (Union, UnionType):
        some = [each for each in get_args(hint) if each is not NoneType]
        assert len(some) == 1, f"{field.name}: of several types only one may be other than None"
        kind, default = _kind(field, some[0], default)
        return kind | None, default
    if get_origin(hint) is Literal:
        words = Enum(field.name, {word: word for word in get_args(hint)}, type=str)  # type: ignore[misc]
        return words, words(default) if isinstance(default, str) else default
    if get_origin(hint) is tuple:
        several = list(default) if isinstance(default, tuple) else default
        return list[get_args(hint)[0]], several  # type: ignore[misc]
    assert hint in (str, int, float), f"{field.name}: {hint} is no type for an option"
    return hint, default


def _plain(value: Any) -> Any:
    """What typer has made of an argument, as the dataclass wants it."""
    if isinstance(value, Enum):
        return value.value
    return tuple(value) if isinstance(value, list) else value
