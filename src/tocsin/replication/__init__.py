"""Primary, backup, catch-up and promotion: how a group keeps one order and loses no message."""
