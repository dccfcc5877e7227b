"""What coordinators of groups and transactions are set to, and what single groups are."""

TEXTS = {
    "group.consumer.assignors": (
        "The assignors of consumer groups, the first of them for who names none."
    ),
    "group.consumer.max.size": "How many members a consumer group may have.",
    "group.consumer.migration.policy": (
        "Whether classic groups become consumer groups when members say so, and the other way "
        "round."
    ),
    "group.consumer.regex.refresh.interval.ms": (
        "How often, in ms, it is looked which topics a regular expression stands for."
    ),
    "group.coordinator.append.linger.ms": (
        "For how many ms a coordinator of groups collects records before it writes them; -1 by "
        "load."
    ),
    "group.coordinator.background.threads": (
        "How many threads do the work of a coordinator of groups that no request waits for."
    ),
    "group.coordinator.cached.buffer.max.bytes": (
        "The largest buffer in bytes that a coordinator of groups keeps for the next append."
    ),
    "group.coordinator.rebalance.protocols": "The kinds of groups that are coordinated.",
    "group.coordinator.threads": "How many threads a coordinator of groups has.",
    "group.initial.rebalance.delay.ms": (
        "How many ms the first rebalance of an empty classic group waits for more members."
    ),
    "group.max.session.timeout.ms": (
        "The longest session in ms that a member of a classic group may ask for."
    ),
    "group.max.size": "How many members a classic group may have.",
    "group.min.session.timeout.ms": (
        "The shortest session in ms that a member of a classic group may ask for."
    ),
    "group.share.assignors": "The assignors of share groups.",
    "group.share.delivery.count.limit": (
        "How many times a record is delivered to a share group before it is given up."
    ),
    "group.share.initialize.retry.interval.ms": (
        "After how many ms a share coordinator that has not answered is asked again."
    ),
    "group.share.max.delivery.count.limit": (
        "The greatest limit of deliveries that a share group may be given."
    ),
    "group.share.max.partition.max.record.locks": (
        "The most records in flight of a partition that a share group may be given."
    ),
    "group.share.max.record.lock.duration.ms": (
        "The longest lock in ms that a share group may be given."
    ),
    "group.share.max.share.sessions": "How many share sessions a broker keeps at once.",
    "group.share.max.size": "How many members a share group may have.",
    "group.share.min.delivery.count.limit": (
        "The least limit of deliveries that a share group may be given."
    ),
    "group.share.min.partition.max.record.locks": (
        "The fewest records in flight of a partition that a share group may be given."
    ),
    "group.share.min.record.lock.duration.ms": (
        "The shortest lock in ms that a share group may be given."
    ),
    "group.share.partition.max.record.locks": (
        "How many records of a partition may be in flight in a share group."
    ),
    "group.share.persister.class.name": "The class that keeps the state of share groups.",
    "group.share.record.lock.duration.ms": (
        "For how many ms a record is one member's of a share group before others get it."
    ),
    "group.streams.initial.rebalance.delay.ms": (
        "How many ms the first assignment of an empty streams group waits for more members."
    ),
    "group.streams.max.size": "How many members a streams group may have.",
    "group.streams.max.standby.replicas": (
        "The most standby copies of a task that a streams group may be given."
    ),
    "group.streams.num.standby.replicas": "How many standby copies of a task a streams group has.",
    "offset.metadata.max.bytes": "The longest text in bytes that a committed offset may carry.",
    "offsets.commit.timeout.ms": "How many ms a commit waits until enough replicas have it.",
    "offsets.load.buffer.size": "How many bytes are read at once when offsets are loaded.",
    "offsets.retention.check.interval.ms": (
        "How often, in ms, it is looked for committed offsets that are too old."
    ),
    "offsets.retention.minutes": (
        "For how many minutes offsets are kept of a group without members, or that nobody reads "
        "any more."
    ),
    "offsets.topic.compression.codec": (
        "How batches of __consumer_offsets are compressed, as a number."
    ),
    "offsets.topic.num.partitions": "How many partitions __consumer_offsets is made with.",
    "offsets.topic.replication.factor": "How many replicas __consumer_offsets is made with.",
    "offsets.topic.segment.bytes": "The size in bytes of segments of __consumer_offsets.",
    "producer.id.expiration.check.interval.ms": (
        "How often, in ms, it is looked for producers of which nothing was heard."
    ),
    "producer.id.expiration.ms": (
        "For how many ms a partition remembers a producer after its last batch."
    ),
    "share.coordinator.append.linger.ms": (
        "For how many ms a share coordinator collects records before it writes them; -1 by load."
    ),
    "share.coordinator.cached.buffer.max.bytes": (
        "The largest buffer in bytes that a share coordinator keeps for the next append."
    ),
    "share.coordinator.cold.partition.snapshot.interval.ms": (
        "After how many ms a partition of a share group that rests gets a snapshot."
    ),
    "share.coordinator.load.buffer.size": (
        "How many bytes are read at once when the state of share groups is loaded."
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        "After how many updates a share coordinator writes a snapshot."
    ),
    "share.coordinator.state.topic.compression.codec": (
        "How batches of __share_group_state are compressed, as a number."
    ),
    "share.coordinator.state.topic.min.isr": "The min.insync.replicas of __share_group_state.",
    "share.coordinator.state.topic.num.partitions": (
        "How many partitions __share_group_state is made with."
    ),
    "share.coordinator.state.topic.prune.interval.ms": (
        "How often, in ms, what nobody needs of __share_group_state is deleted."
    ),
    "share.coordinator.state.topic.replication.factor": (
        "How many replicas __share_group_state is made with."
    ),
    "share.coordinator.state.topic.segment.bytes": (
        "The size in bytes of segments of __share_group_state."
    ),
    "share.coordinator.threads": "How many threads a share coordinator has.",
    "share.coordinator.write.timeout.ms": (
        "How many ms a share coordinator waits until enough replicas have its records."
    ),
    "share.fetch.purgatory.purge.interval.requests": (
        "After how many ShareFetches that were answered the list of those that wait is tidied."
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often, in ms, it is looked for transactions that are open for too long."
    ),
    "transaction.max.timeout.ms": (
        "The longest time-out in ms that a transactional producer may ask for."
    ),
    "transaction.partition.verification.enable": (
        "Whether a broker asks the coordinator whether a partition is part of a transaction."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often, in ms, it is looked for transactional ids that nobody uses."
    ),
    "transaction.state.log.load.buffer.size": (
        "How many bytes are read at once when transactions are loaded."
    ),
    "transaction.state.log.min.isr": "The min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "How many partitions __transaction_state is made with.",
    "transaction.state.log.replication.factor": (
        "How many replicas __transaction_state is made with."
    ),
    "transaction.state.log.segment.bytes": "The size in bytes of segments of __transaction_state.",
    "transaction.two.phase.commit.enable": (
        "Whether producers may have transactions without a time-out, for two-phase commits."
    ),
    "transactional.id.expiration.ms": (
        "For how many ms a transactional id is remembered after its last transaction."
    ),
    "share.record.lock.duration.ms": (
        "For how many ms a record is one member's before others get it."
    ),
    "share.delivery.count.limit": "How many times a record is delivered before it is given up.",
    "share.partition.max.record.locks": "How many records of a partition may be in flight.",
    "share.auto.offset.reset": (
        "Where the group begins: earliest, latest, or by_duration: and a duration."
    ),
    "share.isolation.level": (
        "Whether the group gets records of transactions that are open or were aborted."
    ),
    "share.renew.acknowledge.enable": "Whether members may renew the lock of a record.",
    "streams.num.standby.replicas": "How many standby copies of a task the group has.",
    "streams.initial.rebalance.delay.ms": (
        "How many ms the first assignment of the empty group waits for more members."
    ),
    "metrics": "The metrics that clients are to push, by the beginnings of their names; * for all.",
    "interval.ms": "How often, in ms, clients are to push metrics.",
    "match": "The clients that are to push metrics, each as a property and a regular expression.",
}
