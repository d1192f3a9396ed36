"""The command line: `tocsin VERB ...`. Data goes to standard output, everything else to standard error.

main       the entry point: the tree of commands, errors as one sentence, exit codes
commands   one file per verb or group of verbs
options    the options that many verbs share: where the server is, who asks, JSON or not
names      how destinations are written: `orders`, `queue:orders`, `topic:prices`
quantities sizes, durations and points in time as people write them
properties `name:type=value`, as in `tocsin send --property`
messages   a message as a line of text or as a JSON object
files      the files of a server that must not be changed
exits      exit codes
interrupts Ctrl-C that comes at a bad moment
output     tables, fields and JSON lines; a pipe that closes early
progress   what is shown while something takes long, on a terminal only
cluster    clusters whose nodes are processes of this machine, behind `tocsin cluster`
pipelines  pipelines on Spark, behind `tocsin pipeline`
bench      the benchmarks behind `tocsin bench`

Only this package imports typer and rich, and each command imports what it needs when it runs, so that
`tocsin --version` and shell completion answer at once.
"""
