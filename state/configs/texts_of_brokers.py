"""What brokers, controllers and their cluster are set to."""

TEXTS = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "The longest time in ms for which a broker goes on asking a coordinator to verify a "
        "partition of a transaction."
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        "The pause in ms before a broker asks a coordinator again to verify a partition of a "
        "transaction."
    ),
    "advertised.listeners": (
        "The addresses that brokers tell clients, where these differ from those that they "
        "listen on."
    ),
    "alter.config.policy.class.name": "A class that may refuse changes of settings.",
    "alter.log.dirs.replication.quota.window.num": (
        "How many samples the rate of moves between log directories is measured over."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "The length in seconds of each sample of the rate of moves between log directories."
    ),
    "auto.create.topics.enable": "Whether a look-up of a topic that does not exist may create it.",
    "auto.leader.rebalance.enable": (
        "Whether leadership goes back to the first replica of each partition from time to time."
    ),
    "background.threads": "How many threads do the work of brokers that no request waits for.",
    "broker.heartbeat.interval.ms": (
        "The time in ms between two heartbeats of a broker to the controller."
    ),
    "broker.id": "The id of the broker in clusters with ZooKeeper.",
    "broker.rack": (
        "The rack, or zone, that the broker is in; replicas are spread over racks, and "
        "consumers may read nearby."
    ),
    "broker.session.timeout.ms": (
        "A broker of which the controller has heard nothing for this many ms is fenced."
    ),
    "client.quota.callback.class": "A class that decides on the quotas of clients.",
    "config.providers": "Names of providers that put values from elsewhere into settings.",
    "connections.max.idle.ms": "A connection on which nothing happens for this many ms is closed.",
    "controlled.shutdown.enable": (
        "Whether a broker that is stopped first hands its partitions to others."
    ),
    "controller.listener.names": "The listeners by which controllers are reached.",
    "controller.performance.always.log.threshold.ms": (
        "An event that takes a controller longer than this many ms is always logged."
    ),
    "controller.performance.sample.period.ms": (
        "How often, in ms, the slowest events of a controller are logged."
    ),
    "controller.quorum.append.linger.ms": (
        "For how many ms the leader of the controllers collects records before it writes them."
    ),
    "controller.quorum.auto.join.enable": "Whether a controller joins the voters by itself.",
    "controller.quorum.bootstrap.servers": "Addresses by which the controllers are found.",
    "controller.quorum.election.backoff.max.ms": (
        "The longest pause in ms after an election of controllers that nobody has won."
    ),
    "controller.quorum.election.timeout.ms": (
        "How many ms a controller waits for votes before it asks for them again."
    ),
    "controller.quorum.fetch.max.bytes": (
        "The most bytes of records that a controller fetches from its leader at once."
    ),
    "controller.quorum.fetch.snapshot.max.bytes": (
        "The most bytes of a snapshot that a controller fetches from its leader at once."
    ),
    "controller.quorum.fetch.timeout.ms": (
        "How many ms a controller waits for its leader before it asks for an election."
    ),
    "controller.quorum.request.timeout.ms": (
        "How many ms a controller waits for the answer of another one."
    ),
    "controller.quorum.retry.backoff.ms": (
        "The pause in ms before a controller asks another one again."
    ),
    "controller.quorum.voters": "The controllers with a vote, each as id@host:port.",
    "controller.quota.window.num": (
        "How many samples the rate of changes to topics is measured over."
    ),
    "controller.quota.window.size.seconds": (
        "The length in seconds of each sample of the rate of changes to topics."
    ),
    "controller.socket.timeout.ms": "How many ms a broker waits on a connection to the controller.",
    "cordoned.log.dirs": "Log directories that get no new partitions.",
    "create.topic.policy.class.name": "A class that may refuse to create topics.",
    "default.replication.factor": "How many replicas a topic has that says nothing of it.",
    "delete.records.purgatory.purge.interval.requests": (
        "After how many DeleteRecords that were answered the list of those that wait is tidied."
    ),
    "delete.topic.enable": "Whether topics can be deleted.",
    "early.start.listeners": "Listeners that are open before the broker has read the metadata.",
    "fetch.max.bytes": (
        "The most bytes that a Fetch is answered with; a first batch that is larger comes all "
        "the same."
    ),
    "fetch.purgatory.purge.interval.requests": (
        "After how many Fetches that were answered the list of those that wait is tidied."
    ),
    "initial.broker.registration.timeout.ms": (
        "How many ms a broker that starts tries to register before it gives up."
    ),
    "inter.broker.listener.name": "The listener by which brokers reach each other.",
    "internal.metadata.delete.delay.millis": (
        "How many ms files of old metadata stay before they are deleted; for tests."
    ),
    "internal.metadata.log.segment.bytes": "The size in bytes of the files of metadata; for tests.",
    "internal.metadata.max.batch.size.in.bytes": (
        "The most bytes of a batch of metadata records; for tests."
    ),
    "kafka.metrics.polling.interval.secs": (
        "How often, in seconds, reporters of the old kind read metrics."
    ),
    "kafka.metrics.reporters": "Reporters of metrics of the old kind.",
    "leader.imbalance.check.interval.seconds": (
        "How often, in seconds, it is looked for partitions that their first replica does not lead."
    ),
    "listener.security.protocol.map": "The security protocol of each listener.",
    "listeners": "The addresses that brokers listen on.",
    "max.connection.creation.rate": "How many connections a second a broker or listener accepts.",
    "max.connections": "How many connections a broker or listener has at once.",
    "max.connections.per.ip": "How many connections a broker has from one address at once.",
    "max.connections.per.ip.overrides": (
        "Other limits of connections for single addresses or hosts."
    ),
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions a broker keeps at once.",
    "max.request.partition.size.limit": (
        "The most partitions that an answer of DescribeTopicPartitions lists."
    ),
    "metadata.log.dir": "The directory of the metadata log, if it is not the first log directory.",
    "metadata.log.max.record.bytes.between.snapshots": (
        "After how many bytes of metadata records a snapshot is taken."
    ),
    "metadata.log.max.snapshot.interval.ms": (
        "After how many ms at the latest a snapshot of the metadata is taken."
    ),
    "metadata.log.segment.bytes": "The size in bytes of the files of the metadata log.",
    "metadata.log.segment.ms": "After how many ms the metadata log begins a new file.",
    "metadata.max.idle.interval.ms": (
        "How often, in ms, the leader of the controllers writes a record where there is nothing "
        "to write."
    ),
    "metadata.max.retention.bytes": (
        "How many bytes of the metadata log and its snapshots are kept."
    ),
    "metadata.max.retention.ms": "For how many ms the metadata log and its snapshots are kept.",
    "metric.reporters": "Classes that report metrics.",
    "metrics.num.samples": "How many samples metrics are computed from.",
    "metrics.recording.level": "How much detail metrics have.",
    "metrics.sample.window.ms": "The length in ms of each sample of metrics.",
    "node.id": "The id of the node in its cluster.",
    "num.io.threads": "How many threads handle requests.",
    "num.network.threads": "How many threads read requests of a listener, and write answers.",
    "num.partitions": "How many partitions a topic has that says nothing of it.",
    "num.recovery.threads.per.data.dir": (
        "How many threads read the logs of a directory when a broker starts or stops."
    ),
    "num.replica.alter.log.dirs.threads": "How many threads move replicas between log directories.",
    "num.replica.fetchers": "How many threads fetch from each leader that a broker follows.",
    "principal.builder.class": "The class that says who is behind a connection.",
    "process.roles": "What the process is: a broker, a controller, or both.",
    "producer.purgatory.purge.interval.requests": (
        "After how many Produces that were answered the list of those that wait is tidied."
    ),
    "queued.max.request.bytes": "How many bytes of requests may wait before nothing more is read.",
    "queued.max.requests": "How many requests may wait before nothing more is read.",
    "quota.window.num": "How many samples the quotas of clients are measured over.",
    "quota.window.size.seconds": "The length in seconds of each sample of the quotas of clients.",
    "replica.fetch.backoff.ms": (
        "The pause in ms after a follower's fetch of a partition has failed."
    ),
    "replica.fetch.max.bytes": (
        "How many bytes of a partition a follower fetches at once; a first batch that is larger "
        "comes all the same."
    ),
    "replica.fetch.min.bytes": (
        "How many bytes there have to be before a follower's fetch is answered."
    ),
    "replica.fetch.response.max.bytes": (
        "How many bytes a follower's fetch is answered with in all."
    ),
    "replica.fetch.wait.max.ms": "How many ms a follower's fetch waits for bytes.",
    "replica.high.watermark.checkpoint.interval.ms": (
        "How often, in ms, a broker writes down its high watermarks."
    ),
    "replica.lag.time.max.ms": (
        "A follower that has not had all of its leader's records for this many ms leaves the "
        "in-sync set."
    ),
    "replica.selector.class": (
        "The class by which a leader tells consumers which replica they had better read."
    ),
    "replica.socket.receive.buffer.bytes": (
        "The receive buffer in bytes of the connections between brokers."
    ),
    "replica.socket.timeout.ms": "How many ms a follower waits for the answer of its leader.",
    "replication.quota.window.num": (
        "How many samples the rate of throttled replication is measured over."
    ),
    "replication.quota.window.size.seconds": (
        "The length in seconds of each sample of the rate of throttled replication."
    ),
    "request.timeout.ms": "How many ms a request of the broker itself waits for its answer.",
    "server.max.startup.time.ms": "How many ms a broker may take to start before it gives up.",
    "socket.connection.setup.timeout.max.ms": (
        "The longest that a connection of the broker's own may take to open, in ms, after some "
        "have failed."
    ),
    "socket.connection.setup.timeout.ms": (
        "How many ms a connection of the broker's own may take to open."
    ),
    "socket.listen.backlog.size": "How many connections may wait to be accepted.",
    "socket.receive.buffer.bytes": (
        "The receive buffer in bytes of connections; -1 for that of the system."
    ),
    "socket.request.max.bytes": "The largest request in bytes that is read.",
    "socket.send.buffer.bytes": (
        "The send buffer in bytes of connections; -1 for that of the system."
    ),
    "telemetry.max.bytes": "The most bytes of metrics that a client may push at once.",
    "unclean.leader.election.interval.ms": (
        "How often, in ms, it is looked for partitions that wait for a leader that is out of sync."
    ),
    "unstable.api.versions.enable": "Whether versions of APIs that are not final are served.",
    "unstable.feature.versions.enable": (
        "Whether levels of features that are not final may be used."
    ),
    "brokertwin.broker.racks": (
        "The racks of brokers, each as id:rack; others are in that of broker.rack."
    ),
    "brokertwin.commit.while.loading": "Whether a coordinator that is loading takes commits.",
    "brokertwin.coordinator.load.ms": (
        "How many ms a coordinator takes to load what it coordinates."
    ),
    "brokertwin.create.offsets.topic": (
        "Whether the first OffsetCommit or OffsetFetch creates the topic of committed offsets."
    ),
    "brokertwin.duplicates.below.expected": (
        "Whether a batch below the expected sequence counts as a duplicate, as in early brokers."
    ),
    "brokertwin.eligible.leader.replicas.version": (
        "The level of the feature eligible.leader.replicas.version (KIP-966)."
    ),
    "brokertwin.fetch.session.cache.shards": (
        "In how many slices the cache of fetch sessions is; 8 in Kafka, 1 in its first version."
    ),
    "brokertwin.forward.offset.fetch": (
        "Whether a broker that does not coordinate a group asks the one that does for its offsets."
    ),
    "brokertwin.internal.logs": (
        "Whether coordinators write to partitions of internal topics with a single replica, too."
    ),
    "brokertwin.isr.by.time.only": (
        "Whether a follower that has all, but is silent, leaves the in-sync set, as in Kafka 0.10."
    ),
    "brokertwin.leader.and.isr": (
        "Whether the controller tells elections by commands, as in the era of ZooKeeper."
    ),
    "brokertwin.missing.offset.error": (
        "Whether a partition without a committed offset is answered with an error."
    ),
    "brokertwin.null.commit.deletes": (
        "Whether a commit of offset -1 with null metadata deletes the committed offset."
    ),
    "brokertwin.offset.age.from.fetch": (
        "Whether an OffsetFetch restarts the retention time of the offsets that it returns."
    ),
    "brokertwin.offset.storage": (
        "Who keeps committed offsets: kafka, or zookeeper as before there was a coordinator."
    ),
    "brokertwin.offset.timestamps": (
        "Whether responses of OffsetFetch have the timestamp of each offset."
    ),
    "brokertwin.reject.unknown.producer": (
        "Whether a producer that is not known is refused where its sequence does not begin at 0."
    ),
    "brokertwin.trace.replication": (
        "Whether brokers log what replication does, as in Kafka 0.10."
    ),
    "brokertwin.transaction.version": "The level of the feature transaction.version (KIP-890).",
    "brokertwin.truncation": (
        "How followers cut their logs: by leader epochs, or at the high watermark as before "
        "Kafka 0.11."
    ),
    "brokertwin.zk.producer.id.blocks": (
        "Whether blocks of producer ids are claimed as in ZooKeeper."
    ),
}
