"""Client <-> client manager: frames, the bounded reader, login.

frames         the format of every frame, on top of the file; how to write and read each
reader         chunks of bytes to frames, bounded by the state of the connection
scram          SCRAM-SHA-256, both roles
scram_message  its messages: names, values and their escapes
saslprep       user names and passwords in one spelling
"""
