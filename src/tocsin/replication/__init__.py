"""How a group keeps one order and loses no confirmed record. Read `rules`, then `member`.

rules            the rules, each a small function with its name
roles            follower, catching up, candidate, primary, and the ways between them
member           one member: a switchboard of roles; events in, effects out
events           those events and effects
primary          gives records their place, counts copies, holds the lease
in_sync          how far each follower is, and whom the primary counts on
backup           stores what the primary orders
promotion        from silence to primary
catch_up         a snapshot for who is too far behind
merging          makes a log equal to another member's
serving          answers FETCH and hands out snapshots
repairing        asks others for a copy of a damaged record
data_pool        payloads that were multicast and wait for their ORDER
gate             a client manager's guard against earlier epochs
messages         what members say to each other
codec            the bytes of all that
credible         who may say what, and which numbers are in range
settings         who belongs to a group, and its times
context          what the roles of a member share
log              the port to the log
epochs           which epoch each record of a log has
journal_log      the log on a real journal: the loop's side
journal_work     the disk's side
journal_snapshot what replication keeps in a snapshot
package          a snapshot with its blocks on its way to another member: the file, and writing it
package_reader   reading it back
promise_file     the epoch that was promised, on disk
"""
