"""A job's checkpoint: reading, snapshots, restore, resharding and garbage collection."""
