"""Queues and topics: what a message manager stores and to whom it gives it.

machine         commands in, replies and journal records out; the one name that other packages import
settings        what it is told when it is made
agenda          which destination has something to do, and when
directory       which destinations exist
names           the directory of names: which group has a destination
destination     one queue or topic: its log, its views, its own inbox
log             the stored batches of a destination, one row in typed arrays each
view            what one set of competing consumers has finished, holds and may get next
views           all views of a destination, and which of them each message concerns
consumer        one attached consumer: credit, selector, how far it has looked
locks           messages in flight, as intervals
sessions        who is there: sessions, connections, client ids; and who has gone without a word
leaving         sessions that are paused, closed or have vanished
attachments     all attached consumers, and what they ask for
attachment_table  the same by key, session and destination
attaching       consumers come, resume, and go
subscribing     which view a consumer attaches to
subscriptions   durable subscriptions, and whose they are
storing         publishing, and everything else that puts a batch into a destination
reserves        what may have been delivered, at a start and before a stop
producers       deduplication by (producer, sequence)
delay           batches that are not due yet
stages          batches that nobody sees before their stage is committed
staging         stages are opened, committed, dropped
services        requests that are about no destination's own flow of control
dispatch        which consumer with credit gets what
budget          how much one step of a destination may do, and one run of all of them
searching       a selector is asked about a row, in several turns when that is dear
filtering       selectors, groups and expiry: the reasons to look inside a batch
grouping        message groups: one consumer for each
readers         browsing, replay and reading of ranges
forfeits        what consumers held that vanished
damage          messages whose block can't be read
settlement      acknowledge, nack, release, renew
containing      an error that nobody expected: what it ends
removals        the way to the dead message queue, and back
timers          leases, back-offs, expiry, retention
drains          named, durable locks on messages of a queue
draining        drains take, finish and release: records and what they do
taking          what a drain takes, in long ranges
drain_requests  requests about drains
request_fields  fields of requests, checked
holds           what retention must not drop, because somebody still wants to read it
holding         holds are set, moved and released, and end by themselves
offsets         which offsets a destination has, where a range of them may be cut, and in which files it is
administration  create, delete, purge, list, show, offsets, holds
answering       requests pay for the items of their answers, so that long ones hold up nobody
ledger          journal records, answers that wait for the disk, blocks
cache           recently stored blocks; the others are read from the journal
records         what is written to the journal, and its bytes
recovery        state from snapshot and records
snapshots       state to snapshot sections
state_hash      one hash for all that records describe, to compare members
selector        the JMS selector language
"""
