"""Pipelines on the command line, behind `tocsin pipeline`.

group      `run` as a group of commands that is put together when it is used
arguments  the options of a pipeline's dataclass as options of its command
running    a Spark session around a run, signals, and errors as sentences
quiet      what Java writes to standard error, kept instead of shown
showing    the line of progress, and the report at the end
"""
