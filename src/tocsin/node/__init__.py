"""The composition root: builds a server's machines from its configuration and the ports they need.

config           all settings of one server, from defaults, a file and the command line
setting_checks   what a setting may hold
"""
