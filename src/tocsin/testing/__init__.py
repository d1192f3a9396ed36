"""Fakes that are shipped with tocsin, for its own tests and for those of its users.

disk              a disk in memory that forgets what was not synced, tears writes, fills up and fails on demand
clock             time that moves only when told
network           a network in memory that loses, repeats and reorders datagrams, and is cut on demand
bus_cluster       several nodes' buses on it, with a checker of what the bus promises
strict_faults     mistakes of the server that are raised and not contained
driver            a whole server without sockets, threads or real time
simulation        groups of message managers in virtual time, from one seed
clusters          whole clusters with their clients in virtual time, from one seed
fault_script      faults as a script: which one strikes when, and how seeds steer them
shrinking         a failing script made short
seed_sweep        the command line of both: seed after seed, then a table
simulate          runs groups for some minutes and prints a table
simulate_clusters the same for whole clusters
scripted_client   a client that does just what a test says, frame by frame
scripted_session  its sessions, producers and consumers
"""
