"""Queues and topics: what a message manager stores and to whom it gives it.

machine        commands in, replies and journal records out; the one name that other packages import
directory      which destinations exist
destination    one queue or topic: its log, its views, its own bounded inbox
log            the stored batches of a destination, one row in typed arrays each
view           what one set of competing consumers has finished, holds and may get next
locks          messages in flight, as intervals
dispatch       which consumer with credit gets what
filtering      selectors, groups and expiry: the reasons to look inside a batch
settlement     acknowledge, nack, release, renew
dead_letters   the way to the dead message queue, and back
delay          batches that are not due yet
producers      deduplication by (producer, sequence)
cache          recently stored blocks; the others are read from the journal
records        what is written to the journal, and its bytes
recovery       state from snapshot and records
snapshots      state to snapshot sections
administration create, delete, purge, list, show
selector       the JMS selector language
"""
