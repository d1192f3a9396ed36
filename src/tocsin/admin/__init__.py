"""Administration by messages on `_ADMIN`: commands, snapshots of state, configuration, metrics."""
