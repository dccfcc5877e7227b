"""Every table of the state, its columns, and what they mean: the one place that says so.

`brokertwin query` without SQL prints it, docs/query.md repeats it (a test compares), and the
Arrow schemas are made of it. Names are those of `brokertwin state --json`, which are Kafka's.
In a table's name an underscore stands for a hyphen.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.streaming.state_rows import Kind

if TYPE_CHECKING:
    import pyarrow as pa

INT, LONG, TEXT, BOOL, TIME = "int", "long", "string", "boolean", "timestamp"
INTS, TEXTS, MAP = "array<int>", "array<string>", "map<string,string>"
"""Types by Spark's names. A timestamp is in UTC, of ms; one that there is none of is NULL."""

DESCRIPTION = b"description"
"""The key of a column's meaning in the metadata of its Arrow field, and of its table's."""


class Column(NamedTuple):
    """A column: its name, its type, what it means."""

    name: str
    type: str
    what: str


class Table(NamedTuple):
    """A table: the kind of items that its rows are, what a row is, and its columns."""

    kind: Kind
    what: str
    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self.kind.value.replace("-", "_")


CELL = Column("cell", TEXT, "the cell that has it; a cluster of one cell gives it its name")
BROKER = Column("broker", INT, "the broker that has it")
TOPIC = Column("topic", TEXT, "the topic's name; its id, where it has been deleted")
PARTITION = Column("partition", INT, "the partition's number")
TOPIC_ID = Column("topicId", TEXT, "Kafka's id of the topic")
GROUP_ID = Column("groupId", TEXT, "the group")
SESSION_ID = Column("sessionId", INT, "the fetch session's id")
CLIENT_ID = Column("clientId", TEXT, "the client's `client.id`")
PRODUCER_ID = Column("producerId", LONG, "the producer's id")
PRODUCER_EPOCH = Column("producerEpoch", INT, "its newest epoch; what comes with a lower is fenced")
LEADER_EPOCH = Column("leaderEpoch", INT, "the leader epoch; -1 for none")
LAST_SEQUENCE = Column("lastSequence", INT, "the sequence of the batch's last record; -1 for none")
LAST_OFFSET = Column("lastOffset", LONG, "the offset of the batch's last record; -1 for none")
LOG_START = Column("logStartOffset", LONG, "the first offset that is not deleted")

TABLES = (
    Table(
        Kind.TOPICS,
        "A topic.",
        (
            CELL,
            Column("topic", TEXT, "its name"),
            TOPIC_ID,
            Column("partitions", INT, "how many partitions it has"),
            Column("configs", MAP, "the settings that were given for it"),
        ),
    ),
    Table(
        Kind.PARTITIONS,
        "A partition of a topic, as metadata shows it.",
        (
            CELL,
            TOPIC,
            PARTITION,
            Column("leader", INT, "the broker that leads; -1 for none"),
            LEADER_EPOCH,
            Column("partitionEpoch", INT, "it rises with each change"),
            Column("replicas", INTS, "the brokers with a replica, the preferred leader first"),
            Column("isr", INTS, "those in sync"),
            Column("eligibleLeaderReplicas", INTS, "those that may lead, besides (KIP-966)"),
        ),
    ),
    Table(
        Kind.LOGS,
        "A replica of a partition: its log.",
        (
            CELL,
            BROKER,
            TOPIC,
            PARTITION,
            LEADER_EPOCH,
            LOG_START,
            Column("highWatermark", LONG, "consumers read below it"),
            Column("lastStableOffset", LONG, "with read_committed they read below it"),
            Column("logEndOffset", LONG, "the offset that the next record gets"),
            Column("batches", LONG, "record batches in the log"),
            Column("sizeInBytes", LONG, "their size"),
            TOPIC_ID,
        ),
    ),
    Table(
        Kind.PRODUCERS,
        "What a partition remembers of a producer.",
        (
            CELL,
            BROKER,
            PRODUCER_ID,
            PRODUCER_EPOCH,
            TOPIC,
            PARTITION,
            LAST_SEQUENCE,
            LAST_OFFSET,
            Column("batches", INT, "how many of its last batches are remembered: five at most"),
            Column("lastTimestamp", TIME, "the greatest timestamp of its last batch"),
            Column("coordinatorEpoch", INT, "of its last transaction marker; -1 for none"),
            Column("currentTxnFirstOffset", LONG, "where its open transaction begins; -1: none"),
        ),
    ),
    Table(
        Kind.PRODUCER_BATCHES,
        "A batch that a partition remembers of a producer: by these duplicates are known.",
        (
            CELL,
            BROKER,
            PRODUCER_ID,
            PRODUCER_EPOCH,
            TOPIC,
            PARTITION,
            Column("firstSequence", INT, "the sequence of the batch's first record"),
            LAST_SEQUENCE,
            Column("firstOffset", LONG, "the offset of the batch's first record"),
            LAST_OFFSET,
            Column("timestamp", TIME, "the greatest timestamp in the batch"),
        ),
    ),
    Table(
        Kind.SESSIONS,
        "An incremental fetch session.",
        (
            CELL,
            BROKER,
            SESSION_ID,
            Column("epoch", INT, "the epoch that the next request has to name"),
            Column("partitions", INT, "how many partitions it had when it was last used"),
            CLIENT_ID,
            Column("isPrivileged", BOOL, "whether a broker fetches, not a consumer"),
            Column("creationMs", TIME, "when it was made"),
            Column("lastUsedMs", TIME, "when it was last used"),
        ),
    ),
    Table(
        Kind.SESSION_PARTITIONS,
        "A partition in a fetch session: what was asked, and what the last answer said.",
        (
            CELL,
            BROKER,
            SESSION_ID,
            TOPIC,
            PARTITION,
            Column("fetchOffset", LONG, "the offset that was asked for last"),
            Column("highWatermark", LONG, "as the last answer said; -1 for none"),
            Column("logStartOffset", LONG, "as the last answer said; -1 for none"),
            Column("currentLeaderEpoch", INT, "as the client knows it; -1 for none"),
            Column("partitionMaxBytes", INT, "how many bytes were asked for at most"),
        ),
    ),
    Table(
        Kind.CLIENTS,
        "The fetch sessions of a client id, added up.",
        (
            CELL,
            BROKER,
            CLIENT_ID,
            Column("sessions", INT, "how many it has now"),
            Column("partitionsCached", LONG, "partitions in them"),
            Column("evicted", LONG, "how many of its sessions were evicted"),
            Column("evicting", LONG, "how many sessions were evicted for its new ones"),
        ),
    ),
    Table(
        Kind.GROUPS,
        "A group of any type.",
        (
            CELL,
            BROKER,
            GROUP_ID,
            Column("type", TEXT, "classic or consumer"),
            Column("state", TEXT, "Empty, PreparingRebalance, Stable, …"),
            Column("protocolType", TEXT, "consumer, connect, …; empty for mere offsets"),
            Column("generation", INT, "the generation, or the group epoch (KIP-848)"),
            Column("protocol", TEXT, "the assignor"),
            Column("leader", TEXT, "the member that assigns; empty where the broker does"),
            Column("members", INT, "how many members it has"),
            Column("offsets", INT, "how many offsets it has committed"),
        ),
    ),
    Table(
        Kind.MEMBERS,
        "A member of a group.",
        (
            CELL,
            BROKER,
            GROUP_ID,
            Column("memberId", TEXT, "its id"),
            Column("groupInstanceId", TEXT, "that of a static member, else NULL"),
            Column("memberEpoch", INT, "that of KIP-848; -1 in a classic group"),
            CLIENT_ID,
            Column("clientHost", TEXT, "where it connects from"),
            Column("rebalanceTimeoutMs", INT, "how long a rebalance waits for it"),
        ),
    ),
    Table(
        Kind.OFFSETS,
        "A committed offset.",
        (
            CELL,
            GROUP_ID,
            TOPIC,
            PARTITION,
            Column("committedOffset", LONG, "the offset of the next record to read"),
            LEADER_EPOCH,
            Column("metadata", TEXT, "what the client wrote beside it"),
            Column("commitTimestamp", TIME, "when it was committed"),
            Column("expireTimestamp", TIME, "when it expires, where a commit said so"),
        ),
    ),
    Table(
        Kind.TRANSACTIONAL_IDS,
        "A transactional id.",
        (
            CELL,
            BROKER,
            Column("transactionalId", TEXT, "the id"),
            PRODUCER_ID,
            Column("producerEpoch", INT, "its newest epoch"),
            Column("state", TEXT, "Empty, Ongoing, PrepareCommit, CompleteCommit, …"),
            Column("partitions", TEXTS, "those of the open transaction, as topic-partition"),
            Column("transactionStartTimestamp", TIME, "when the open transaction began"),
            Column("transactionTimeoutMs", INT, "after which it is aborted"),
            Column("lastUpdateTimestamp", TIME, "when this last changed"),
        ),
    ),
    Table(
        Kind.WAITING,
        "A request that waits for its answer.",
        (
            CELL,
            Column("id", TEXT, "the event's id"),
            BROKER,
            Column("api", TEXT, "FETCH, PRODUCE, JOIN_GROUP, …"),
            Column("deadline", TIME, "when it is answered at the latest"),
            Column("logs", INT, "how many logs it waits for"),
            CLIENT_ID,
            Column("connection", TEXT, "the connection that it came over"),
        ),
    ),
)
"""In the order in which they are told."""

BY_NAME = {table.name: table for table in TABLES}


def arrow_schema(table: Table) -> "pa.Schema":
    """The table's Arrow schema; each field has its meaning in its metadata."""
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
    fields = [
        pa.field(column.name, types[column.type], metadata={DESCRIPTION: column.what})
        for column in table.columns
    ]
    return pa.schema(fields, metadata={DESCRIPTION: table.what})


def as_markdown() -> str:
    """The tables as a chapter of docs/query.md."""
    return "\n".join(line for table in TABLES for line in _chapter(table))


def _chapter(table: Table) -> Iterator[str]:
    yield from (f"### {table.name}", "", table.what, "", "| column | type | |", "|---|---|---|")
    yield from (f"| `{each.name}` | {each.type} | {each.what} |" for each in table.columns)
    yield ""
