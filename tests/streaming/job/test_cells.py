"""A cluster in several cells, through a real Spark and a real Kafka broker."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.placement import cells_of
from brokertwin.settings import load
from brokertwin.state.cell.between_cells import Count
from brokertwin.state.core import outputs
from brokertwin.state.core.events import BETWEEN_CELLS
from brokertwin.state.core.settings import BrokerSettings, cluster_of
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.log import Log
from brokertwin.streaming.checkpoint import checkpoint_log, resharding, snapshots, state_reader
from brokertwin.streaming.checkpoint.restore import RestoreTarget, restore
from brokertwin.streaming.job import job, runner
from brokertwin.streaming.job.stage import cell_settings
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import ItemKind
from tests.support.jobs import JobBench
from tests.support.machine import header

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = ("a.1", "a.2", "a.3")
"""The cells of brokers [1, 2, 3]; the first one has the controller."""

TIMEOUT_MS = 600_000


def request(event_id: str, key: int, version: int, broker: int, body: dict[str, Any]) -> bytes:
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
    event = {"id": event_id, "cluster": "a", "broker": broker, "nonce": event_id}
    return msgspec.json.encode({**event, "requestHeader": header, "request": body})


def creation(broker: int) -> bytes:
    topic = {"name": "orders", "numPartitions": 3, "replicationFactor": 3}
    return request("create", 19, 7, broker, {"topics": [topic], "timeoutMs": TIMEOUT_MS})


def append(event_id: str, broker: int) -> bytes:
    """A batch for each partition, of which the broker leads one; acknowledged by all replicas."""
    data = [{"index": index, "batches": [header()]} for index in range(3)]
    topics = [{"name": "orders", "partitionData": data}]
    body = {"acks": -1, "timeoutMs": TIMEOUT_MS, "topicData": topics}
    return request(event_id, 0, 9, broker, body)


def producer_id(event_id: str, broker: int) -> bytes:
    body = {"transactionalId": None, "transactionTimeoutMs": 1000}
    return request(event_id, 22, 4, broker, body)


class Cluster:
    """A job of one cluster in three cells."""

    def __init__(self, kafka: str, spark: "SparkSession", directory: Path) -> None:
        self.bench = JobBench(kafka, directory, brokers="3", cells=3)
        self._spark = spark

    def send(self, requests: dict[int, list[bytes]]) -> None:
        for broker, documents in requests.items():
            self.bench.produce(documents, CELLS[broker - 1].encode())

    def run(self, stop: runner.StopReason | None = None) -> None:
        """Runs until all cells are quiet, or for a micro-batch where `stop` is given."""
        observe = (lambda _: stop.wanted.set()) if stop is not None else (lambda _: None)
        assert self.bench.run(self._spark, stop, observe).is_clean

    def forget_last_commit(self) -> None:
        """As if the job had died between the rows of a micro-batch and its commit."""
        commits = self.bench.checkpoint / "commits"
        newest = checkpoint_log.committed(self.bench.checkpoint)
        (commits / str(newest)).unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)

    def responses(self) -> dict[str, Any]:
        """What clients were answered, by the request's id."""
        documents = self.bench.documents(outputs.RESPONSES)
        return {document["id"]: document["response"] for document in documents}

    def reported(self) -> list[dict[str, Any]]:
        rows = [msgspec.json.decode(row.value or b"") for row in self.bench.all_rows("requests")]
        return [row for row in rows if row.get("kind") in BETWEEN_CELLS]

    def tables(self) -> dict[str, CellTables]:
        cells = state_reader.read_cells(self.bench.checkpoint)
        return {name: CellTables(columns) for name, columns in cells.items()}


def errors_of_appends(response: dict[str, Any]) -> list[int]:
    (topic,) = response["responses"]
    return sorted(partition["errorCode"] for partition in topic["partitionResponses"])


@pytest.mark.spark
@pytest.mark.kafka
def test_brokers_of_three_cells_are_one_cluster(
    kafka: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """A topic, producer ids and replicated appends; rows between cells come twice."""
    cluster = Cluster(kafka, spark, tmp_path)
    cluster.send({3: [creation(3)], 2: [producer_id("first", 2)]})
    cluster.run(runner.StopReason(60))
    cluster.forget_last_commit()
    cluster.run()
    responses = cluster.responses()
    assert responses["create"]["topics"][0]["errorCode"] == 0
    assert responses["first"]["errorCode"] == 14, "its block is asked for"
    assert max(Counter(row["id"] for row in cluster.reported()).values()) > 1, "no row came twice"

    cluster.send({n: [append(f"p{n}", n), producer_id(f"id{n}", n)] for n in (1, 2, 3)})
    cluster.run()
    responses = cluster.responses()
    assert [errors_of_appends(responses[f"p{n}"]) for n in (1, 2, 3)] == [[0, 6, 6]] * 3
    assert responses["id2"]["producerId"] >= 0
    check(cluster)
    in_one_cell(cluster, spark, tmp_path)


def in_one_cell(cluster: Cluster, spark: "SparkSession", directory: Path) -> None:
    """The same state in one cell: who appends goes on, and all replicas have it."""
    bench = cluster.bench
    shot = snapshots.take(bench.checkpoint, directory / "snapshots")
    topic = f"{bench.prefix}.requests"
    cut = shot.snapshot.source_offsets[topic]
    ends = resharding.quiet_end(bench.client, topic, cut)
    one = restore(shot.path, directory / "one", RestoreTarget(cells=1, offsets=ends))
    assert list(one.facts.groups) == ["a"]
    bench.produce([append("after", 1), producer_id("id-after", 2)], b"a")
    with pytest.raises(UserError, match="2 events after the snapshot"):
        resharding.quiet_end(bench.client, topic, cut)
    before = cluster.responses()
    assert bench.run(spark, checkpoint=directory / "one", cells=1).is_clean
    responses = cluster.responses()
    assert {key: responses[key] for key in before} == before
    after = responses["after"]["responses"][0]["partitionResponses"]
    assert sorted((each["errorCode"], each["baseOffset"]) for each in after)[0] == (0, 1)
    assert responses["id-after"]["producerId"] == before["id2"]["producerId"] + 1
    assert bench.rows(outputs.DEAD_LETTERS) == []
    logs = state_rows.rows(ItemKind.LOGS, state_reader.read_cells(directory / "one"))
    ends_now = [row["logEndOffset"] for row in logs if row["topic"] == "orders"]
    assert sorted(ends_now) == [1] * 6 + [2] * 3


def check(cluster: Cluster) -> None:
    """The job's rows are those of three cells in this process, and the replicas are the same."""
    cluster.bench.assert_live_run_equals_replay(*CELLS)
    assert cluster.bench.rows(outputs.DEAD_LETTERS) == []
    tables = cluster.tables()
    assert sorted(tables) == list(CELLS)
    logs = [
        (broker, log.log_end_offset, log.high_watermark)
        for broker, cell in enumerate(CELLS, 1)
        for _, log in tables[cell].logs.items(f"{broker}/log/", Log)
        if log.topic == "orders"
    ]
    assert sorted(logs) == [(broker, 1, 1) for broker in (1, 2, 3) for _ in range(3)]
    (incarnation,) = {row["incarnation"] for row in cluster.reported()}
    received = tables["a.2"].cluster.get("heard/a.1", Count)
    sent = tables["a.1"].cluster.get("told/a.2", Count)
    assert received == sent
    assert received is not None and received.incarnation == incarnation > 0


def test_a_cluster_has_at_most_one_cell_for_each_broker() -> None:
    assert cells_of("a", 3, [1, 2, 101]) == list(CELLS)
    assert {cluster_of(cell) for cell in (*CELLS, "a")} == {"a"}
    with pytest.raises(UserError, match="4 cells but only 3 brokers"):
        cells_of("a", 4, [1, 2, 101])


@pytest.mark.parametrize(
    ("flags", "broker_settings", "message"),
    [
        ({"event_time": "recorded"}, BrokerSettings(), "recorded"),
        ({}, BrokerSettings(brokertwin_leader_and_isr=True), "leader.and.isr"),
    ],
)
def test_features_that_need_a_single_cell(
    flags: dict[str, Any], broker_settings: BrokerSettings, message: str
) -> None:
    settings = load({"clusters": ("a",), "brokers": "3", "cells": 3, **flags}).settings
    with pytest.raises(UserError, match=message):
        job.placements(settings, broker_settings)


def test_every_cell_has_the_full_cell_list() -> None:
    settings = load({"clusters": ("a",), "brokers": "4", "cells": 3}).settings
    (placed,) = job.placements(settings)
    for cell in CELLS:
        found = cell_settings(placed, BrokerSettings(), cell, 9)
        assert found.cells == {"a.1": [1, 4], "a.2": [2], "a.3": [3]}
        assert found.brokers_here == found.cells[cell]
        assert (found.brokers, found.incarnation) == ([1, 2, 3, 4], 9)
        assert found.has_controller == (cell == "a.1")
