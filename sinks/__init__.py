"""Writers: rows to topics, snapshots of a job, committed offsets in Parquet.

topic_writer        rows to topics
snapshot_store      a directory for each: full state of a micro-batch, with the following
offsets_snapshot    its committed offsets, in Parquet
files               sync and checksum of files
"""

if __name__ != "brokertwin.sinks":
    raise ImportError(f"import brokertwin.sinks: as {__name__!r} its modules would exist twice")
