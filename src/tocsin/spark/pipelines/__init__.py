"""Ready pipelines: each is a dataclass of options and a function, used by `tocsin pipeline run` and from Python.

definition   what a pipeline is: options, progress, report
registry     all of them by name
watching     waits for a streaming query: rows per second, lag, a clean stop
causes       why a query failed, in one sentence instead of a stack trace
user_file    pipelines that users write: a file with a function `pipeline(spark, options)`
transform    topic to topic through SQL or a Python function
triage       dead messages by reason and origin, and back to where they came from
"""
