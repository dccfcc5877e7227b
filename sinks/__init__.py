"""Snapshots of a job, and the data checks that they are held against.

snapshot_store      a directory for each: the full state of a micro-batch, and what is in it below
offsets_snapshot    its committed offsets, in Parquet
files               what both have in common
checks              great-expectations over these
suites              what must hold
data_docs           great-expectations' page, without the network
"""
