"""The verbs of the command line, one file per verb or group of verbs.

serve         start a server
node          one node of a cluster
cluster       make a cluster, start it on this machine, look at it, break it and mend it
send          messages from arguments, a file, or lines of standard input
receive       messages as lines; browse in its own file looks without taking
destinations  list, show, create, delete, purge
user          the users file: add, remove, list
journal       look into the files of a stopped or damaged server: list, check, dump
pipeline      pipelines on Spark: list, run
bench         the benchmarks
"""
