"""Everything that touches the world: files, clocks, threads, sockets. Machines above it see only its ports.

ports           what the layers above may ask of the world, as protocols
slewed_clock    a wall clock without jumps, for what is due at a time
disk            the data directory on a real file system, and the lock that keeps a second server out
journal_thread  one thread that works off a queue of jobs, for the journal's writer, reader and maintenance
ownership       whose files they are
descriptors     how many there are, what connections leave to files, and a wait when there is none
accepting       listening sockets: connections as they come
handshakes      TLS handshakes: so many at once, the others wait
tcp             client connections: read, write with a bound, close
outbound        what waits for slow clients, and who is cut off
local           the short way for clients on the server's own host
spinning        whether it is worth to stay awake for what will come in a moment
users_file      who may log in
tls             certificates

datagrams       the port between the bus and a network
multicast       the bus on IP multicast
fanout          the bus on networks without multicast
networks        several networks as one transport
lossy           a network that loses datagrams, for benchmarks and tests
udp             sockets for bursts of datagrams, with the kernel's offloads
udp_sockets     the sockets of one transport on an event loop
bus_loop        drives a bus on an event loop
aead            the cipher of the bus
"""
