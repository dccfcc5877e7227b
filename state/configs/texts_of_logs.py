"""What the logs of brokers are set to, and their defaults for topics."""

TEXTS = {
    "compression.gzip.level": "The level at which a broker compresses with gzip.",
    "compression.lz4.level": "The level at which a broker compresses with lz4.",
    "compression.type": "How batches are compressed in the log; producer keeps them as they came.",
    "compression.zstd.level": "The level at which a broker compresses with zstd.",
    "log.cleaner.backoff.ms": "How many ms the cleaner rests where no log is to be cleaned.",
    "log.cleaner.dedupe.buffer.size": (
        "How many bytes of memory the cleaner has for keys, over all its threads."
    ),
    "log.cleaner.delete.retention.ms": (
        "For how many ms a tombstone stays after a pass has seen it, where its topic says nothing."
    ),
    "log.cleaner.enable": "Whether logs of compacted topics are cleaned.",
    "log.cleaner.io.buffer.load.factor": "How full the cleaner's memory of keys may be.",
    "log.cleaner.io.buffer.size": (
        "How many bytes of memory the cleaner reads and writes with, over all its threads."
    ),
    "log.cleaner.io.max.bytes.per.second": "How many bytes a second the cleaner reads and writes.",
    "log.cleaner.max.compaction.lag.ms": (
        "After how many ms at the latest a record is compacted, where its topic says nothing."
    ),
    "log.cleaner.min.cleanable.ratio": (
        "Which part of a log has to be new before it is cleaned, where its topic says nothing."
    ),
    "log.cleaner.min.compaction.lag.ms": (
        "For how many ms a record is safe from the cleaner, where its topic says nothing."
    ),
    "log.cleaner.threads": "How many threads clean logs.",
    "log.cleanup.policy": (
        "What becomes of old records where their topic says nothing: delete, compact, or both."
    ),
    "log.dir": "The directory of the logs, where log.dirs is not given.",
    "log.dir.failure.timeout.ms": (
        "How many ms a broker has to tell the controller of a directory that has failed before "
        "it stops."
    ),
    "log.dirs": "The directories of the logs.",
    "log.flush.interval.messages": (
        "After how many records a log is written to disk, where its topic says nothing."
    ),
    "log.flush.interval.ms": (
        "After how many ms at the latest a log is written to disk, where its topic says nothing."
    ),
    "log.flush.offset.checkpoint.interval.ms": (
        "How often, in ms, it is written down up to where logs are on disk."
    ),
    "log.flush.scheduler.interval.ms": (
        "How often, in ms, it is looked for logs that are to be written to disk."
    ),
    "log.flush.start.offset.checkpoint.interval.ms": (
        "How often, in ms, it is written down where logs start."
    ),
    "log.index.interval.bytes": (
        "After how many bytes of records the index of offsets gets an entry."
    ),
    "log.index.size.max.bytes": "The size in bytes of the index of a segment.",
    "log.initial.task.delay.ms": (
        "How many ms after a broker's start its logs are looked at for the first time."
    ),
    "log.local.retention.bytes": "How many bytes of a tiered partition stay on local disks.",
    "log.local.retention.ms": "For how many ms records of a tiered partition stay on local disks.",
    "log.message.timestamp.after.max.ms": (
        "By how many ms a record's timestamp may lie after the broker's clock."
    ),
    "log.message.timestamp.before.max.ms": (
        "By how many ms a record's timestamp may lie before the broker's clock."
    ),
    "log.message.timestamp.type": (
        "Whose time a record has: its producer's (CreateTime) or that of its append "
        "(LogAppendTime)."
    ),
    "log.preallocate": "Whether the files of a segment get their size when they are made.",
    "log.retention.bytes": "How many bytes of a partition are kept; -1 for all.",
    "log.retention.check.interval.ms": (
        "How often, in ms, it is looked for records that are too old, or too many."
    ),
    "log.retention.hours": (
        "For how many hours records are kept, where neither minutes nor ms are given."
    ),
    "log.retention.minutes": "For how many minutes records are kept, where ms are not given.",
    "log.retention.ms": "For how many ms records are kept; -1 for ever.",
    "log.roll.hours": "After how many hours a log begins a new segment, where ms are not given.",
    "log.roll.jitter.hours": (
        "By how many hours at most a new segment begins earlier, drawn anew each time."
    ),
    "log.roll.jitter.ms": (
        "By how many ms at most a new segment begins earlier, drawn anew each time."
    ),
    "log.roll.ms": "After how many ms a log begins a new segment.",
    "log.segment.bytes": "The size in bytes at which a log begins a new segment.",
    "log.segment.delete.delay.ms": "How many ms the files of a segment stay after it was deleted.",
    "message.max.bytes": "The largest batch in bytes that is taken.",
    "min.insync.replicas": "How many replicas have to be in sync for a Produce with acks -1.",
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may lead where nobody else can; records are lost "
        "then."
    ),
    "remote.fetch.max.wait.ms": "How many ms a Fetch waits for remote storage.",
    "remote.list.offsets.request.timeout.ms": "How many ms a ListOffsets waits for remote storage.",
    "remote.log.index.file.cache.total.size.bytes": (
        "How many bytes of index files of remote storage are kept locally."
    ),
    "remote.log.index.file.cache.ttl.ms": (
        "How many ms an index file of remote storage is kept locally after its last use."
    ),
    "remote.log.manager.copier.thread.pool.size": (
        "How many threads copy segments to remote storage."
    ),
    "remote.log.manager.copy.max.bytes.per.second": (
        "How many bytes a second are copied to remote storage."
    ),
    "remote.log.manager.copy.quota.window.num": (
        "How many samples the rate of copying to remote storage is measured over."
    ),
    "remote.log.manager.copy.quota.window.size.seconds": (
        "The length in seconds of each sample of the rate of copying to remote storage."
    ),
    "remote.log.manager.expiration.thread.pool.size": (
        "How many threads delete expired segments in remote storage."
    ),
    "remote.log.manager.fetch.max.bytes.per.second": (
        "How many bytes a second are read from remote storage."
    ),
    "remote.log.manager.fetch.quota.window.num": (
        "How many samples the rate of reading from remote storage is measured over."
    ),
    "remote.log.manager.fetch.quota.window.size.seconds": (
        "The length in seconds of each sample of the rate of reading from remote storage."
    ),
    "remote.log.manager.follower.thread.pool.size": (
        "How many threads read what followers need of remote storage."
    ),
    "remote.log.manager.task.interval.ms": "How often, in ms, remote storage is looked after.",
    "remote.log.manager.task.retry.backoff.max.ms": (
        "The longest pause in ms before remote storage is tried again."
    ),
    "remote.log.manager.task.retry.backoff.ms": (
        "The first pause in ms before remote storage is tried again."
    ),
    "remote.log.manager.task.retry.jitter": (
        "By which part pauses before remote storage is tried again are varied."
    ),
    "remote.log.manager.thread.pool.size": "How many threads look after remote storage.",
    "remote.log.metadata.custom.metadata.max.bytes": (
        "The most bytes that remote storage may keep of its own with a segment."
    ),
    "remote.log.metadata.manager.class.name": (
        "The class that knows which segments lie in remote storage."
    ),
    "remote.log.metadata.manager.class.path": "Where that class and what it needs is found.",
    "remote.log.metadata.manager.impl.prefix": "How the names of its own settings begin.",
    "remote.log.metadata.manager.listener.name": "The listener by which it reaches the broker.",
    "remote.log.reader.max.pending.tasks": "How many reads of remote storage may wait.",
    "remote.log.reader.threads": "How many threads read from remote storage.",
    "remote.log.storage.manager.class.name": "The class of the remote storage.",
    "remote.log.storage.manager.class.path": "Where that class and what it needs is found.",
    "remote.log.storage.manager.impl.prefix": "How the names of its own settings begin.",
    "remote.log.storage.system.enable": "Whether the broker has remote storage.",
    "follower.fetch.last.tiered.offset.enable": (
        "Whether a new follower begins behind what lies in remote storage."
    ),
}
