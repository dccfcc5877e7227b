"""The checkpoint `checkpoints.example/run`: `python -m tests.support.example_checkpoint` writes it.

A job of two clusters. `quiet` has a member of a classic group, one of a consumer group (KIP-848), a
fetch session and an open transaction; `busy` has a producer that goes on. Later micro-batches have
events of `busy` alone, so the row of `quiet` is in the RocksDB snapshot and no changelog after it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.streaming.job import session
from tests.support.jobs import JobBench
from tests.support.machine import START, Bench, header
from tests.support.patience import wait_until
from tests.support.sources import ROOT

PLACE = ROOT / "checkpoints.example" / "run"
PREFIX = "example-run"
QUIET, BUSY = "quiet", "busy"
TRANSACTION = "loader"
FLAGS: dict[str, Any] = {
    "prefix": PREFIX,
    "clusters": (BUSY, QUIET),
    "event_time": "recorded",
    "requests_partitions": 1,
    "shuffle_partitions": 1,
    "max_offsets_per_trigger": 4,
}
SNAPSHOTS = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
}


class RecordingBench(Bench):
    def __init__(self, cluster: str) -> None:
        super().__init__()
        self._cluster = cluster
        self.events: list[bytes] = []

    def handle(self, event: dict[str, Any] | bytes) -> Any:
        assert isinstance(event, dict)
        identity = {"id": f"{self._cluster}-{event['id']}", "cluster": self._cluster}
        self.events.append(msgspec.json.encode({**event, **identity}))
        return super().handle(event)


def quiet() -> RecordingBench:
    """Events of the cluster that keeps everything open."""
    bench = RecordingBench(QUIET)
    topic_id = bench.topic("orders", 2)
    bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["classic", "modern"])
    join = {"groupId": "classic", "protocolType": "consumer", "memberId": ""}
    join |= {"sessionTimeoutMs": 45_000, "rebalanceTimeoutMs": 60_000}
    joining = bench.send("JOIN_GROUP", 3, join, name="range", metadata="", connection="c2")
    bench.tick(3000)
    member = bench.responses[joining]["response"]["memberId"]
    sync = {"groupId": "classic", "generationId": 1, "memberId": member}
    bench.request("SYNC_GROUP", 3, {**sync, "assignments": [{"memberId": member}]})
    beat = {"groupId": "modern", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 60_000}
    beat |= {"subscribedTopicNames": ["orders"], "topicPartitions": []}
    bench.request("CONSUMER_GROUP_HEARTBEAT", 1, beat)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    bench.request("FETCH", 13, partition, sessionEpoch=0, maxWaitMs=0, topicId=topic_id)
    bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[TRANSACTION])
    init = {"transactionalId": TRANSACTION, "transactionTimeoutMs": 900_000}
    init |= {"producerId": -1, "producerEpoch": -1}
    bench.request("INIT_PRODUCER_ID", 4, init)  # fetches a block of producer ids
    producer = bench.request("INIT_PRODUCER_ID", 4, init)
    ids = producer["producerId"], producer["producerEpoch"]
    batch = header(3, *ids, 0, isTransactional=True, maxTimestamp=START)
    [response] = bench.request(
        "PRODUCE", 12, transactionalId=TRANSACTION, acks=-1, name="orders", index=1, batches=[batch]
    )["responses"]
    assert response["partitionResponses"][0]["errorCode"] == 0, response
    return bench


def busy() -> Iterator[bytes]:
    bench = RecordingBench(BUSY)
    bench.topic("lines")
    for number in range(20):
        bench.append("lines", header(1, 9, 0, number))
    yield from bench.events


@contextmanager
def early_snapshots() -> Iterator[None]:
    """Let new Spark sessions upload snapshots of RocksDB after two micro-batches."""
    ours = session._configuration
    session._configuration = lambda *given: {**ours(*given), **SNAPSHOTS}
    try:
        yield
    finally:
        session._configuration = ours


def write(place: Path) -> None:
    with tempfile.TemporaryDirectory() as directory, early_snapshots():
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            job = JobBench(kafka.start(), Path(directory), **FLAGS)
            job.prefix = PREFIX
            spark = session.spark_session(job.settings)
            events = list(busy())
            job.produce(quiet().events, QUIET.encode())
            for some in (events[:9], events[9:]):
                job.produce(some, BUSY.encode())
                assert job.run(spark).is_clean
                wait_until(lambda: any(job.checkpoint.rglob("*.zip")), "no snapshot of RocksDB")
            spark.stop()
        finally:
            kafka.stop()
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(job.checkpoint, place)


if __name__ == "__main__":
    write(PLACE)
