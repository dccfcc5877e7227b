"""The data source `brokertwin` in PySpark and Spark SQL: checkpoints, snapshots and topics."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo

from brokertwin import tables
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted
from brokertwin.state.groups import offset_records
from brokertwin.streaming.checkpoint import snapshots
from brokertwin.streaming.live import tables as live_tables
from brokertwin.tables.query import spark_source
from tests.support.live import rows_in_state, sorted_rows
from tests.support.made_checkpoints import made
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZERO_ID = "A" * 22
RUN, LIVE = ROOT / "checkpoints.example" / "run", ROOT / "checkpoints.example" / "live"


@pytest.fixture
def session(spark: "SparkSession") -> "SparkSession":
    tables.register(spark)
    return spark


@pytest.fixture
def pushing(spark: "SparkSession") -> Iterator["SparkSession"]:
    tables.register(spark, push_filters=True)
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def frame(spark: "SparkSession", path: Path, table: str, **options: str) -> "DataFrame":
    return spark.read.format("brokertwin").options(table=table, **options).load(str(path))


def in_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(each, default=str, sort_keys=True) for each in rows)


def collected(found: "DataFrame") -> list[str]:
    return in_order(each.asDict(recursive=True) for each in found.collect())


def expected(state: tables.Tables, table: str) -> list[str]:
    """The rows of `tables.read`; Spark's sessions here have UTC, so its times have no zone."""
    found = state.arrow(table)
    maps = {field.name for field in found.schema if pa.types.is_map(field.type)}
    rows = [
        {name: dict(value) if name in maps else value for name, value in row.items()}
        for row in found.to_pylist()
    ]
    return [each.replace('+00:00"', '"') for each in in_order(rows)]


def test_every_table_of_a_checkpoint_has_the_rows_of_query(session: "SparkSession") -> None:
    state = tables.read(RUN)
    for name in state.names:
        assert collected(frame(session, RUN, name)) == expected(state, name), name
    assert frame(session, RUN, "logs").rdd.getNumPartitions() == len(state.cells)
    assert state.arrow("members").num_rows and state.arrow("producer_batches").num_rows


def test_every_table_of_a_live_audit_has_the_rows_that_spark_itself_reads(
    session: "SparkSession",
) -> None:
    state = tables.read(LIVE)
    assert state.names == [each.name for each in live_tables.TABLES]
    for table in live_tables.TABLES:
        rows = [each.asDict(recursive=True) for each in frame(session, LIVE, table.name).collect()]
        in_state = [table.in_state(each) for each in rows]
        assert sorted_rows(in_state) == rows_in_state(session, LIVE, table), table.name
        assert sorted_rows(state.arrow(table.name).to_pylist()) == sorted_rows(rows)


CONDITIONS = {
    "logs": (
        "partition = 0 and topic like 'or%'",
        "not partition = 0 or topic like '%ines'",
        "topic like '%s' and cell like '%us%' and partition >= 0",
        "cell = 'nobody'",
        "partition > 0 and partition < 2 and not topic in ('orders', null)",
    ),
    "members": (
        "groupInstanceId is null",
        "groupInstanceId = 'i'",
        "not groupInstanceId = 'i'",
        "groupInstanceId in ('i', null)",
        "groupInstanceId <=> null and groupId in ('modern', 'other') and memberEpoch <= 1",
        "memberEpoch < 0 or memberEpoch > 0",
    ),
    "sessions": (
        "isPrivileged",
        "not isPrivileged and creationMs > timestamp '2020-01-01 00:00:00' and epoch > 0",
        "creationMs is not null and clientId is not null",
    ),
}


@pytest.mark.parametrize("table", CONDITIONS)
def test_filters_select_the_same_rows_where_they_are_pushed_down(
    pushing: "SparkSession", table: str
) -> None:
    whole = frame(pushing, RUN, table)
    local = pushing.createDataFrame(whole.collect(), whole.schema)
    numbers = []
    for condition in CONDITIONS[table]:
        actual = collected(frame(pushing, RUN, table).where(condition))
        assert actual == collected(local.where(condition)), condition
        numbers.append(len(actual))
    assert len(set(numbers)) > 1


def test_a_filter_of_one_query_does_not_stay_for_the_next(session: "SparkSession") -> None:
    whole = frame(session, RUN, "topics")
    assert whole.where("topic = 'orders'").count() == 1 < whole.count()


def test_a_filter_of_cells_leaves_the_files_of_other_cells_unread(pushing: "SparkSession") -> None:
    assert frame(pushing, RUN, "topics").where("cell = 'quiet'").rdd.getNumPartitions() == 1
    reader = spark_source.StateReader(RUN, "topics", None, ["cell", "topic"])
    cell, partition = EqualTo(("cell",), "quiet"), EqualTo(("partitions",), 2)
    configs = EqualTo(("configs", "a"), "1")
    assert list(reader.push([cell, configs, partition])) == [configs]
    (part,) = reader.partitions()
    assert list(reader.read(part)) == [("quiet", "orders")]


def test_tables_of_spark_sql(session: "SparkSession") -> None:
    for table in ("members", "groups"):
        session.sql(
            f"create or replace temporary view shown_{table} using brokertwin"
            f" options (path '{RUN}', `table` '{table}')"
        )
    found = session.sql(
        "select g.type, m.clientId from shown_groups g join shown_members m using (cell, groupId)"
        " where g.state = 'Stable' order by 1"
    ).collect()
    assert [row.type for row in found] == ["classic", "consumer"]
    comments = {row.col_name: row.comment for row in session.sql("describe shown_groups").collect()}
    assert comments["lowestLag"] == "lowest lag; negative if committed beyond the log end"


def test_a_moment_selects_a_micro_batch(session: "SparkSession") -> None:
    ends = [frame(session, RUN, "logs", asOf=str(batch)) for batch in (3, 5)]
    former, later = (each.where("topic = 'lines'").first() for each in ends)
    assert former is not None and later is not None
    assert former.logEndOffset < later.logEndOffset
    with pytest.raises(PySparkException, match="no state of micro-batch 99"):
        frame(session, RUN, "logs", asOf="99").collect()


def test_snapshots_and_recordings(session: "SparkSession", tmp_path: Path) -> None:
    made(tmp_path / "checkpoint")
    snapshots.take(tmp_path / "checkpoint", tmp_path / "snapshots")
    state = tables.read(tmp_path / "checkpoint")
    for name in ("topics", "waiting", "groups"):
        assert collected(frame(session, tmp_path / "snapshots", name)) == expected(state, name)
    capture = ROOT / "tests" / "captures" / "group_kp.jsonl.gz"
    assert frame(session, capture, "members", asOf="group_kp.jsonl:40").count() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": str(RUN)}, "The option `table` is missing"),
        ({"path": str(RUN), "table": "nothing"}, "There is no table nothing"),
        ({"path": str(LIVE), "table": "findings"}, "no table findings. Use one of sessions, prod"),
        ({"table": "groups"}, "needs the option `path`, or `kafka.bootstrap.servers`"),
    ],
)
def test_wrong_options_are_explained(
    session: "SparkSession", options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        session.read.format("brokertwin").options(**options).load()


@pytest.fixture
def filled(kafka: str) -> dict[str, str]:
    """The options of topics: a job's offsets of the cluster `shop`, and groups of an audit."""
    client = ClientProperties({"bootstrap.servers": kafka})
    prefix = f"source-{uuid.uuid4().hex}"
    names = (f"{prefix}.offsets.shop", f"{prefix}.groups")
    topics.create(topics.admin_client(client), {name: TopicSpec(name, 2) for name in names})
    writer = Producer(topics.writer_configuration(client))
    offsets = [
        offset_records.committed(OffsetCommitted("g", "t", 0, 5, -1, "", 1_000, -1, ZERO_ID)),
        offset_records.committed(OffsetCommitted("g", "t", 0, 7, -1, "m", 2_000, -1, ZERO_ID)),
        offset_records.committed(OffsetCommitted("h", "t", 0, 1, -1, "", 3_000, -1, ZERO_ID)),
        offset_records.deleted(OffsetDeleted("h", "t", 0)),
    ]
    for key, value in (*offsets, (b"foreign", b"row")):
        writer.produce(names[0], value, key, partition=1)
    for members in (1, 2):
        group = {"cluster": "shop", "group_id": "g", "members": members}
        key = msgspec.json.encode({"cluster": "shop", "group_id": "g"})
        writer.produce(names[1], msgspec.json.encode(group), key, partition=0)
    assert writer.flush(PATIENCE_S) == 0
    return {"kafka.bootstrap.servers": kafka, "prefix": prefix}


def test_a_topic_is_read_as_its_newest_rows(
    session: "SparkSession", filled: dict[str, str]
) -> None:
    source = session.read.format("brokertwin").options(**filled)
    found = source.options(table="offsets", cluster="shop").load().where("committedOffset > 1")
    (row,) = found.collect()
    assert (row.cluster, row.groupId, row.committedOffset, row.metadata) == ("shop", "g", 7, "m")
    assert row.commitTimestamp == datetime(1970, 1, 1, 0, 0, 2)  # noqa: DTZ001 - the session's zone
    assert (row.kafka_partition, row.kafka_offset, row.is_tombstone) == (1, 1, False)
    audit = session.read.format("brokertwin").options(**filled)
    (group,) = audit.options(table="groups").load().collect()
    assert (group.group_id, group.members, group.leader) == ("g", 2, None)


def test_a_topic_is_read_as_a_stream_that_goes_on(
    session: "SparkSession", filled: dict[str, str], tmp_path: Path
) -> None:
    seen: list[tuple[Any, ...]] = []

    def keep(rows: "DataFrame", batch: int) -> None:
        seen.extend(
            tuple(row)
            for row in rows.select("groupId", "committedOffset", "is_tombstone")
            .orderBy("kafka_offset")
            .collect()
        )

    def run() -> None:
        source = session.readStream.format("brokertwin").options(**filled)
        rows = source.options(table="offsets", cluster="shop").load()
        sink = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    run()
    assert seen == [("g", 5, False), ("g", 7, False), ("h", 1, False), ("h", None, True)]
    client = ClientProperties({"bootstrap.servers": filled["kafka.bootstrap.servers"]})
    writer = Producer(topics.writer_configuration(client))
    key, value = offset_records.committed(
        OffsetCommitted("g", "t", 1, 9, -1, "", 4_000, -1, ZERO_ID)
    )
    writer.produce(f"{filled['prefix']}.offsets.shop", value, key, partition=0)
    assert writer.flush(PATIENCE_S) == 0
    run()
    assert seen[4:] == [("g", 9, False)]


def test_the_example_of_the_document(
    session: "SparkSession", capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
    result = re.search(r"```python\n(from pyspark.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    assert result is not None
    monkeypatch.chdir(ROOT)
    exec(result[1], {})
    assert capsys.readouterr().out.split() == result[2].split()
