"""The write-ahead log of a node: records in segments, group commit, recovery, compaction, snapshots, streams.

It does not know what records mean, and does all I/O through the Files port. Start with `journal` and
`recovery`.

record           the record format, and encoding a group commit
segment          file header and file names
segment_index    where records are and which are live; the side index file
jobs             what travels between the loop and the I/O threads
journal          the loop's side: append, group commits, locate, release
upkeep           which small job of maintenance comes next
writer           the writing thread's side: one write, one sync
cutting          takes the end off: records that a group never committed
importing        replaces the whole journal by a snapshot of another member
staging          the files of an import, before it is decided
reserve          the preallocated next segment
compaction       the jobs of maintenance
reader           payloads back from disk, verified
mend             a damaged record is put right where it stands
scan             walks records, the hot loop of a restart
walk             all that can be read of a file, and the places that cannot
tail             torn or damaged: looks at a bad place
rewriting        writes again what a start finds, so that its sync means something
atomic_file      small files, whole or not at all
slot_file        small files that are overwritten in place, without a free byte
meta             identity of the journal
recovery_table   what recovery does in which situation
recovery_segment one segment during recovery
recovery         opens a journal
snapshot         state snapshots, two generations
stream           retained topics: append, search, drop
stream_file      one file of a retained topic
stream_spare     the room for its next file
stream_damage    a start goes on behind damage in it
stream_entry     one block in it
stream_view      the same file as others on the host read it
stream_index     where its entries are; the side index file
inspect          list, check and dump any journal
"""
