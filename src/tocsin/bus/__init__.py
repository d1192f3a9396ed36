"""Reliable multicast between client managers and message managers, without I/O of its own.

machine          the bus of one node: what other packages import
memory           the bus within one process: commands pass as they are, in order

datagram         headers of datagrams, the clear one and the sealed one
reports          status, acknowledgements, requests for what is missing
fragments        messages into packets and back
send_window      what may have to be sent again, and who has acknowledged it
retransmission   which packets are sent again, how often and how fast
flow_control     how much may be under way
gaps             what is missing of one stream, as ranges
receive_window   packets into order, what is missing, what is lost
acknowledgement  when a receiver acknowledges
membership       who is there, in which incarnation
strangers        whose first datagrams are worth a look
sealing          keys of flows, sealing and opening
replay           each datagram once
outgoing         what a node has for one address
incoming         what comes from one incarnation of a node
channel          one channel of a node
sending          everything that leaves, in order of urgency
receiving        everything that comes, from anybody's bytes to a member's packets
core, events, settings   what these share, tell and are told
"""
