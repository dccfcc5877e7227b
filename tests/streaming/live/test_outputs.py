"""Outputs of micro-batches: once, also if Spark repeats one or an older query still runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.streaming.live import finding_files, operator, query
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.outputs import LiveOutputs
from brokertwin.streaming.live.query import LiveQuery
from brokertwin.testing import KafkaBroker
from tests.streaming.live.test_operator import CAPTURE, audited, lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from brokertwin.kafka_io.topic_reader import TopicRow

QUERY, OTHER_QUERY = "one", "other"


def live_query(bootstrap: str, prefix: str, directory: Path) -> LiveQuery:
    """A query whose topics exist."""
    client = ClientProperties({"bootstrap.servers": bootstrap})
    made = LiveQuery(client, prefix, {}, directory, KeyMode.ENTITY, "1 seconds", 2, 100)
    admin = topics.admin_client(client)
    wanted = {made.topic(spec.name): spec for spec in query.specs()}
    topics.create(admin, wanted)
    for name in wanted:
        topics.topic_id(admin, name)
    return made


def rows(live: LiveQuery, name: str) -> "list[TopicRow]":
    return list(read_all(live.client, live.topic(name)))


class Arrow(NamedTuple):
    """The only part of a DataFrame that is used."""

    table: pa.Table

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self.table


def rows_of(documents: list[dict[str, object]]) -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = [
        ("findings", str(each["id"]).encode(), json.dumps(each).encode(), "shop", -1)
        for each in documents
    ]
    return [*made, ("groups", b"g", None, "shop", -1)]


def test_a_repeated_micro_batch_of_spark_is_written_once(
    kafka: str, spark: "SparkSession", tmp_path: Path
) -> None:
    def outputs(rows: list[tuple[object, ...]]) -> "DataFrame":
        return spark.createDataFrame(rows, operator.OUTPUT_SCHEMA)

    check_repeated(kafka, tmp_path, outputs)


def test_a_repeated_micro_batch_is_written_once(tmp_path: Path) -> None:
    names = operator.OutputRow._fields

    def outputs(rows: list[tuple[object, ...]]) -> Any:
        return Arrow(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))

    with KafkaBroker() as broker:
        check_repeated(broker.bootstrap, tmp_path, outputs)


def check_repeated(
    bootstrap: str, tmp_path: Path, outputs: Callable[[list[tuple[object, ...]]], "DataFrame"]
) -> None:
    live = live_query(bootstrap, "repeated", tmp_path / "checkpoint")
    found = audited(lines_of(CAPTURE, None), 1).findings[:3]
    former = LiveOutputs(live, tmp_path)
    former.write(outputs(rows_of(found[:2])), 0, QUERY)
    former.write(outputs(rows_of(found[2:])), 1, QUERY)
    former.write(outputs(rows_of(found[2:])), 1, QUERY)
    again = LiveOutputs(live, tmp_path)
    again.write(outputs(rows_of(found[2:])), 1, QUERY)
    assert [each.value for each in rows(live, "findings")] == [
        json.dumps(each).encode() for each in found
    ]
    assert len(rows(live, "groups")) == 2
    (path,) = (tmp_path / "findings").iterdir()
    assert [row["id"] for row in pq.read_table(path).to_pylist()] == [each["id"] for each in found]
    with pytest.raises(KafkaException):
        former.write(outputs(rows_of(found[2:])), 2, QUERY)
    again.write(outputs(rows_of(found[2:])), 0, OTHER_QUERY)
    LiveOutputs(live, None)  # waits for the markers, which Kafka writes after it answers EndTxn
    assert len(rows(live, "findings")) == 4


def test_findings_are_in_files_of_hours_which_are_deleted_in_time(tmp_path: Path) -> None:
    (found, *_) = audited(lines_of(CAPTURE, None), 1).findings
    day_ms, begin = 86_400_000, 1_800_000_000_000

    def write(query_id: str, batch: int, *days: float) -> list[float]:
        values = [
            json.dumps({**found, "from": str(begin + int(day * day_ms))}).encode() for day in days
        ]
        finding_files.write(tmp_path, query_id, batch, values, kept_days=7)
        paths = sorted((tmp_path / "findings").iterdir())
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        return [(row["from_ms"] - begin) / day_ms for row in rows]

    assert write(QUERY, 0, 0, 0, 1) == [0, 0, 1]
    assert write(QUERY, 1, 0) == [0, 0, 0, 1]
    assert write(QUERY, 1, 0) == [0, 0, 0, 1], "the micro-batch is repeated"
    assert write(OTHER_QUERY, 1, 0) == [0, 0, 0, 0, 1], "a query with another checkpoint"
    assert write(QUERY, 2) == [0, 0, 0, 0, 1]
    assert write(QUERY, 3, 7.5) == [1, 7.5]


def test_a_directory_of_findings_that_does_not_exist_is_created(tmp_path: Path) -> None:
    (found, *_) = audited(lines_of(CAPTURE, None), 1).findings
    directory = tmp_path / "lake" / "live"
    finding_files.write(directory, QUERY, 0, [json.dumps(found).encode()], kept_days=7)
    assert len(list((directory / "findings").iterdir())) == 1
