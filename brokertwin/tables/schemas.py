"""Tables of the state, their columns and descriptions.

`brokertwin query` without SQL prints them, docs/query.md lists them (a test compares both), and
the Arrow schemas are built from them. Names are those of `brokertwin state --json`, which are
Kafka's. In a table's name an underscore replaces a hyphen.
"""

from typing import TYPE_CHECKING, NamedTuple

from brokertwin.tables.state_rows import ItemKind

if TYPE_CHECKING:
    import pyarrow as pa

INT, LONG, TEXT, BOOL, TIME = "int", "long", "string", "boolean", "timestamp"
INTS, TEXTS, MAP = "array<int>", "array<string>", "map<string,string>"
"""Types by Spark's names. A timestamp is in UTC, in ms; a missing one is NULL."""

BATCH = "struct<epoch:int,first_sequence:int,last_sequence:int,offset:long,client:string>"
"""A remembered batch of a producer in a live audit."""

DESCRIPTION = b"description"
"""Metadata key of the description of an Arrow field or table."""


class Column(NamedTuple):
    """A column: name, type and description."""

    name: str
    type: str
    what: str


class TableSchema(NamedTuple):
    """A table: kind of items in its rows, description of a row, and columns.

    The kind is an `ItemKind`, or the name of a table of a live audit.
    """

    kind: str
    what: str
    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        return self.kind.replace("-", "_")

    @property
    def ddl(self) -> str:
        """Columns in Spark's DDL, with their descriptions."""
        return ", ".join(
            f"`{each.name}` {each.type} COMMENT '{each.what.replace(chr(39), chr(39) * 2)}'"
            for each in self.columns
        )


CELL = Column("cell", TEXT, "the cell; named like its cluster if that has one cell")
BROKER = Column("broker", INT, "the broker")
TOPIC = Column("topic", TEXT, "topic name, or id of a deleted topic")
PARTITION = Column("partition", INT, "partition number")
TOPIC_ID = Column("topicId", TEXT, "topic id")
GROUP_ID = Column("groupId", TEXT, "group id")
SESSION_ID = Column("sessionId", INT, "fetch session id")
CLIENT_ID = Column("clientId", TEXT, "`client.id`")
PRODUCER_ID = Column("producerId", LONG, "producer id")
PRODUCER_EPOCH = Column("producerEpoch", INT, "newest epoch; lower ones are fenced")
LEADER_EPOCH = Column("leaderEpoch", INT, "leader epoch; -1 for none")
LAST_SEQUENCE = Column("lastSequence", INT, "sequence of the last record; -1 for none")
LAST_OFFSET = Column("lastOffset", LONG, "offset of the last record; -1 for none")
LOG_START = Column("logStartOffset", LONG, "first offset that is not deleted")

TABLES = (
    TableSchema(
        ItemKind.TOPICS,
        "A topic.",
        (
            CELL,
            Column("topic", TEXT, "topic name"),
            TOPIC_ID,
            Column("partitions", INT, "number of partitions"),
            Column("configs", MAP, "topic settings that were set"),
        ),
    ),
    TableSchema(
        ItemKind.PARTITIONS,
        "A partition, as in Metadata.",
        (
            CELL,
            TOPIC,
            PARTITION,
            Column("leader", INT, "leader; -1 for none"),
            LEADER_EPOCH,
            Column("partitionEpoch", INT, "increases with each change"),
            Column("replicas", INTS, "replicas, preferred leader first"),
            Column("isr", INTS, "in-sync replicas"),
            Column("eligibleLeaderReplicas", INTS, "eligible leader replicas (KIP-966)"),
        ),
    ),
    TableSchema(
        ItemKind.LOGS,
        "The log of a replica.",
        (
            CELL,
            BROKER,
            TOPIC,
            PARTITION,
            LEADER_EPOCH,
            LOG_START,
            Column("highWatermark", LONG, "end of what consumers read"),
            Column("lastStableOffset", LONG, "end of what read_committed consumers read"),
            Column("logEndOffset", LONG, "offset of the next record"),
            Column("batches", LONG, "number of record batches"),
            Column("sizeInBytes", LONG, "size of the batches"),
            TOPIC_ID,
        ),
    ),
    TableSchema(
        ItemKind.PRODUCERS,
        "A producer in a partition.",
        (
            CELL,
            BROKER,
            PRODUCER_ID,
            PRODUCER_EPOCH,
            TOPIC,
            PARTITION,
            LAST_SEQUENCE,
            LAST_OFFSET,
            Column("batches", INT, "remembered batches, at most five"),
            Column("lastTimestamp", TIME, "maximum timestamp of the last batch"),
            Column("coordinatorEpoch", INT, "coordinator epoch of the last marker; -1 for none"),
            Column("currentTxnFirstOffset", LONG, "start of the open transaction; -1 for none"),
        ),
    ),
    TableSchema(
        ItemKind.PRODUCER_BATCHES,
        "A remembered batch of a producer, for detecting duplicates.",
        (
            CELL,
            BROKER,
            PRODUCER_ID,
            PRODUCER_EPOCH,
            TOPIC,
            PARTITION,
            Column("firstSequence", INT, "sequence of the first record"),
            LAST_SEQUENCE,
            Column("firstOffset", LONG, "offset of the first record"),
            LAST_OFFSET,
            Column("timestamp", TIME, "maximum timestamp of the batch"),
        ),
    ),
    TableSchema(
        ItemKind.SESSIONS,
        "An incremental fetch session.",
        (
            CELL,
            BROKER,
            SESSION_ID,
            Column("epoch", INT, "expected epoch of the next request"),
            Column("partitions", INT, "number of partitions at the last use"),
            CLIENT_ID,
            Column("isPrivileged", BOOL, "true for a follower, false for a consumer"),
            Column("creationMs", TIME, "creation time"),
            Column("lastUsedMs", TIME, "time of the last use"),
        ),
    ),
    TableSchema(
        ItemKind.SESSION_PARTITIONS,
        "A partition of a fetch session: last request and response.",
        (
            CELL,
            BROKER,
            SESSION_ID,
            TOPIC,
            PARTITION,
            Column("fetchOffset", LONG, "last requested offset"),
            Column("highWatermark", LONG, "in the last response; -1 for none"),
            Column("logStartOffset", LONG, "in the last response; -1 for none"),
            Column("fetcherLogStartOffset", LONG, "of a follower's log; -1 for consumers"),
            Column("currentLeaderEpoch", INT, "leader epoch known to the client; -1 for none"),
            Column("partitionMaxBytes", INT, "requested maximum bytes"),
        ),
    ),
    TableSchema(
        ItemKind.CLIENTS,
        "Fetch sessions of a client id, in total.",
        (
            CELL,
            BROKER,
            CLIENT_ID,
            Column("sessions", INT, "current sessions"),
            Column("partitionsCached", LONG, "partitions in these sessions"),
            Column("evicted", LONG, "evicted sessions of this client"),
            Column("evicting", LONG, "sessions evicted to make room for this client"),
        ),
    ),
    TableSchema(
        ItemKind.GROUPS,
        "A group of any type.",
        (
            CELL,
            Column("broker", INT, "its coordinator; -1 if only ZooKeeper has the group"),
            GROUP_ID,
            Column("type", TEXT, "classic or consumer"),
            Column("state", TEXT, "Empty, PreparingRebalance, Stable, …"),
            Column("protocolType", TEXT, "consumer, connect, …; empty if there are only offsets"),
            Column("generation", INT, "generation, or group epoch (KIP-848)"),
            Column("protocol", TEXT, "assignor"),
            Column("leader", TEXT, "leader of the group; empty if the broker assigns"),
            Column("members", INT, "number of members"),
            Column("offsets", INT, "number of committed offsets"),
            Column("lag", LONG, "sum of the lags of its offsets, or NULL"),
            Column("lowestLag", LONG, "lowest lag; negative if committed beyond the log end"),
        ),
    ),
    TableSchema(
        ItemKind.MEMBERS,
        "A member of a group.",
        (
            CELL,
            BROKER,
            GROUP_ID,
            Column("memberId", TEXT, "member id"),
            Column("groupInstanceId", TEXT, "`group.instance.id`, or NULL"),
            Column("memberEpoch", INT, "member epoch (KIP-848); -1 in a classic group"),
            CLIENT_ID,
            Column("clientHost", TEXT, "host of the client"),
            Column("rebalanceTimeoutMs", INT, "rebalance timeout"),
        ),
    ),
    TableSchema(
        ItemKind.OFFSETS,
        "A committed offset.",
        (
            CELL,
            GROUP_ID,
            TOPIC,
            PARTITION,
            Column("committedOffset", LONG, "offset of the next record to read"),
            LEADER_EPOCH,
            Column("metadata", TEXT, "metadata of the commit"),
            Column("commitTimestamp", TIME, "commit time"),
            Column("expireTimestamp", TIME, "expiry time, if the commit set one"),
            Column("lag", LONG, "log end less offset; negative beyond it; NULL without a leader"),
        ),
    ),
    TableSchema(
        ItemKind.TRANSACTIONAL_IDS,
        "A transactional id.",
        (
            CELL,
            BROKER,
            Column("transactionalId", TEXT, "transactional id"),
            PRODUCER_ID,
            Column("producerEpoch", INT, "newest epoch"),
            Column("state", TEXT, "Empty, Ongoing, PrepareCommit, CompleteCommit, …"),
            Column("partitions", TEXTS, "partitions of the open transaction"),
            Column("transactionStartTimestamp", TIME, "start of the open transaction"),
            Column("transactionTimeoutMs", INT, "transaction timeout"),
            Column("lastUpdateTimestamp", TIME, "time of the last change"),
        ),
    ),
    TableSchema(
        ItemKind.WAITING,
        "A pending request.",
        (
            CELL,
            Column("id", TEXT, "event id"),
            BROKER,
            Column("api", TEXT, "FETCH, PRODUCE, JOIN_GROUP, …"),
            Column("deadline", TIME, "latest time of the response"),
            Column("logs", INT, "number of logs that it waits for"),
            CLIENT_ID,
            Column("connection", TEXT, "connection"),
        ),
    ),
    TableSchema(
        ItemKind.REPLICAS,
        "A follower as its leader knows it.",
        (
            CELL,
            Column("broker", INT, "the leader"),
            TOPIC,
            PARTITION,
            Column("replica", INT, "the follower"),
            Column("isInSync", BOOL, "it is in the in-sync set"),
            Column("logEndOffset", LONG, "its log end; -1 before its first fetch"),
            Column("lag", LONG, "leader's log end less its log end, or NULL"),
            Column("lastFetchTimestamp", TIME, "its last fetch"),
            Column("lastCaughtUpTimestamp", TIME, "the last time at which it had all records"),
        ),
    ),
    TableSchema(
        ItemKind.FETCHERS,
        "A partition that a running broker copies.",
        (
            CELL,
            BROKER,
            Column("thread", TEXT, "thread; empty before its first fetch"),
            Column("leader", INT, "the broker that it fetches from"),
            TOPIC,
            PARTITION,
            Column("fetchOffset", LONG, "offset of the next record to fetch"),
            LEADER_EPOCH,
        ),
    ),
    TableSchema(
        ItemKind.ZOOKEEPER,
        "A ZooKeeper node: a committed offset (`brokertwin.offset.storage`), or the last block of"
        " producer ids (`brokertwin.zk.producer.id.blocks`).",
        (
            CELL,
            Column("path", TEXT, "path of the node"),
            Column("data", TEXT, "its content"),
            Column("version", INT, "version of the block; null for offsets"),
        ),
    ),
)
"""In display order."""

BY_NAME = {table.name: table for table in TABLES}


def arrow_schema(table: TableSchema) -> "pa.Schema":
    """Return the table's Arrow schema, with descriptions in the metadata."""
    import pyarrow as pa

    types = {
        INT: pa.int32(),
        LONG: pa.int64(),
        TEXT: pa.string(),
        BOOL: pa.bool_(),
        TIME: pa.timestamp("ms", tz="UTC"),
        INTS: pa.list_(pa.int32()),
        TEXTS: pa.list_(pa.string()),
        MAP: pa.map_(pa.string(), pa.string()),
    }
    if BATCH in {column.type for column in table.columns}:
        types[BATCH] = _batch_type()
    fields = [
        pa.field(column.name, types[column.type], metadata={DESCRIPTION: column.what})
        for column in table.columns
    ]
    return pa.schema(fields, metadata={DESCRIPTION: table.what})


def _batch_type() -> "pa.StructType":
    import pyarrow as pa

    inner = BATCH.removeprefix("struct<").removesuffix(">").split(",")
    arrow = {INT: pa.int32(), LONG: pa.int64(), TEXT: pa.string()}
    return pa.struct([(name, arrow[kind]) for name, kind in (each.split(":") for each in inner)])
