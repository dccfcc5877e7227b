"""Timeouts of requests to a share coordinator on another broker."""

from typing import Any

import pytest

from tests.support.machine import CLUSTER, header
from tests.support.share_groups import GROUP, ShareBench

PATIENCE_MS = 30_000
"""`request.timeout.ms`, after which a broker gives up."""

TOPIC = "many"
SHARE = 2
UNAVAILABLE = 15


class Cut(ShareBench):
    """A partition on broker 1 whose share coordinator is broker 2."""

    def __init__(self) -> None:
        super().__init__(brokers=(1, 2), offsets_topic_num_partitions=1)
        self.settings.may_intervene = True
        self.ids[TOPIC] = self.topic(TOPIC, 12)
        coordinator = self.coordinator(0, GROUP)
        self.request("FIND_COORDINATOR", 6, {"keyType": SHARE, "coordinatorKeys": [self.key(0)]})
        self.beat("m", 0, TOPIC, broker=coordinator)
        reported = self.request("METADATA", 12, {"topics": [{"name": TOPIC}]})["topics"][0]
        leaders = {each["partitionIndex"]: each["leaderId"] for each in reported["partitions"]}
        self.partition = next(
            each
            for each, leader in leaders.items()
            if leader == 1 and self.coordinator(SHARE, self.key(each)) == 2
        )

    def key(self, partition: int) -> str:
        return f"{GROUP}:{self.ids[TOPIC]}:{partition}"

    def coordinator(self, kind: int, key: str) -> int:
        request = {"keyType": kind, "coordinatorKeys": [key]}
        return int(self.request("FIND_COORDINATOR", 6, request)["coordinators"][0]["nodeId"])

    def cut(self) -> None:
        """Make broker 2 unreachable."""
        event = {"id": "cut", "cluster": CLUSTER, "kind": "isolate-broker", "broker": 2}
        self.handle({**event, "time": self.now})

    def fetch(self, epoch: int, wait_ms: int, *given: Any) -> Any:
        """Return the partition in the response; None while pending."""
        place = {"partitionIndex": self.partition, "acknowledgementBatches": list(given)}
        body = {"groupId": GROUP, "memberId": "m", "shareSessionEpoch": epoch}
        body |= {
            "forgottenTopicsData": [],
            "maxWaitMs": wait_ms,
            "minBytes": 1,
            "maxRecords": 500,
            "batchSize": 500,
        }
        body["topics"] = [{"topicId": self.ids[TOPIC], "partitions": [place]}]
        return self.request("SHARE_FETCH", 2, body, id=f"f{epoch}")

    def responded_after(self, epoch: int) -> int:
        """Return the time in ms until a pending fetch gets its response."""
        start = self.now
        while f"f{epoch}" not in self.responses:
            self.tick(1_000)
            assert self.now < start + 10 * PATIENCE_MS
        return self.now - start


@pytest.fixture
def bench() -> Cut:
    made = Cut()
    made.fetch(0, 0)
    return made


@pytest.mark.parametrize("wait_ms", [0, 500, 2 * PATIENCE_MS])
def test_acknowledgement_that_cannot_be_written_gets_a_response_in_time(
    bench: Cut, wait_ms: int
) -> None:
    bench.append(TOPIC, header(3), partition=bench.partition, acks=1)
    assert bench.fetch(1, 0)["responses"][0]["partitions"][0]["acquiredRecords"]
    bench.append(TOPIC, header(3), partition=bench.partition, acks=1)
    bench.cut()
    fields = {"firstOffset": 0, "lastOffset": 2, "acknowledgeTypes": [1]}
    assert bench.fetch(2, wait_ms, fields) is None
    assert bench.responded_after(2) == PATIENCE_MS
    (topic,) = bench.responses["f2"]["response"]["responses"]
    assert topic["partitions"][0]["acknowledgeErrorCode"] == UNAVAILABLE


@pytest.mark.parametrize("wait_ms", [0, 500])
def test_loading_a_state_may_take_longer_than_max_wait(wait_ms: int) -> None:
    bench = Cut()
    bench.cut()
    assert bench.fetch(0, wait_ms) is None
    assert bench.responded_after(0) == PATIENCE_MS


def test_leader_of_a_new_epoch_starts_with_the_share_coordinators_state(bench: Cut) -> None:
    """Locks belong to the leader epoch in which they began."""
    bench.append(TOPIC, header(3), partition=bench.partition)
    bench.fetch(1, 0)
    bench.fetch(2, 0, {"firstOffset": 0, "lastOffset": 0, "acknowledgeTypes": [1]})
    for leader in (2, 1):
        replicas = [{"partitionIndex": bench.partition, "replicas": [leader]}]
        body = {"timeoutMs": 1_000, "topics": [{"name": TOPIC, "partitions": replicas}]}
        bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body)
        bench.tick(1_000)
    bench.fetch(3, 100)
    bench.responded_after(3)
    (topic,) = bench.responses["f3"]["response"]["responses"]
    (result,) = topic["partitions"][0]["acquiredRecords"]
    assert result == {"firstOffset": 1, "lastOffset": 2, "deliveryCount": 1}
