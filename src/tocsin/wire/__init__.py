"""Client <-> client manager: frames, the bounded reader, login.

frames           the format of every frame, on top of the file; how to write and read each
reader           chunks of bytes to frames, bounded by the state of the connection
scram            SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, both roles
decoys           what logins of names show that nobody has
scram_message    its messages: names, values and their escapes
channel_binding  what ties a login to its TLS connection
resume_proof     that a returning client has its token, without showing it
saslprep         user names and passwords in one spelling
"""
