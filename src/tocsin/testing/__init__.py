"""Fakes that are shipped with tocsin, for its own tests and for those of its users.

disk              a disk in memory that forgets what was not synced, tears writes, fills up and fails on demand
clock             time that moves only when told
driver            a whole server without sockets, threads or real time
scripted_client   a client that does just what a test says, frame by frame
scripted_session  its sessions, producers and consumers
"""
