"""Snapshots of a job, histories of committed offsets, and data checks of both.

snapshot_store      a directory for each: full state of a micro-batch, with the following
offsets_snapshot    its committed offsets, in Parquet
offset_history      rows of a real cluster's `__consumer_offsets`
pasted_offsets      committed offsets in the output of Kafka's tools and of kcat
offset_moves        changes of committed offsets and their causes, in one Parquet file
files               sync and checksum of files
checks              great-expectations on these
suites              expectations of the default suites
data_docs           great-expectations' page without network access
"""
