"""Whole clusters of the real machines in virtual time, from one seed, with the clients that use them.

timeline     virtual time, and beings with lives
lines        connections between clients and servers
client       an application process around the real client core
workload     what applications do
epochs       a program that publishes through stages
drainers     a program that drains queues in planned batches
historians   a program that reads a retained topic again and again
hostile      a client that keeps no rule
crew         all applications of a simulation
history      what applications saw, and whether that may be
workers      disk threads in virtual time
server_node  a whole server in one process
single       one server under faults
fabric       the bus, message by message
datagram_fabric  the real bus on simulated datagrams
vote_disk    a disk that tells when a vote is durable
cluster_host one node of a cluster
shadow_log   what checkers know of a member's log
group_checks the invariants of one group
world        a whole cluster
faults       what goes wrong in it
fault_kinds  what all faults need
node_faults  nodes and programs
disk_faults  disks and votes
link_faults  the network between nodes
run          one seed, from beginning to end
tally        what many seeds came to
"""
