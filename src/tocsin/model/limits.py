"""Every bound of the system, with the asserts that relate them. Sizes in bytes unless the name says otherwise."""

KIB = 1024
MIB = 1024 * KIB

# Messages and batches.
MESSAGE_BYTES_DEFAULT = 8 * MIB
MESSAGE_BYTES_MAX = 24 * MIB
BLOCK_OVERHEAD_BYTES = 256 * KIB
BLOCK_BYTES_MAX = MESSAGE_BYTES_MAX + BLOCK_OVERHEAD_BYTES
BATCH_MESSAGES_MAX = 16_384
BATCH_COLUMNS_MAX = 256
BLOCK_COLUMNS_MAX = BATCH_COLUMNS_MAX + 16
"""What a client fills, and room for what servers note on a message, such as why it is dead."""
CLIENT_COLUMNS_MAX = BATCH_COLUMNS_MAX - 2
"""Columns of headers and properties; body and timestamps have theirs."""
PROPERTIES_MAX = BATCH_COLUMNS_MAX - 16
SEQUENCE_MAX = 2**63 - 1
OFFSET_MAX = 2**53 - 1
"""In requests: what a client of any language can write."""
PRIORITY_MAX = 9
PROPERTY_NAME_BYTES_MAX = 256
HEADER_TEXT_BYTES_MAX = 4 * KIB
VALUE_DEPTH_MAX = 8
VALUE_ITEMS_MAX = 65_536

# What a client puts into one batch before it closes it.
CLIENT_BATCH_MESSAGES = 4_000
CLIENT_BATCH_BYTES = 256 * KIB
CLIENT_WAITING_BYTES_MAX = 4 * CLIENT_BATCH_BYTES
CLIENT_WAITING_BATCHES_MAX = 64
"""What may wait in a client for one destination before those who send are held back."""
REPLIES_UNCLAIMED_MAX = 64
"""Replies of a session that name no request which waits, the oldest first to go."""

SINK_BLOCK_BYTES = 3 * MIB // 2
"""What Spark's rows fill a block up to before they are halved, so that several are on the way at a time."""
SINK_DESTINATIONS_MAX = 1_000
"""Destinations that one task of a write can have: each is a stage."""

# Names.
DESTINATION_NAME_BYTES_MAX = 255
SUBSCRIPTION_NAME_BYTES_MAX = 255
CLIENT_ID_BYTES_MAX = 255
USER_NAME_BYTES_MAX = 255
SETTING_NAME_CHARACTERS_MAX = 64

# Login.
LOGIN_SECONDS_MAX = 10.0
LOGIN_MESSAGE_BYTES_MAX = 2 * KIB
LOGIN_NONCE_CHARACTERS_MIN = 16
LOGIN_NONCE_CHARACTERS_MAX = 128
PASSWORD_BYTES_MAX = KIB
PASSWORD_ITERATIONS_MIN = 100_000
"""Fewer are refused by clients and made by nobody: whoever plays the server could try passwords that much faster."""
PASSWORD_ITERATIONS_READ_MIN = 4_096
"""What RFC 7677 asks for at least. A users file may still hold fewer than the above, for users who can't log in."""
PASSWORD_ITERATIONS_DEFAULT = 100_000
PASSWORD_ITERATIONS_MAX = 2_000_000
"""What a hostile server can make a client compute; a users file with more would lock its users out."""
SALT_BYTES_MIN = 8
SALT_BYTES_MAX = 64
DECOY_SECRET_BYTES_MIN = 16
USERS_FILE_BYTES_MAX = 64 * MIB
CONFIG_FILE_BYTES_MAX = MIB

# Wire.
FRAME_BYTES_BEFORE_LOGIN = 4 * KIB
RANGES_PER_FRAME_MAX = BATCH_MESSAGES_MAX
FRAME_BYTES_MAX = BLOCK_BYTES_MAX + 16 * RANGES_PER_FRAME_MAX + 4 * KIB
"""A delivery of the largest block in the most ranges, 16 bytes each."""
CONTROL_BYTES_MAX = 4 * MIB
"""Of a frame that carries a map: what a client asks for, and what it is told."""
RANGES_PER_FRAME_SENT = 4_096
"""What our client puts into one settlement, so that none holds up what is behind it."""
REASON_BYTES_MAX = KIB
"""Why a consumer gave a message back."""
SESSIONS_PER_CONNECTION_MAX = 1_024
SESSION_EPOCH_MAX = 1 << 31
"""A client may come back so often; half of what the number's place between managers can hold."""
PRODUCERS_PER_SESSION_MAX = 4_096
CONSUMERS_PER_SESSION_MAX = 4_096
CONNECTIONS_MAX = 10_000
LISTEN_BACKLOG = 1_024
PAGE_ITEMS_MAX = 1_000
"""Destinations or subscriptions in one answer; a longer list comes page by page."""
PAGES_MAX = 10_000
OUTBOUND_BYTES_MAX = 64 * MIB
"""What may wait for one slow connection before it is closed; deliveries stop long before, by credit."""

# Credit.
PRODUCER_WINDOW_BYTES = 8 * MIB
"""As much as one group commit takes: so two producers keep one commit full while another is synced."""
PRODUCER_WINDOW_BYTES_MIN = 64 * KIB
PRODUCER_WINDOWS_BYTES_MAX = 64 * MIB
"""What all producers together may have on the way; with many of them each gets less, down to the minimum."""
PRODUCER_WINDOW_BATCHES = 64
PREFETCH_DEFAULT = 4_096
PREFETCH_MAX = 65_536
CONSUMER_BUFFER_BYTES = 8 * MIB
RANGE_BUFFER_BYTES = 16 * MIB
RANGE_BUFFER_BYTES_MIN = 64 * KIB
RANGE_BUFFER_BYTES_MAX = 48 * MIB
"""What a reader of a range may have been sent and not looked at."""
RANGE_MESSAGES = 1 << 40
"""A reader of a range holds nothing by the message: its credit is in bytes."""
LOCAL_MESSAGES_MIN = 10_000
"""Ranges of fewer messages come over the connection before their files would be found."""
STREAM_PARTS_MAX = 64
"""Files that a reader on the server's host is told of at once; then it asks for more."""

# Destinations.
DESTINATIONS_MAX = 100_000
SUBSCRIPTIONS_PER_TOPIC_MAX = 10_000

# Of one user, or of one connection where nobody has to log in.
CONNECTIONS_PER_USER_MAX = 2_000
SESSIONS_PER_USER_MAX = 10_000
PRODUCERS_PER_USER_MAX = 20_000
CONSUMERS_PER_USER_MAX = 20_000
DESTINATIONS_PER_USER_MAX = 20_000
TEMPORARIES_PER_USER_MAX = 1_000
SUBSCRIPTIONS_PER_USER_MAX = 10_000
"""Durable ones, in a group; destinations are counted there too, the others at a client manager."""
INBOX_COMMANDS_MAX = 65_536
"""Commands that wait in a message manager before it takes no more from its links; each connection's own bound comes
long before."""
GROUPS_PER_VIEW_MAX = 10_000
GROUP_RESERVED_MESSAGES_MAX = 10_000
ROWS_PER_STEP = 256
WORK_PER_RUN = 2 * ROWS_PER_STEP
"""What one run of a message manager does, in rows that are looked at: commands, items of answers and deliveries, all
together; then the sockets have their turn."""
FAULT_PAUSE_SECONDS = 1.0
"""How long a destination whose turn has met a mistake of ours waits for its next one."""
READ_AHEAD_BYTES = 2 * MIB
RANGE_READ_BYTES = 4 * MIB
RANGE_READ_ROWS = 512
"""What one cold read brings at most, for a reader of a range."""
RANGE_READS = 4
"""Such reads that may be under way for one reader, or waiting to be sent."""
CUTS_MAX = 10_000
"""Parts that a range of offsets can be cut into."""
HOLDS_PER_DESTINATION_MAX = 256
HOLD_NAME_BYTES_MAX = 255
HOLD_SECONDS_MAX = 30 * 24 * 3600.0
DELIVERED_BYTES_PER_RUN = 8 * MIB
"""Then whoever takes the deliveries away has its turn, and says for whom it was too much."""
DELIVERY_RESERVE_MESSAGES = 65_536
FORFEITS_MAX = 10_000
FORFEIT_RANGES_MAX = 4 * PREFETCH_MAX
"""So many vanished consumers, and ranges that they held, a message manager remembers to tell those who come back."""
SESSION_CLOSE_SECONDS = 10.0
"""How long closing a session or a producer waits for one answer of the server, when the application says nothing."""
LAST_WORDS_SECONDS = 1.0
"""How long a session that gave up waiting takes to end at the server."""
REMOVALS_PER_TURN = 64
"""Batches, or parts of them, that go to the dead message queue or back in one turn."""
DEPARTURES_PER_TICK = 128
"""Sessions, consumers or connections that vanished with their client manager and are ended at once."""
SWEPT_PER_TURN = 512
"""Connections that a client manager looks at in one turn for those that are silent."""
VANISHED_PER_TURN = 64
"""Clients that did not come back, or fell silent, and are ended in one turn."""
PRODUCER_ROWS_MAX = 100_000
PRODUCER_SILENCE_SECONDS = 24 * 3600.0
CACHE_BYTES_DEFAULT = 64 * MIB

# Stages.
STAGES_PER_DESTINATION_MAX = 16_384
STAGES_PER_COMMIT_MAX = 8_192
"""That one request commits or drops; each is 16 bytes of the record that commits them."""
STAGE_WAITING_BYTES_MAX = 32 * MIB
"""What may wait in a client for all stages of a session before those who fill them are held back."""
STAGE_SECONDS_DEFAULT = 3_600.0
STAGE_SECONDS_MAX = 7 * 24 * 3_600.0
"""How long a stage may be silent before it is dropped."""
APP_NAME_BYTES_MAX = 255
EPOCHS_MAX = 100_000
"""Applications whose last committed epoch a group remembers."""
EPOCHS_PER_USER_MAX = EPOCHS_MAX // 10
EPOCH_MEMORY_SECONDS = 30 * 24 * 3_600.0
CLAIM_MEMORY_SECONDS = STAGE_SECONDS_MAX
"""How long a run that has taken over and committed nothing fences earlier ones: what those had staged is over then."""

# Drains.
DRAINS_PER_QUEUE_MAX = 64
DRAIN_ID_BYTES_MAX = 255
DRAIN_TAKES_MAX = 256
"""Takes of one drain that are not finished."""
DRAIN_ROWS_PER_TAKE = 2_048
"""Batches: what one take locks, one finish acknowledges and one release gives back costs a few milliseconds."""
DRAIN_RANGES_PER_TAKE = 1_024
DRAIN_RANGES_PER_ANSWER = 8_192
"""Of several takes that are listed; a longer list comes page by page."""
DRAIN_SECONDS_DEFAULT = 24 * 3600.0
DRAIN_SECONDS_MAX = 366 * 24 * 3600.0
POSTPONED_MAX = 1_024
"""Requests for one destination that wait for a block from the disk, or for the end of a promotion."""

UNREADABLE_TOLD_MAX = 16
"""Damages of its destination that a consumer's receive() has yet to raise."""

# Journal.
SEGMENT_BYTES_DEFAULT = 64 * MIB
SEGMENT_BYTES_MIN = 4 * KIB
SEGMENT_BYTES_MAX = 2**32 - 1
READ_OPEN_FILES_MAX = 32
READ_BYTES_MAX = 4 * MIB
"""A read grows up to this size by joining neighbours; a single record may be larger."""
READ_GAP_BYTES_MAX = 16 * KIB
"""A gap up to this size between two payloads is read and thrown away: cheaper than a second system call."""
READ_WINDOW_BYTES_MIN = 16 * KIB
"""A payload of this size or more is not copied out of what was read with it."""
SCRUB_BYTES_PER_SECOND = 8 * MIB
"""So much of files that nobody reads is looked through for damage, when there is nothing else to do."""
SCRUB_STEP_BYTES = 2 * MIB
SCRUB_STEP_RECORDS = 4_096
SCRUB_EVERY_SECONDS = 24 * 3600.0
"""From the start of one look at everything to the start of the next."""
SCRUB_DELAY_SECONDS = 60.0
"""After a start there is better to do."""
MEND_RETRY_SECONDS = 60.0
"""What could not be mended is tried again after this time."""
REPAIRS_MAX = 16
"""Records that a member asks others for at the same time; more of them wait."""
COMMIT_BYTES_MAX = 8 * MIB
COMMIT_RECORDS_MAX = 4_096
MOVE_BLOCKS_MAX = 4_096
"""Blocks of retained topics that one job moves into their own files."""
SNAPSHOT_EVERY_BYTES = 256 * MIB
ROOM_SNAPSHOT_SECONDS = 30.0
"""Between two snapshots that are taken only to bring room back, while there is enough of it."""
SNAPSHOT_ITEMS_MAX = 50_000_000
"""Values in one section of a snapshot, which holds a whole destination."""

# Bus. A packet has a place in a stream; a datagram is what crosses the network; a burst is one system call.
BUS_CHANNELS_MAX = 64
BUS_MEMBERS_MAX = 128
"""Nodes that one node hears on one channel; a heartbeat names them all in one datagram."""
BUS_DATAGRAM_BYTES_MIN = 1_200
BUS_DATAGRAM_BYTES_MAX = 65_507
BUS_BURST_BYTES_MAX = BUS_DATAGRAM_BYTES_MAX
BUS_BURST_DATAGRAMS_MAX = 64
"""What every kernel with segmentation offload takes in one call."""
BUS_TURN_BYTES_MAX = MIB
"""What one turn of the loop sends before it looks at what has come."""
BUS_READS_PER_TURN = 16
BUS_SOCKET_BUFFER_BYTES = 16 * MIB
BUS_MESSAGE_BYTES_MAX = FRAME_BYTES_MAX
BUS_MESSAGE_CHUNKS_MAX = BUS_MESSAGE_BYTES_MAX // (BUS_DATAGRAM_BYTES_MIN // 2)
"""Pieces of one message; all but its first and last fill a datagram, of which half is far more than its headers."""
BUS_CONTROL_MESSAGE_BYTES_MAX = 64 * KIB
BUS_WAITING_BYTES = 4 * MIB
"""What may wait for the window before senders are held back; the last message may go beyond it."""
BUS_WAITING_MESSAGES = 8_192
BUS_WINDOW_BYTES = 4 * MIB
BUS_WINDOW_BYTES_MIN = 256 * KIB
BUS_WINDOW_PACKETS = 8_192
BUS_HISTORY_BYTES = MIB
"""Acknowledged packets that are kept for those who do not count."""
BUS_CONTROL_WINDOW_BYTES = MIB
BUS_CONTROL_WINDOW_PACKETS = 1_024
BUS_ACKNOWLEDGE_BYTES = 512 * KIB
BUS_ACKNOWLEDGE_PACKETS = 512
BUS_GAPS_MAX = 1_024
"""Ranges of packets that one stream of a sender may miss; what would make more of them is refused, and comes again."""
BUS_NAK_RANGES_MAX = 64
BUS_NAK_PACKETS_MAX = 2_048
BUS_NAK_TRIES_MAX = 64
"""Requests in vain after which packets are lost, about 17 s at the longest pause. An honest sender that is heard
answers one of them, also where half of all datagrams is lost."""
BUS_RESEND_BYTES_PER_SECOND = 256 * MIB
BUS_RESEND_BURST_BYTES = 4 * MIB
BUS_REPLAY_PACKETS = 1_024
BUS_PACKETS_PER_KEY = 1 << 22
"""A key seals at most 2**34 blocks of 16 bytes, about what TLS 1.3 allows AES-GCM."""
BUS_STRANGERS_PER_SECOND = 200
"""Datagrams of incarnations never heard before, or under another key than the last, that are worth deriving a key for,
of all that come from elsewhere than the node they name."""
BUS_NEWCOMERS_PER_SECOND = 50
"""The same for each node of the cluster, of what comes from its own address: nobody else uses that up."""
BUS_CLAIMS_PER_NODE = 4
"""Incarnations of one node that are heard and have not shown yet that they are no recording; the oldest gives way."""
BUS_SECRET_BYTES_MIN = 32
BUS_HEARTBEAT_SECONDS = 0.1
BUS_SUSPECT_SECONDS = 0.3
BUS_DOWN_SECONDS = 1.0
BUS_PROMPT_SECONDS = 0.01
"""How soon after the last packet its receivers are told that it was the last."""
BUS_ACKNOWLEDGE_SECONDS = 0.002
BUS_NAK_SECONDS = 0.001
BUS_NAK_RETRY_SECONDS = 0.02
"""Before anything was measured; then it follows how long answers take."""
BUS_NAK_RETRY_SECONDS_MIN = 0.004
BUS_NAK_RETRY_SECONDS_MAX = 0.3
BUS_RESEND_REPEAT_SECONDS = 0.0015

# Groups.
GROUP_MEMBERS_MAX = 16
COPIES_MAX = 2
"""Members that must have a record on disk before it is confirmed, and what a destination can ask for."""
GROUP_VOTERS_MAX = 31
GROUP_NUMBER_MAX = 1 << 62
"""LSNs, ballots and versions that are taken from others: more than will ever be, with room to count on in 64 bits."""
GROUP_SECONDS_MAX = 253_402_300_800.0
"""Times that are taken from others: up to the year 10,000."""
GROUP_REPLICAS_KNOWN_MAX = 4_096
"""Replicas of a group of which starts are remembered, those of lost disks among them."""
VOTER_ANSWERS_MAX = 64
"""Answers of a voter that wait for its disk."""
STARTS_KEPT_MAX = 64
"""Starts of a member or voter, one after another, of which it never heard that anybody noted them."""
VOTE_NOTES_SECONDS = 2.0
"""How often a voter notes how far the members have come, when it has no other reason to write its vote."""
ORDER_ENTRIES_MAX = 256
ORDER_BYTES_MAX = 256 * KIB
"""What one ORDER carries in line; payloads that were multicast are only named."""
RECORD_BYTES_MAX = BLOCK_BYTES_MAX + 128 * KIB
"""Of one record of a group: a largest block and what is written around it."""
FETCH_ENTRIES_MAX = 1_024
FETCH_BYTES_MAX = 4 * MIB
"""What one FETCHED carries; a single record may be larger."""
SNAPSHOT_CHUNK_BYTES = MIB
SNAPSHOT_BYTES_MAX = 64 * 1024 * MIB
PACKAGE_STEP_RECORDS = 1_024
PACKAGE_STEP_BYTES = 4 * MIB
"""What one step of making a package copies; a single record or section may be larger."""
PACKAGE_IDLE_SECONDS = 60.0
"""A package that nobody has asked for in this time goes, and with it its hold on the journal."""
SNAPSHOT_WAITS_MAX = 4_096
"""How often a member asks again for a snapshot that is being made."""
DATA_POOL_BYTES = 64 * MIB
DATA_POOL_ENTRIES = 16_384
"""Payloads at a backup that no ORDER has named yet."""
UNCOMMITTED_ENTRIES_MAX = 16_384
"""Records that a primary has appended and its group has not committed."""
REQUESTS_SERVED_MAX = 64
"""Reads of the log for other members that may be under way."""
GROUP_LEASE_SECONDS = 1.5
GROUP_TAIL_BYTES = 64 * MIB
"""Records that a member remembers until they are applied; more are read from its disk again."""
APPLY_RECORDS_PER_TURN = 256
APPLY_BYTES_PER_TURN = 4 * MIB
GROUP_STATUS_SECONDS = 0.5
VOTE_RETRY_SECONDS = 0.25
"""After a vote found no room on the disk."""
HAND_OVER_SECONDS = 5.0
"""How long a primary that gives its role away waits for a backup to have everything and take it."""
COMMIT_SEEN_SECONDS = 0.25
"""How often a client manager tells a group's voters at most what it was told to be committed; well within a lease."""
UNLINKED_SECONDS = 0.1
"""How often one client manager is told at most that its link is broken."""
LINK_MESSAGES_EARLY_MAX = 256
"""Messages of client managers that come before a new primary serves."""
TOPIC_HOLD_SECONDS = 1.0
"""How long a new primary waits with messages to topics for client managers that do not link."""
LINK_MESSAGES_WAITING_MAX = 16_384
LINK_BYTES_WAITING_MAX = 256 * MIB
"""Messages of client managers that wait for a primary's lease, its journal or its message manager."""
REPLIES_BYTES_MAX = 256 * KIB
"""Answers in one message of the bus; a single one may be larger."""

# Between client managers and groups.
COMMANDS_PER_MESSAGE_MAX = 1_024
"""Commands or answers in one message of the bus."""
ERROR_TEXT_BYTES_MAX = 4 * KIB
COMMANDS_BYTES_MAX = MIB
"""Of one message; a single command may be larger."""
COMMAND_BYTES_MAX = BUS_MESSAGE_BYTES_MAX - KIB
"""Of one command or answer between managers, which may be a message of the bus by itself."""
REQUESTS_PER_GROUP_MAX = 65_536
"""Requests that one group has not answered; more are refused until it does."""
CONNECTIONS_PER_KEEP = 512
NAMES_CACHED_MAX = 100_000
NAME_RETRIES_MAX = 5
RELINK_SECONDS_MIN = 0.05
LINK_ANSWER_SECONDS = 0.25
LINK_ANSWER_SECONDS_MAX = 2.0
"""How long a new link waits for its first answer before another one is begun: twice as long each time."""
HELD_RANGES_MAX = PREFETCH_MAX
"""Ranges that a consumer may hold; one whose settlements leave more gaps is closed."""
SETTLED_RANGES_PER_LOOK = 16_384
"""So many ranges a consumer settles between two looks at how many it holds."""
SETTLED_LOCKS_PER_TURN = 512
"""Rows, and parts of rows, of which a long settlement settles so many, and goes on when others had their turn."""
LOCKS_PER_CONSUMER_MAX = 1_000_000
"""Rows, and parts of rows, that a consumer was given and has not settled; then it gets no more for now."""
LEASES_PER_LOOK_MAX = 65_536
"""Rows, and parts of rows, whose lease ends at one look at a view: each may be a range of the record that says so."""
CLIENT_IDS_MAX = 10 * CONNECTIONS_MAX
NAME_SLOTS = 1_024
NAMES_MAX = 10 * DESTINATIONS_MAX
"""In the directory that one group keeps; the destinations themselves are spread over all groups."""
DELETED_NAMES_MAX = 16_384
"""Deleted destinations that a group remembers, so that nobody who knew them brings them back."""
SESSION_EPOCHS_MAX = 65_536
"""Sessions that have moved, which a group remembers so that nothing is taken from where they came."""
GROUPS_MAX = BUS_CHANNELS_MAX

# Clusters.
BUS_OUTBOX_MESSAGES_MAX = 16_384
BUS_OUTBOX_BYTES_MAX = 256 * MIB
"""What may wait for one address while the bus has no room; whoever makes it is held back long before."""
REBALANCE_SECONDS = 60.0
LOCAL_TURNS_MAX = 64
"""How often the parts of one node answer each other before the network has its turn."""
CLUSTER_NETWORKS_MAX = 16
CLUSTER_SECRET_BYTES = 32
CLUSTER_ID_CHARACTERS = 32
"""Of the id, the secret's fingerprint and the file's digest, in hexadecimal digits."""

# Times.
HEARTBEAT_SECONDS = 10.0
HEARTBEAT_SECONDS_MIN = 0.1
SESSION_GRACE_SECONDS = 5.0
LEASE_SECONDS = 30.0
ACKNOWLEDGE_WITHIN_SECONDS = 0.005
REDELIVERY_LIMIT = 10
RECONNECT_PAUSE_SECONDS_FIRST = 0.05
RECONNECT_PAUSE_SECONDS_MAX = 5.0
CONNECTION_WORKS_SECONDS = 2.0
"""A connection that lasts so long has worked: when it is lost, the client comes back at once, and tries anew."""

assert MESSAGE_BYTES_DEFAULT <= MESSAGE_BYTES_MAX < BLOCK_BYTES_MAX
assert BLOCK_BYTES_MAX < FRAME_BYTES_MAX < SEGMENT_BYTES_DEFAULT // 2, "a largest block must fit a segment"
assert FRAME_BYTES_BEFORE_LOGIN < FRAME_BYTES_MAX < OUTBOUND_BYTES_MAX, "a slow connection may have a largest frame"
assert LOGIN_MESSAGE_BYTES_MAX + USER_NAME_BYTES_MAX + KIB < FRAME_BYTES_BEFORE_LOGIN, "a login must fit its frame"
assert 4 * LOGIN_NONCE_CHARACTERS_MAX + 2 * SALT_BYTES_MAX < LOGIN_MESSAGE_BYTES_MAX, "two nonces are in one message"
assert 3 * USER_NAME_BYTES_MAX + LOGIN_NONCE_CHARACTERS_MAX < LOGIN_MESSAGE_BYTES_MAX, "an escape is three characters"
assert PASSWORD_ITERATIONS_READ_MIN <= PASSWORD_ITERATIONS_MIN
assert PASSWORD_ITERATIONS_MIN <= PASSWORD_ITERATIONS_DEFAULT <= PASSWORD_ITERATIONS_MAX
assert CLIENT_BATCH_MESSAGES <= BATCH_MESSAGES_MAX and CLIENT_BATCH_BYTES < BLOCK_BYTES_MAX
assert 2 * SINK_BLOCK_BYTES <= PRODUCER_WINDOW_BYTES and SINK_BLOCK_BYTES < BLOCK_BYTES_MAX
assert BATCH_COLUMNS_MAX < BLOCK_COLUMNS_MAX < 1 << 16, "the count of columns is a u16"
assert DESTINATION_NAME_BYTES_MAX < 1 << 16 and PROPERTY_NAME_BYTES_MAX < 1 << 16, "lengths of names are u16"
assert BLOCK_BYTES_MAX < 1 << 32, "positions in a block are u32"
assert REASON_BYTES_MAX < 1 << 16, "the length of a reason is a u16"
assert SEQUENCE_MAX < 1 << 63, "a sequence travels as a JMS long, too"
assert VALUE_ITEMS_MAX < SNAPSHOT_ITEMS_MAX
assert PAGE_ITEMS_MAX * 32 < VALUE_ITEMS_MAX, "a page of items with their fields is one value"
assert FRAME_BYTES_BEFORE_LOGIN < CONTROL_BYTES_MAX < FRAME_BYTES_MAX
assert 2 * 16 * HELD_RANGES_MAX + KIB < CONTROL_BYTES_MAX, "what a consumer keeps and what is finished are one answer"
assert STAGES_PER_COMMIT_MAX * (DESTINATION_NAME_BYTES_MAX + 128) < CONTROL_BYTES_MAX, "a largest commit is one frame"
assert BLOCK_BYTES_MAX + 2 * KIB < COMMAND_BYTES_MAX and CONTROL_BYTES_MAX < COMMAND_BYTES_MAX
assert RANGES_PER_FRAME_SENT <= RANGES_PER_FRAME_MAX
assert CLIENT_BATCH_BYTES <= PRODUCER_WINDOW_BYTES < SEGMENT_BYTES_DEFAULT // 2
assert CLIENT_WAITING_BYTES_MAX <= STAGE_WAITING_BYTES_MAX
assert PRODUCER_WINDOW_BYTES_MIN <= PRODUCER_WINDOW_BYTES <= PRODUCER_WINDOWS_BYTES_MAX
assert RANGE_BUFFER_BYTES_MIN < RANGE_BUFFER_BYTES < RANGE_BUFFER_BYTES_MAX < OUTBOUND_BYTES_MAX
assert PROPERTIES_MAX < CLIENT_COLUMNS_MAX < BATCH_COLUMNS_MAX
assert DESTINATIONS_MAX <= PAGES_MAX * PAGE_ITEMS_MAX, "all destinations can be listed"
assert 6 * STAGES_PER_COMMIT_MAX < VALUE_ITEMS_MAX, "a request names each stage by a map of up to five values"
assert STAGES_PER_COMMIT_MAX <= STAGES_PER_DESTINATION_MAX, "what was staged can be committed"
assert STAGE_SECONDS_DEFAULT <= STAGE_SECONDS_MAX <= CLAIM_MEMORY_SECONDS < EPOCH_MEMORY_SECONDS, (
    "who can still commit is still known"
)
assert PREFETCH_DEFAULT <= PREFETCH_MAX <= DELIVERY_RESERVE_MESSAGES
assert WORK_PER_RUN <= INBOX_COMMANDS_MAX
assert DRAIN_RANGES_PER_TAKE < DRAIN_RANGES_PER_ANSWER and 4 * DRAIN_RANGES_PER_ANSWER < VALUE_ITEMS_MAX
assert SEGMENT_BYTES_MIN < SEGMENT_BYTES_DEFAULT <= SNAPSHOT_EVERY_BYTES
assert SEGMENT_BYTES_DEFAULT <= SEGMENT_BYTES_MAX < 1 << 32, "positions in a segment are u32"
assert READ_GAP_BYTES_MAX < READ_BYTES_MAX and READ_AHEAD_BYTES <= RANGE_READ_BYTES
assert 2 * RANGE_READS * RANGE_READ_BYTES < CACHE_BYTES_DEFAULT, "what is read ahead must not push out itself"
assert HEARTBEAT_SECONDS_MIN < HEARTBEAT_SECONDS and RECONNECT_PAUSE_SECONDS_FIRST < RECONNECT_PAUSE_SECONDS_MAX
assert STARTS_KEPT_MAX < 1 << 8, "a count in a life is u8"
assert COPIES_MAX <= GROUP_MEMBERS_MAX
assert GROUP_MEMBERS_MAX < GROUP_VOTERS_MAX < 1 << 16, "counts of replicas are u16"
assert ORDER_ENTRIES_MAX <= FETCH_ENTRIES_MAX <= UNCOMMITTED_ENTRIES_MAX < 1 << 16
assert ORDER_BYTES_MAX <= FETCH_BYTES_MAX and SNAPSHOT_CHUNK_BYTES < FETCH_BYTES_MAX
assert RECORD_BYTES_MAX < SEGMENT_BYTES_DEFAULT // 2, "a largest record must fit a segment"
assert RECORD_BYTES_MAX + 4 * KIB < BUS_MESSAGE_BYTES_MAX, "a FETCHED with a largest record must fit the bus"
assert FETCH_BYTES_MAX + 16 * FETCH_ENTRIES_MAX < BUS_MESSAGE_BYTES_MAX
assert RECORD_BYTES_MAX < GROUP_TAIL_BYTES and BUS_MESSAGE_BYTES_MAX < LINK_BYTES_WAITING_MAX
assert BLOCK_BYTES_MAX < DATA_POOL_BYTES, "a largest block may wait for its ORDER"
assert RELINK_SECONDS_MIN < LINK_ANSWER_SECONDS < LINK_ANSWER_SECONDS_MAX < SESSION_GRACE_SECONDS
assert COMMANDS_PER_MESSAGE_MAX < 1 << 16 and ERROR_TEXT_BYTES_MAX < 1 << 16, "both are counted by a u16"
assert BUS_MESSAGE_BYTES_MAX + 16 * DELIVERED_BYTES_PER_RUN < BUS_OUTBOX_BYTES_MAX, "what one pump may deliver"
assert 16 * HELD_RANGES_MAX + 128 * KIB < BUS_MESSAGE_BYTES_MAX, "a consumer that resumes must fit the bus"
assert GROUPS_MAX <= NAME_SLOTS, "each group keeps some names"
assert ACKNOWLEDGE_WITHIN_SECONDS < SESSION_GRACE_SECONDS < LEASE_SECONDS < PRODUCER_SILENCE_SECONDS
assert BUS_DATAGRAM_BYTES_MIN < BUS_DATAGRAM_BYTES_MAX <= BUS_BURST_BYTES_MAX < 1 << 16, "what UDP over IPv4 carries"
assert BUS_MEMBERS_MAX * 8 + 160 < BUS_DATAGRAM_BYTES_MIN, "a heartbeat with all members is one datagram"
assert BUS_NAK_RANGES_MAX * 16 + 128 < BUS_DATAGRAM_BYTES_MIN, "a request for what is missing is one datagram"
assert BUS_BURST_BYTES_MAX < BUS_WINDOW_BYTES_MIN < BUS_WINDOW_BYTES < BUS_SOCKET_BUFFER_BYTES
assert 2 * BUS_ACKNOWLEDGE_BYTES <= BUS_WINDOW_BYTES and 2 * BUS_ACKNOWLEDGE_PACKETS <= BUS_WINDOW_PACKETS
assert (
    BUS_WINDOW_PACKETS & (BUS_WINDOW_PACKETS - 1) == 0 == BUS_CONTROL_WINDOW_PACKETS & (BUS_CONTROL_WINDOW_PACKETS - 1)
)
assert BUS_CONTROL_MESSAGE_BYTES_MAX * 4 <= BUS_CONTROL_WINDOW_BYTES < BUS_WINDOW_BYTES
assert BUS_MESSAGE_BYTES_MAX < 1 << 30, "the length of a chunk has 30 bits"
assert BUS_DOWN_SECONDS <= TOPIC_HOLD_SECONDS < SESSION_GRACE_SECONDS, "who is gone is known to be gone by then"
assert CLUSTER_SECRET_BYTES >= BUS_SECRET_BYTES_MIN
assert BUS_NAK_SECONDS < BUS_RESEND_REPEAT_SECONDS < BUS_NAK_RETRY_SECONDS_MIN / 2
assert BUS_NAK_RETRY_SECONDS_MIN < BUS_NAK_RETRY_SECONDS < BUS_NAK_RETRY_SECONDS_MAX
assert BUS_ACKNOWLEDGE_SECONDS < BUS_PROMPT_SECONDS < BUS_HEARTBEAT_SECONDS
assert 2 * BUS_HEARTBEAT_SECONDS < BUS_SUSPECT_SECONDS < BUS_DOWN_SECONDS < SESSION_GRACE_SECONDS
