"""Bounds of who comes in: descriptors, connections and handshakes before their login, and logins that fail."""

from tocsin.model.limits import CONNECTIONS_MAX, READ_OPEN_FILES_MAX

# Descriptors, which connections share with files.
CONNECTIONS_MIN = 16
"""A process that the system leaves room for fewer does not start."""
DESCRIPTORS_WANTED = 16_384
"""A server process raises its limit to that, where the system allows it."""
DESCRIPTORS_RESERVED = 96
"""That connections leave to the files of one journal. When half of it is gone newcomers are closed without a word."""
DESCRIPTOR_PAUSE_SECONDS = 0.01
DESCRIPTOR_WAIT_SECONDS = 30.0
"""How long opening a file waits for a free descriptor before the disk counts as failed."""
ACCEPTS_PER_TURN = 16
ACCEPT_PAUSE_SECONDS = 0.25
"""When the system has no descriptor for another connection."""

# Logins.
FAILED_LOGINS_FREE = 5
"""Of one user from one address, before there is a pause."""
FAILED_LOGINS_FREE_SHARED = 50
"""Of an address with any users, and of a user from any addresses."""
LOGIN_PAUSE_SECONDS_FIRST = 0.5
LOGIN_PAUSE_SECONDS_MAX = 60.0
LOGIN_PAUSE_SECONDS_MAX_SHARED = 2.0
"""Between two tries, after many failures; it doubles from the first. The shared one may hold up others, too."""
FAILED_LOGIN_MEMORY_SECONDS = 900.0
"""After so long without a failure it counts from the beginning."""
FAILED_LOGINS_KEPT = 10_000
"""Users and addresses of which failures are remembered, in each of three tables."""
UNPROVED_SHARE = 8
UNPROVED_PER_ADDRESS_MIN = 8
"""Connections of one address that have not logged in take at most this part of the room for all, or so many."""

# TLS handshakes that are under way. A peer can make each take some 700 KiB.
HANDSHAKES_MAX = 256
HANDSHAKES_PER_ADDRESS_MAX = 32
"""Of one address; the others wait, without a buffer of their own."""

assert LOGIN_PAUSE_SECONDS_FIRST < LOGIN_PAUSE_SECONDS_MAX_SHARED < LOGIN_PAUSE_SECONDS_MAX
assert LOGIN_PAUSE_SECONDS_MAX < FAILED_LOGIN_MEMORY_SECONDS
assert CONNECTIONS_MAX + 8 * DESCRIPTORS_RESERVED < DESCRIPTORS_WANTED, "all connections, and files"
assert READ_OPEN_FILES_MAX < DESCRIPTORS_RESERVED // 2 and ACCEPTS_PER_TURN < DESCRIPTORS_RESERVED // 4
assert HANDSHAKES_PER_ADDRESS_MAX * UNPROVED_SHARE <= HANDSHAKES_MAX < CONNECTIONS_MAX
