"""What a pipeline is. The command line is made from the options' dataclass, so each field has a sentence of help.

Modules of pipelines import PySpark inside their functions only: the command line reads them to list what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tocsin.spark.pipelines.watching import Watched

REQUIRED: Any = MISSING
URL_DEFAULT = "tocsin://localhost:7177"


def option(
    default: Any = REQUIRED,
    *,
    help: str,  # noqa: A002  the word of the command line
    metavar: str | None = None,
    read: Callable[[str], Any] | None = None,
    variable: str | None = None,
    hidden: bool = False,
) -> Any:
    """A field of a pipeline's options. `read` turns the text of the command line into the value, and raises ValueError
    with a sentence; `variable` names an environment variable that is asked when the option is not given. What is
    `hidden` may hold a password, and is not in the text form of the options.
    """
    return field(
        default=default,
        repr=not hidden,
        metadata={"help": help, "metavar": metavar, "read": read, "variable": variable},
    )


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """What every pipeline takes: where the server is and who asks."""

    url: str = option(
        URL_DEFAULT, help="Server to talk to; several hosts by comma.", variable="TOCSIN_URL", hidden=True
    )
    user: str | None = option(None, help="Who asks.", variable="TOCSIN_USER")
    password: str | None = option(
        None, help="Better given by the variable: others see options.", variable="TOCSIN_PASSWORD", hidden=True
    )
    tls_ca: str | None = option(None, help="Trust servers with a certificate from this PEM file.", metavar="FILE")

    def source_options(self) -> dict[str, str]:
        """The same for `spark.read.format("tocsin").options(**...)`, and for writing."""
        given = {"url": self.url, "user": self.user, "password": self.password, "tlsCa": self.tls_ca}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Report:
    """What a pipeline has to say at its end."""

    values: Mapping[str, Any]
    """What --json prints, whole."""
    tables: Sequence[Table] = ()
    """What people see instead; without a table, the values."""
    notes: Sequence[str] = ()
    failed: str | None = None
    """A sentence when the run found what should not be: the command ends with exit code 1."""


class Progress(Protocol):
    """How a pipeline that is running reports, and learns that it should stop."""

    def note(self, sentence: str) -> None:
        """A sentence for whoever watches."""

    def rows(self, count: int) -> None:
        """So many more rows were done, in work that is no streaming query."""

    def watch(self, query: StreamingQuery) -> Watched:
        """Waits until a query ends, and stops it when that is asked for; raises PipelineFailed with the cause."""

    @property
    def stopping(self) -> bool:
        """Whether to stop has been asked for."""


class Pipeline:
    """A pipeline by name, with the type of its options and the function that runs it.

    `reads` says which destinations a run will read, where that tells how much there is to do.
    """

    __slots__ = ("name", "options", "reads", "run", "summary")

    def __init__(
        self,
        name: str,
        summary: str,
        options: type[PipelineOptions],
        run: Callable[[SparkSession, Any, Progress], Report],
        reads: Callable[[Any], Sequence[str]] = lambda options: (),
    ) -> None:
        self.name = name
        self.summary = summary
        self.options = options
        self.run = run
        self.reads = reads
