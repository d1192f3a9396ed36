"""The composition root: builds a server's machines from its configuration and the ports they need.

config           all settings of one server, from defaults, a file and the command line
setting_checks   what a setting may hold
broker           a client manager and a message manager joined by a bus: a server without sockets
storage          the journal's jobs; snapshot_run takes snapshots, snapshot_room says when for the room they bring back
block_reads      cold reads; placing says where blocks are
mending          records that cannot be read are put right; scrubbing looks for them before anybody reads
upkeep           compaction, and retained topics' own files
packing          makes a package: a snapshot with every block that its state needs
transfer         a snapshot goes from one member to another: both ends of it
workers          who does disk work; threads does it in threads
group_member     one member of a message manager group: the machines of replication, over its disk and its state
group_state      who has that state: a standby that follows, or a primary that serves
group_primary    a member that serves client managers; group_links are their links to it
reply_pieces     its answers, cut into messages of the bus
topic_hold       what waits after a promotion until all of them have linked
group_log        its log; group_journal is what the message manager sees of it
group_disk       what it has its disk do; group_store is one opening of its files, group_snapshots takes snapshots
group_copies     copies of damaged records, from and for other members
following        a member that does not serve applies the log; standby is its state
group_status     what it tells of itself
voter_host       a voter of a group with its vote file
votes_rebuilt    new votes for a group that has lost the majority of them for good
outgoing         what they send
identity_files   boot counter and secret
service          a broker with sockets, threads and timers, on a loop
process          a service as a process: signals, log, exit code
server           a service inside the user's process
loop             the event loop; loop_faults has the errors that reach it
watches          what the log tells of when it lasts: a full disk, a group that stands still
toml_file        files of settings
access_files     users and certificates, which may change while it runs

A node of a cluster:

cluster_config   what all nodes agree on: nodes, groups, networks
cluster_file     the same as a TOML file
node_config      one node's own part
cluster_secret   the secret from which all keys are derived
cluster_identity whose data directory it is
cluster_layout   a cluster on one machine
cluster_init     the birth of a cluster: its files, and the first value of each group's register
cluster_parts    opens what a node is: members of groups, witnesses, a client manager
cluster_node     the way between those parts and the bus, without sockets
cluster_service  the same with sockets, threads and timers, on a loop
cluster_process  the same as a process
rebalancing      when a primary gives its role back to the member that should lead
cluster_report   what a node knows of itself
status_file      the file it says that in
bus_networks     the sockets of its bus
bus_outbox       what the bus has no room for
hello            what nodes tell each other first
"""
