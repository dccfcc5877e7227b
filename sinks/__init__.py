"""Parquet snapshots of committed offsets, and the data checks that they are held against."""
