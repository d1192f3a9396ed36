"""Reliable multicast between client managers and message managers, without I/O of its own."""
