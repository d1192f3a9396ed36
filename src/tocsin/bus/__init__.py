"""Reliable multicast between client managers and message managers, without I/O of its own.

memory   the bus within one process: commands pass as they are, in order
"""
