"""What Spark has planned, and what of ours is in its planner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def elements(sequence: Any) -> list[Any]:
    """Of a sequence of Scala's."""
    return [sequence.apply(number) for number in range(sequence.length())]


def plan(table: Any) -> str:
    return str(table._jdf.queryExecution().executedPlan().toString())


def scans(table: Any) -> list[str]:
    """The classes that read, as they are planned before a query adapts itself."""
    leaves = table._jdf.queryExecution().sparkPlan().collectLeaves()
    return [each.getClass().getSimpleName() for each in elements(leaves)]


def strategies(session: Any) -> list[str]:
    found = session._jsparkSession.experimental().extraStrategies()
    return [each.getClass().getSimpleName() for each in elements(found)]


def last_execution(session: Any) -> Any:
    """What Spark shows of the newest query, once it has heard of all that happened."""
    session._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    return elements(session._jsparkSession.sharedState().statusStore().executionsList())[-1]


def last_stage(session: Any) -> Any:
    """The last stage of the newest query."""
    store = session._jsparkSession.sparkContext().statusStore()
    (job,) = elements(last_execution(session).jobs().keys().toSeq())
    return store.lastStageAttempt(elements(store.job(job).stageIds())[-1])


@contextmanager
def settings(session: Any, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of Spark's for a while."""
    before = {name: session.conf.get(name) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def compiled(session: Any) -> AbstractContextManager[None]:
    """Queries as users run them; the session of the tests does not compile them."""
    return settings(session, {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"})
