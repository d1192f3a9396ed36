"""A cluster whose nodes are processes of this machine.

directory   where it lives: its configuration, its nodes' folders, who runs
processes   a node as a process: start, signal, whether it still runs
status      what the nodes say of themselves, put together
view        the same for eyes, once or live
"""
