"""What managers say to each other over the bus, and the register that names the primary of a group.

commands           the commands of a client manager to a message manager group, and the answers
waiting_grants     credit that waits in a queue, one for each consumer
refusing           what a client is told when its command can't be done
command_codec      the bytes of the commands
reply_codec        the bytes of the answers
envelope           everything that crosses the bus: groups' messages, commands, answers, status of members
slots              which group keeps a name
register           the register: compare and set on a value that a majority keeps
group_config       the value: epoch, primary, in-sync set, voters
voter              keeps the value and grants leases
vote               what a voter must not forget, and its file
lives              how an older copy of a log or of a vote is told from the newest
lease              who may deliver, and until when
proposer           one round at the register
register_messages  what is said between them
register_events    what goes into these machines and comes out
packing            bounded packing of control messages and small files
"""
