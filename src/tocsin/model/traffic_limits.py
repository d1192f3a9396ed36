"""The bounds of what may be under way between clients and a server, with the asserts that relate them."""

from tocsin.model.limits import CONSUMER_BUFFER_BYTES, KIB, MIB, OUTBOUND_BYTES_MAX

OUTBOUND_SLOW_BYTES = MIB
"""A connection for which more waits is slow: its consumers get no new credit until a quarter of it is left."""
OUTBOUND_ALL_BYTES_MAX = 512 * MIB
"""What may wait for all connections together; then those for which the most waits are closed."""
CLOSING_SECONDS_MAX = 10.0
"""A connection that is closed has so long to take what waits for it; then it is cut off."""
INBOUND_BYTES_MAX = 32 * MIB
"""What one connection may have brought in that is not answered, by its size in memory; then it is not read for now."""
INBOUND_COMMANDS_MAX = 2_048
"""As many commands of one connection may be under way; then it is not read for a while."""
INBOUND_ALL_BYTES_MAX = 256 * MIB
"""What all connections may have brought in; beyond it who has more than an equal share is not read for a while."""
INBOUND_ALL_BYTES_LAST = 2 * INBOUND_ALL_BYTES_MAX
"""With the frames that are not complete yet: beyond it who brings more than an equal share is closed."""
COMMAND_BYTES = 512
"""What a command costs in memory beside its block, ranges and fields."""
RANGE_BYTES = 136
"""What a range of offsets costs in memory."""
FIELDS_FACTOR = 16
"""How much more memory the fields of a request cost than their bytes on the wire."""
CONSUMER_WINDOW_BYTES = 16 * MIB
"""What may be on the way to one consumer, whatever its client allows."""
CONSUMER_WINDOW_BYTES_MIN = 64 * KIB
CONNECTION_WINDOWS_BYTES_MAX = 32 * MIB
CONSUMER_WINDOWS_BYTES_MAX = 256 * MIB
"""What may be on the way to all consumers of a connection, and of a server; with many each gets less, down to the
minimum."""

assert OUTBOUND_SLOW_BYTES + CONNECTION_WINDOWS_BYTES_MAX < OUTBOUND_BYTES_MAX < OUTBOUND_ALL_BYTES_MAX
assert INBOUND_BYTES_MAX < INBOUND_ALL_BYTES_MAX and COMMAND_BYTES * INBOUND_COMMANDS_MAX < INBOUND_BYTES_MAX
assert CONSUMER_BUFFER_BYTES <= CONSUMER_WINDOW_BYTES <= CONNECTION_WINDOWS_BYTES_MAX <= CONSUMER_WINDOWS_BYTES_MAX
assert CONSUMER_WINDOW_BYTES_MIN < CONSUMER_WINDOW_BYTES
