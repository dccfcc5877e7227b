"""Commands for committed offsets of a real cluster."""
