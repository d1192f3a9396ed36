"""A cluster whose nodes are processes of this machine.

directory   where it lives: its configuration, its nodes' folders, who runs
processes   a node as a process: start, signal, whether it still runs
status      what the nodes say of themselves, put together
remote      the same of a cluster on other machines, from one of its client managers
unclean     leading a group without the members that were in sync
rebuild     new votes for a group that has lost them
view        the same for eyes, once or live
"""
