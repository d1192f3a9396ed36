"""Client connections and sessions: what a client manager holds. It stores nothing that must survive it.

machine      bytes and frames of clients in, frames and commands out; the one name that other packages import
desk         what the parts share: who is here, what is awaited, what is to be sent
answers      answers of message managers on their way to clients
registry     who is here: connections, client ids, sessions
connection   one client connection
greeting     from the first frame to WELCOME
login        who may connect, and the proof that a returning client is the same one
session      producers and consumers of one session, and their credit
publishing   blocks in: the one full check at the edge; confirmations out
requests     what a client may ask for
access       authorize(principal, action, resource)
"""
