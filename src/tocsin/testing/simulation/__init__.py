"""A group of the real machines in a simulated world, from one seed.

run             one seed: faults, then peace, then the verdict
world           the event queue and everything in it
faults          what goes wrong, and what is still within the promise
old_copies      disks of an earlier day that come back
checkers        the invariants
register_checks those of the register alone
network         loses, doubles, delays, cuts
clock           differs from node to node
log             a group log that forgets what was not flushed
journal_backed  the same with a real journal under it
member_node     a member: voter, replication, and the state above them
voter_node      a witness
client_node     producers that send until confirmed
state           what the group keeps: deduplication, hashes, snapshots
traffic         messages between client managers and the group
"""
