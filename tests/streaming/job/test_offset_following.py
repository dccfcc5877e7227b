"""A real Kafka's committed offsets as a stream beside a job: nothing missing, nothing twice."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.cli.options import client_of
from brokertwin.errors import UserError
from brokertwin.offsets.history import CoordinatorRow
from brokertwin.offsets.store import HistoryError, OffsetHistoryStore
from brokertwin.state.groups.group_records import ClassicRow, OffsetRow, decode
from brokertwin.streaming.job import offset_following
from brokertwin.streaming.job.offset_following import Following
from tests.faults.processes import stopped
from tests.support.commits import commit
from tests.support.patience import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def committed(store: OffsetHistoryStore, group: str) -> list[int]:
    """The offsets of a group in a directory, in their order."""
    if store.facts() is None:
        return []
    rows = [decode(row.key, row.value) for row in store.rows()]
    return [
        row.value.offset
        for row in rows
        if isinstance(row, OffsetRow) and row.key.group == group and row.value is not None
    ]


def _row(row: CoordinatorRow) -> object:
    return decode(row.key, row.value)


def assert_it_ends_while_the_cluster_stands_still(
    kafka: str, begin: Callable[[], "StreamingQuery"]
) -> None:
    """Spark's consumer waits for it, whoever interrupts that."""
    warnings: list[str] = []
    begun: list[StreamingQuery] = []
    query = Following(lambda: begun.append(begin()) or begun[0], warnings.append)
    query.look()
    wait_until(lambda: begun[0].recentProgress != [])
    port = int(kafka.rpartition(":")[2])
    listening = [each for each in psutil.net_connections("tcp") if each.status == "LISTEN"]
    pid = next(each.pid for each in listening if each.laddr.port == port)
    with stopped([psutil.Process(pid)]):
        wait_until(lambda: all(is_at_work(begun[0]) for _ in range(5)))
        query.stop()
    (warning,) = warnings
    assert "its cluster did not respond" in warning


def is_at_work(query: "StreamingQuery") -> bool:
    time.sleep(0.1)
    return bool(query.status["isTriggerActive"])


@pytest.mark.spark
@pytest.mark.kafka
def test_commits_are_written_once_however_the_query_ends(
    kafka: str, spark: "SparkSession", tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    topic = f"followed-{token_hex(4)}"
    one, another = f"{topic}-a", f"{topic}-b"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=PATIENCE_S)
    store = OffsetHistoryStore(tmp_path)
    client = client_of(kafka, None)
    begin = partial(offset_following.start, spark, client, store, "200 milliseconds")
    warnings: list[str] = []
    for number in range(5):
        commit(kafka, one, topic, number)
    query = Following(begin, warnings.append)
    query.look()
    wait_until(lambda: committed(store, one) == [0, 1, 2, 3, 4])
    commit(kafka, another, topic, 7)
    wait_until(lambda: committed(store, another) == [7])
    query.stop()

    commit(kafka, one, topic, 9)
    again = Following(begin, warnings.append)
    again.look()
    wait_until(lambda: committed(store, one) == [0, 1, 2, 3, 4, 9])
    again.stop()
    assert warnings == []
    places = [(row.partition, row.offset) for row in store.rows()]
    assert len(places) == len(set(places))
    groups = {row.key.group for row in map(_row, store.rows()) if isinstance(row, OffsetRow)}
    assert {one, another} <= groups
    spark_groups = [
        row.group
        for row in map(_row, store.rows())
        if isinstance(row, ClassicRow) and row.group.startswith("spark-kafka-source")
    ]
    assert spark_groups == [], "following joins no group of the cluster"
    assert_it_ends_while_the_cluster_stands_still(kafka, begin)

    other = OffsetHistoryStore(tmp_path / "other")
    other.add("another", [], {})
    with pytest.raises(HistoryError, match="not of"):
        offset_following.start(spark, client, other)


def test_a_query_that_cannot_start_is_reported_and_retried() -> None:
    calls: list[int] = []

    def begin() -> None:
        calls.append(1)
        raise UserError("Kafka at nowhere:1 does not answer.")

    warnings: list[str] = []
    query = Following(begin, warnings.append)  # type: ignore[arg-type]
    query.look()
    query.look()
    query.stop()
    assert len(calls) == len(warnings) == 1
    assert "The job continues." in warnings[0]
