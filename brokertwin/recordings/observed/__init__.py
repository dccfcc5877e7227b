"""The replication of a recorded cluster, and a page with plots of it."""
