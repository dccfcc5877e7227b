"""Snapshots of a job, histories of committed offsets, and the data checks of both.

snapshot_store      a directory for each: the full state of a micro-batch, and what is in it below
offsets_snapshot    its committed offsets, in Parquet
offset_history      the rows of a real cluster's committed offsets, as they lie there
pasted_offsets      committed offsets in the output of Kafka's tools and of kcat
offset_moves        who moved which of them, in one Parquet file
files               what they have in common
checks              great-expectations over these
suites              what must hold
data_docs           great-expectations' page, without the network
"""
