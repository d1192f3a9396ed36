"""The benchmarks: server, producers and consumers are processes of their own and use the public client.

settings   what to measure: workload, size, count, and what some workloads take beside them
process    child processes that end with us, and what the kernel says of their CPU time and memory
shape      how large a cluster is
server     the server under test: `tocsin serve` in a directory of its own
cluster    the cluster under test: each node a `tocsin node` of its own
target     which of them a run is against
crew       the worker processes of one run: a barrier before the clock, results after it
worker     what runs in a worker process: one role, step by step
roles      what workers do: publish, consume, send at a fixed rate, send one by one, search
stage      server, crew and names that every workload needs
workloads  which roles a workload needs, and what its numbers mean
bodies     bodies that are distinct and numbered, so that a consumer can check each of them
floor      what disk and network alone would cost
report     one result as a table or as JSON
suite      all workloads with their usual settings

The clock is CLOCK_MONOTONIC, which all processes of one Linux machine share. It starts when every process has
said that it is ready, so imports, connecting and the garbage of the start are outside.
"""
