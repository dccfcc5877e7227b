"""The Python data source `brokertwin`: the tables of a state in Spark.

    tables.register(spark)
    spark.read.format("brokertwin").option("table", "groups").load("/var/lib/checkpoint")

A cell is a partition; in a checkpoint of a live audit, a shuffle partition is. The streaming
source, and the batch source without a path, read the compacted topics.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from confluent_kafka import TopicPartition
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    TopicRow,
    consumer,
    first_and_end,
    partitions_of,
    read_between,
)
from brokertwin.kafka_io.topics import full_name
from brokertwin.places import place
from brokertwin.sinks import snapshot_store
from brokertwin.state.core.outputs import offsets_topic
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.groups import offset_records
from brokertwin.streaming.checkpoint import facts, state_reader
from brokertwin.streaming.live import stored_rows
from brokertwin.streaming.live import tables as live_tables
from brokertwin.tables import state_rows
from brokertwin.tables.query import reading
from brokertwin.tables.schemas import BOOL, BY_NAME, INT, LONG, TEXT, TIME, Column, TableSchema
from brokertwin.tables.state_rows import ItemKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

Row = Mapping[str, Any]
Test = Callable[[Any], bool | None]
"""A filter of a column's value; None is SQL's unknown."""

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
ACROSS_CELLS = (ItemKind.OFFSETS, ItemKind.GROUPS)
"""Tables whose lags need the logs of all cells of a cluster."""

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
OF_ROW = (
    Column("kafka_partition", INT, "partition of the row"),
    Column("kafka_offset", LONG, "offset of the row"),
    Column("kafka_timestamp", TIME, "timestamp of the row"),
    Column("is_tombstone", BOOL, "the key was deleted; other columns but the key are NULL"),
)
"""Columns of each row of a topic, besides those of its table."""

EARLIEST, LATEST = "earliest", "latest"


def register(session: "SparkSession", push_filters: bool = False) -> None:
    """Register the data source `brokertwin` in a session.

    Args:
        session: the session; on a cluster its executors need brokertwin, too.
        push_filters: drop rows before they reach Spark. Spark 4.1 and 4.2 keep the filters of
            the first query on a frame or view for all later ones, so load a frame for each query.
    """
    if push_filters:
        session.conf.set(PUSHDOWN, "true")
    session.dataSource.register(PushingSource if push_filters else BrokertwinSource)


class BrokertwinSource(DataSource):
    """The data source. Its options are in docs/query.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "brokertwin"

    def schema(self) -> str:
        """Return the columns in Spark's DDL. Raises UserError for wrong options."""
        if "path" in self.options:
            return _table_of(self._path, self._table).ddl
        return self._topic().schema.ddl

    def reader(self, schema: "StructType") -> DataSourceReader:
        names = schema.fieldNames()
        if "path" not in self.options:
            return TopicReader(self._topic(), names)
        make = LiveReader if stored_rows.is_live(self._path) else StateReader
        return make(self._path, self._table, self.options.get("asOf"), names)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a topic's new rows."""
        starting = self.options.get("startingOffsets", EARLIEST)
        if starting not in (EARLIEST, LATEST):
            raise UserError(
                f"Invalid startingOffsets: {starting!r}.", f"Use {EARLIEST} or {LATEST}."
            )
        return TopicStreamReader(self._topic(), schema.fieldNames(), starting)

    @property
    def _path(self) -> Path:
        return place(self.options["path"])

    @property
    def _table(self) -> str:
        if "table" not in self.options:
            raise UserError("The option `table` is missing.", f"Use one of {', '.join(BY_NAME)}.")
        return self.options["table"].replace("-", "_")

    def _topic(self) -> "CompactedTopic":
        if BOOTSTRAP not in self.options or "prefix" not in self.options:
            raise UserError(
                "The source needs the option `path`, or `kafka.bootstrap.servers` and `prefix`.",
                "A path is read in batches alone; a stream reads topics.",
            )
        values = {
            name.removeprefix(KAFKA): value
            for name, value in self.options.items()
            if name.startswith(KAFKA)
        }
        return topic_of(
            ClientProperties(values),
            self.options["prefix"],
            self._table,
            self.options.get("cluster"),
        )


class PushingSource(BrokertwinSource):
    def reader(self, schema: "StructType") -> DataSourceReader:
        reader = super().reader(schema)
        assert isinstance(reader, _FilteringReader)
        return _PushingReader(reader)


def _table_of(path: Path, table: str) -> TableSchema:
    """Return a table's schema. Raises UserError."""
    return reading.table_named(table, reading.LIVE if stored_rows.is_live(path) else BY_NAME)


class _Part(InputPartition):
    """A part of a state: the place, the micro-batch, and a cell or shuffle partition."""

    def __init__(self, path: Path | None, batch: int | None, part: Any) -> None:
        self.path, self.batch, self.part = path, batch, part


class _FilteringReader(DataSourceReader):
    """A reader that drops rows before they are converted.

    Args:
        table: the schema of its rows.
        names: the columns of a row, in order.
    """

    def __init__(self, table: TableSchema, names: Sequence[str]) -> None:
        self.names = names
        self.types = {column.name: column.type for column in table.columns}
        self.tests: list[tuple[str, Filter]] = []

    def push(self, filters: "Iterable[Filter]") -> "Iterator[Filter]":
        """Keep the filters of one column with a plain type; yield the others."""
        for each in filters:
            column = _column_of(each)
            if self.types.get(column or "") in (INT, LONG, TEXT, BOOL) and predicate_of(each):
                self.tests.append((str(column), each))
            else:
                yield each

    def selected(self, rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that pass the filters, as tuples."""
        tests = [(name, test) for name, each in self.tests if (test := predicate_of(each))]
        passed = (row for row in rows if all(test(row[name]) for name, test in tests))
        return _tuples(passed, self.types, self.names)

    def may_have(self, column: str, value: object) -> bool:
        """Whether rows with a value in a column can pass the filters."""
        tests = (predicate_of(each) for name, each in self.tests if name == column)
        return all(test(value) for test in tests if test)


class _PushingReader(DataSourceReader):
    def __init__(self, reader: _FilteringReader) -> None:
        self.reader = reader

    def pushFilters(self, filters: "list[Filter]") -> "Iterator[Filter]":  # noqa: N802
        """Keep the filters that the reader can apply; yield the others."""
        return self.reader.push(filters)

    def partitions(self) -> "Sequence[InputPartition]":
        return self.reader.partitions()

    def read(self, partition: InputPartition) -> Any:
        return self.reader.read(partition)


def _tuples(
    rows: Iterable[Row], types: Mapping[str, str], names: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of rows in the order of the names; times as datetimes."""
    for row in rows:
        yield tuple(_time(row[each]) if types[each] == TIME else row[each] for each in names)


def _time(ms: int | None) -> datetime | None:
    return None if ms is None or ms < 0 else datetime.fromtimestamp(ms / 1000, UTC)


class StateReader(_FilteringReader):
    """The reader of a job's checkpoint, a snapshot, or another source of `tables.read`."""

    def __init__(self, path: Path, table: str, as_of: str | None, names: Sequence[str]) -> None:
        super().__init__(_table_of(path, table), names)
        self.path, self.as_of = path, as_of
        self.kind = ItemKind(BY_NAME[table].kind)

    def partitions(self) -> list[InputPartition]:
        """Return a part for each cell that the filters allow; all tasks read one micro-batch."""
        path, batch = self.path, None
        job_facts = facts.read(path) if path.is_dir() else None
        if job_facts is not None:
            cells = list(job_facts.groups)
            batch = reading.batch_of(path, reading.moment_of(self.as_of, UTC))
        elif path.is_dir() and reading.is_snapshots(path):
            path = reading.snapshot_at(path, reading.moment_of(self.as_of, UTC))
            cells = list(snapshot_store.manifest(path).cells)
        else:
            return [_Part(None, None, None)]
        kept = [cell for cell in cells if self.may_have("cell", cell)]
        return [_Part(path, batch, cell) for cell in kept] or [_Part(path, batch, "")]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, _Part)
        path, batch, cell = partition.path, partition.batch, partition.part
        if path is None:
            tables = reading.read(self.path, as_of=self.as_of)
            return self.selected(iter(tables.rows(self.kind.replace("-", "_"))))
        cell_list = None if self.kind in ACROSS_CELLS else [cell]
        if batch is not None:
            job_facts = facts.read(path)
            assert job_facts is not None
            same = [each for each in job_facts.groups if cluster_of(each) == cluster_of(cell)]
            cells: reading.Cells = state_reader.read_cells(path, batch, only=cell_list or same)
        else:
            cells = reading.read(path).cells
            cells = {n: each for n, each in cells.items() if cell_list is None or n in cell_list}
        rows = state_rows.rows(self.kind, cells)
        return self.selected(row for row in rows if row["cell"] == cell)


class LiveReader(_FilteringReader):
    """The reader of a live audit's checkpoint."""

    def __init__(self, path: Path, table: str, as_of: str | None, names: Sequence[str]) -> None:
        super().__init__(_table_of(path, table), names)
        self.path, self.table, self.as_of = path, live_tables.BY_NAME[table], as_of

    def partitions(self) -> list[InputPartition]:
        """Return the shuffle partitions of one micro-batch."""
        batch = reading.batch_of(self.path, reading.moment_of(self.as_of, UTC))
        count = reading.stores_of(self.path, batch)
        return [_Part(self.path, batch, number) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, _Part) and partition.batch is not None
        rows = reading.live_rows(self.path, self.table, partition.batch, partition.part)
        return self.selected(rows)


class CompactedTopic(NamedTuple):
    """A topic whose rows are those of a table.

    Attributes:
        client: the connection to Kafka.
        schema: the columns of its rows.
        cluster: of a job's offsets; None for a live audit.
    """

    client: ClientProperties
    name: str
    schema: TableSchema
    cluster: str | None

    def row(self, row: TopicRow) -> Row | None:
        """Return the columns of a row; None for a foreign one."""
        try:
            if self.cluster is None:
                document = msgspec.json.decode(row.value or row.key or b"")
                named = {each.name: document.get(each.name) for each in self.schema.columns}
            else:
                named = _job_offset(self.cluster, row)
        except (ValueError, AttributeError):
            return None
        own = (row.partition, row.offset, row.timestamp, row.value is None)
        return named | dict(zip((each.name for each in OF_ROW), own, strict=True))

    def ends(self) -> dict[int, tuple[int, int]]:
        count = partitions_of(self.client, self.name)
        with closing(consumer(self.client)) as reader:
            return {n: first_and_end(reader, TopicPartition(self.name, n)) for n in range(count)}

    def read(self, partition: int, first: int, end: int) -> Iterator[TopicRow]:
        return read_between(self.client, self.name, {partition: first}, {partition: end})


def _job_offset(cluster: str, row: TopicRow) -> dict[str, Any]:
    """Return the columns of a row of `offsets.<cluster>`. Raises ValueError."""
    key = offset_records.decode_key(row.key or b"")
    if key is None:
        raise ValueError("not the key of an offset")
    value = offset_records.decode_value(row.value) if row.value is not None else None
    return {
        "cluster": cluster,
        "groupId": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "committedOffset": value.offset if value else None,
        "leaderEpoch": value.leader_epoch if value else None,
        "metadata": value.metadata if value else None,
        "commitTimestamp": value.commit_timestamp if value else None,
        "expireTimestamp": value.expire_timestamp if value else None,
    }


def topic_of(
    client: ClientProperties, prefix: str, table: str, cluster: str | None
) -> CompactedTopic:
    """Return the topic of a table.

    Args:
        client: the connection to Kafka.
        prefix: of the topics of a job or a live audit.
        table: `offsets` of a job, or a table of a live audit.
        cluster: the cluster of a job; None for a live audit.

    Raises:
        UserError: there is no topic of this table.
    """
    if cluster is None:
        with_topics = {
            name: schema
            for name, schema in reading.LIVE.items()
            if live_tables.BY_NAME[name].has_topic
        }
        schema = reading.table_named(table, with_topics)
        columns = (*schema.columns, *OF_ROW)
        return CompactedTopic(
            client, full_name(prefix, table), TableSchema(table, "", columns), None
        )
    offsets = BY_NAME["offsets"]
    reading.table_named(table, {"offsets": offsets})
    own = [each for each in offsets.columns if each.name not in ("cell", "lag")]
    columns = (Column("cluster", TEXT, "the cluster"), *own, *OF_ROW)
    name = full_name(prefix, offsets_topic(cluster))
    return CompactedTopic(client, name, TableSchema("offsets", "", columns), cluster)


class TopicReader(_FilteringReader):
    """The reader of a topic as its compaction would leave it: the newest row of each key."""

    def __init__(self, topic: CompactedTopic, names: Sequence[str]) -> None:
        super().__init__(topic.schema, names)
        self.topic = topic

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of offsets at this moment; a key is in one partition."""
        return _ranges({n: (first, end) for n, (first, end) in self.topic.ends().items()})

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the newest rows, without tombstones."""
        newest: dict[bytes | None, TopicRow] = {}
        for row in self.topic.read(*partition.value):
            newest[row.key] = row
        rows = (self.topic.row(row) for row in newest.values() if row.value is not None)
        return self.selected(row for row in rows if row is not None)


class TopicStreamReader(DataSourceStreamReader):
    """The reader of a topic's rows in their order, with tombstones."""

    def __init__(self, topic: CompactedTopic, names: Sequence[str], starting: str) -> None:
        self.topic, self.names, self.starting = topic, names, starting

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        at = 1 if self.starting == LATEST else 0
        return {str(number): bounds[at] for number, bounds in self.topic.ends().items()}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override] # noqa: N802
        return {str(number): end for number, (_, end) in self.topic.ends().items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _ranges({int(n): (start.get(n, 0), end[n]) for n in end})

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a range; foreign ones are left out."""
        types = {column.name: column.type for column in self.topic.schema.columns}
        rows = (self.topic.row(row) for row in self.topic.read(*partition.value))
        return _tuples((row for row in rows if row is not None), types, self.names)


def _ranges(bounds: Mapping[int, tuple[int, int]]) -> list[InputPartition]:
    return [InputPartition((number, *bound)) for number, bound in bounds.items()]


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}


def predicate_of(pushed: "Filter") -> Test | None:
    """Return a filter as a function of its column's value; None for one of another kind.

    As in SQL, a comparison with NULL is neither true nor false.
    """
    kind, given = type(pushed).__name__, getattr(pushed, "value", None)
    if kind == "Not":
        inner = predicate_of(pushed.child)  # type: ignore[attr-defined]
        return inner and (lambda value: None if (found := inner(value)) is None else not found)
    if kind == "IsNull":
        return lambda value: value is None
    if kind == "IsNotNull":
        return lambda value: value is not None
    if kind == "EqualNullSafe":
        return lambda value: bool(value == given)
    if kind == "In":
        values = tuple(given or ())
        return lambda value: None if value is None else value in values or _unknown(values)
    compare = _COMPARED.get(kind)
    if compare is None or given is None:
        return None
    return lambda value: None if value is None else compare(value, given)


def _unknown(values: Sequence[object]) -> bool | None:
    """The result of IN without a match: unknown if the list has NULL."""
    return None if None in values else False


def _column_of(pushed: "Filter") -> str | None:
    """Return the column of a filter; None for a field of a struct."""
    while hasattr(pushed, "child"):
        pushed = pushed.child
    path: Sequence[str] = getattr(pushed, "attribute", ())
    return path[0] if len(path) == 1 else None
