"""Data checks of a running job's topics and committed offsets."""
