"""Fakes that are shipped with tocsin, for its own tests and for those of its users.

disk   a disk in memory that forgets what was not synced, tears writes, fills up and fails on demand
clock  time that moves only when told
"""
