"""What a topic is set to."""

TEXTS = {
    "segment.bytes": "The size in bytes at which the log of a partition begins a new segment.",
    "segment.ms": (
        "After how many ms the log of a partition begins a new segment though it is not full."
    ),
    "segment.jitter.ms": (
        "By how many ms at most a new segment begins earlier, so that not all partitions begin "
        "one at once."
    ),
    "segment.index.bytes": "The size in bytes of the index of a segment.",
    "flush.messages": "After how many records the log of a partition is written to disk.",
    "flush.ms": "After how many ms at the latest the log of a partition is written to disk.",
    "retention.bytes": "How many bytes of each partition are kept; -1 for all.",
    "retention.ms": "For how many ms records are kept; -1 for ever.",
    "max.message.bytes": "The largest batch in bytes that the topic takes.",
    "index.interval.bytes": "After how many bytes of records the index of offsets gets an entry.",
    "delete.retention.ms": (
        "For how many ms a tombstone stays after a pass of the cleaner has seen it."
    ),
    "min.compaction.lag.ms": "For how many ms a record is safe from the cleaner.",
    "max.compaction.lag.ms": "After how many ms at the latest a record is compacted.",
    "file.delete.delay.ms": "How many ms files stay after they were deleted.",
    "min.cleanable.dirty.ratio": "Which part of a log has to be new before it is cleaned.",
    "cleanup.policy": "What becomes of old records: delete, compact, or both.",
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may lead where nobody else can; records are lost "
        "then."
    ),
    "min.insync.replicas": "How many replicas have to be in sync for a Produce with acks -1.",
    "compression.type": "How batches are compressed in the log; producer keeps them as they came.",
    "compression.gzip.level": "The level at which the broker compresses with gzip.",
    "compression.lz4.level": "The level at which the broker compresses with lz4.",
    "compression.zstd.level": "The level at which the broker compresses with zstd.",
    "preallocate": "Whether the files of a segment get their size when they are made.",
    "message.timestamp.type": (
        "Whose time a record has: its producer's (CreateTime) or that of its append "
        "(LogAppendTime)."
    ),
    "message.timestamp.before.max.ms": (
        "By how many ms a record's timestamp may lie before the broker's clock."
    ),
    "message.timestamp.after.max.ms": (
        "By how many ms a record's timestamp may lie after the broker's clock."
    ),
    "leader.replication.throttled.replicas": (
        "Whose copying leaders throttle, each replica as partition:broker; * for all."
    ),
    "follower.replication.throttled.replicas": (
        "Which followers throttle their copying, each replica as partition:broker; * for all."
    ),
    "remote.storage.enable": "Whether old segments go to remote storage.",
    "local.retention.ms": (
        "For how many ms records that lie in remote storage stay on local disks, too."
    ),
    "local.retention.bytes": "How many bytes that lie in remote storage stay on local disks, too.",
    "remote.log.copy.disable": "Whether nothing more is copied to remote storage.",
    "remote.log.delete.on.disable": (
        "Whether what lies in remote storage goes when the topic no longer uses it."
    ),
    "internal.segment.bytes": "The size in bytes of segments; for tests.",
}
