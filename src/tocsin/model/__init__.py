"""The vocabulary that every other package shares; it imports nothing of ours.

errors        the one error tree, each error with its wire code
faults        errors that nobody raised on purpose: counted, logged, contained
limits        every bound, with asserts that relate them
entrance_limits  those of who comes in
traffic_limits  those of what is under way between clients and a server
selector_limits  those of message selectors
spark_limits  those of the Spark data source
peer_place    where a connection comes from
identity      unique ids and the distinct number types (LSN, offset, sequence)
destination   queues and topics and what a name may look like
spelling      how a new name may be written
secret        passwords and tokens that hide themselves
visible       text of others, for terminals and logs
values        JMS value types and their self-describing byte form
conversion    the JMS conversion tables
ranges        sorted, disjoint ranges of numbers: acknowledgements and reserves
batch         the columnar block: the unit of work between two clients
stored_block  where it is in a record of a journal or of a topic's file
checksum      CRC-32, as fast as can be had
columns       between Python values and the columns of a block
dead_notes    what a dead message says about itself
editing       slicing blocks and adding columns to them
projection    blocks with some of their columns only
reading       what a reader of a range of offsets asks for
bodies        which Python value travels as which JMS body
properties    names and values of message properties
message       one message as the application sees it
"""
