"""Client connections and sessions: what a client manager holds. It stores nothing that must survive it.

machine      bytes and frames of clients in, frames and commands out; the one name that other packages import
settings     what it is told when it is made
desk         what the parts share: who is here, what is awaited, what is to be sent
answers      answers of message managers on their way to clients
registry     who is here: connections, client ids, sessions
connection   one client connection
sweeping     looking at all connections for those that are silent, some in each turn
entrance     how many may come in, of all and of one address
backoff      pauses after logins that failed
greeting     from the first frame to WELCOME
claiming     client ids, which are unique in the cluster
login        who may connect, and the proof that a returning client is the same one
accounts     what each client has under way, and who is not read for a while
flow         what may be on the way to a consumer
session      producers and consumers of one session, and their credit
publishing   blocks in: the one full check at the edge; confirmations out
requests     what a client may ask for
stage_requests  the same about stages
access       authorize(principal, action, resource)
quotas       how much one user may have

In a cluster, between the machine and the groups:

cluster_port          the machine with its links to all groups; what a node drives
routing               commands to their groups, answers back, and everything again on a new link
group_link            one run of commands to one primary after another
tracking              what must be said again: open producers and consumers, and what is not confirmed
pending               requests without an answer
placement             which group has a destination: names, slots, and where new ones go
spreading             which of the groups gets a new destination
destination_requests  requests about one destination, wherever it is
stage_routing         stages of several groups: opened, committed and dropped as one
subscription_names    subscriptions whose name may be in use in another group
dead_letters          one dead message queue out of those of all groups
merging               one answer out of those of all groups
commits_seen          what was confirmed here, for the voters of the groups
cluster_status        what is known of the groups, for people
"""
