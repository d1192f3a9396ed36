"""What managers say to each other over the bus.

commands   the commands of a client manager to a message manager group, and the answers
"""
