"""Checkpoints, snapshots and recordings as tables, and SQL over them."""
