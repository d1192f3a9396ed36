"""The verbs of the command line, one file per verb or group of verbs.

serve         start a server
send          messages from arguments, a file, or lines of standard input
receive       messages as lines; browse in its own file looks without taking
destinations  list, show, create, delete, purge
user          the users file: add, remove, list
journal       look into the files of a stopped or damaged server: list, check, dump
bench         the benchmarks
"""
