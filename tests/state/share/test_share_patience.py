"""A share coordinator on another broker: who fetches waits for it so long, and no longer."""

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
    """A partition that broker 1 leads, and whose share coordinator, 2, can be cut off."""

    def __init__(self) -> None:
        super().__init__(brokers=(1, 2), offsets_topic_num_partitions=1)
        self.settings.may_intervene = True
        self.ids[TOPIC] = self.topic(TOPIC, 12)
        coordinator = self.coordinator(0, GROUP)
        self.request("FIND_COORDINATOR", 6, {"keyType": SHARE, "coordinatorKeys": [self.key(0)]})
        self.beat("m", 0, TOPIC, broker=coordinator)
        told = self.request("METADATA", 12, {"topics": [{"name": TOPIC}]})["topics"][0]
        leaders = {each["partitionIndex"]: each["leaderId"] for each in told["partitions"]}
        self.partition = next(
            each
            for each, leader in leaders.items()
            if leader == 1 and self.coordinator(SHARE, self.key(each)) == 2
        )

    def key(self, partition: int) -> str:
        """What a share partition is named by to who looks for its coordinator."""
        return f"{GROUP}:{self.ids[TOPIC]}:{partition}"

    def coordinator(self, kind: int, key: str) -> int:
        """Who coordinates something."""
        asked = {"keyType": kind, "coordinatorKeys": [key]}
        return int(self.request("FIND_COORDINATOR", 6, asked)["coordinators"][0]["nodeId"])

    def cut(self) -> None:
        """Broker 2 is not reached any more."""
        event = {"id": "cut", "cluster": CLUSTER, "kind": "isolate-broker", "broker": 2}
        self.handle({**event, "time": self.now})

    def fetch(self, epoch: int, wait_ms: int, *said: Any) -> Any:
        """The answer of the partition, None while there is none."""
        place = {"partitionIndex": self.partition, "acknowledgementBatches": list(said)}
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

    def answered_after(self, epoch: int) -> int:
        """How long it takes, in ms, until a fetch that waits is answered."""
        start = self.now
        while f"f{epoch}" not in self.answers:
            self.tick(1_000)
            assert self.now < start + 10 * PATIENCE_MS
        return self.now - start


@pytest.fixture
def bench() -> Cut:
    """Its state has begun."""
    made = Cut()
    made.fetch(0, 0)
    return made


@pytest.mark.parametrize("wait_ms", [0, 500, 2 * PATIENCE_MS])
def test_an_acknowledgement_that_is_not_written_is_answered_in_time(
    bench: Cut, wait_ms: int
) -> None:
    bench.append(TOPIC, header(3), partition=bench.partition, acks=1)
    assert bench.fetch(1, 0)["responses"][0]["partitions"][0]["acquiredRecords"]
    bench.append(TOPIC, header(3), partition=bench.partition, acks=1)
    bench.cut()
    said = {"firstOffset": 0, "lastOffset": 2, "acknowledgeTypes": [1]}
    assert bench.fetch(2, wait_ms, said) is None
    assert bench.answered_after(2) == PATIENCE_MS
    (topic,) = bench.answers["f2"]["response"]["responses"]
    assert topic["partitions"][0]["acknowledgeErrorCode"] == UNAVAILABLE


@pytest.mark.parametrize("wait_ms", [0, 500])
def test_a_state_that_is_not_loaded_is_waited_for_longer_than_max_wait(wait_ms: int) -> None:
    bench = Cut()
    bench.cut()
    assert bench.fetch(0, wait_ms) is None
    assert bench.answered_after(0) == PATIENCE_MS


def test_a_broker_that_leads_again_begins_with_what_the_share_coordinator_knows(bench: Cut) -> None:
    """Locks are of the leader epoch in which they began."""
    bench.append(TOPIC, header(3), partition=bench.partition)
    bench.fetch(1, 0)
    bench.fetch(2, 0, {"firstOffset": 0, "lastOffset": 0, "acknowledgeTypes": [1]})
    for leader in (2, 1):
        replicas = [{"partitionIndex": bench.partition, "replicas": [leader]}]
        body = {"timeoutMs": 1_000, "topics": [{"name": TOPIC, "partitions": replicas}]}
        bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body)
        bench.tick(1_000)
    bench.fetch(3, 100)
    bench.answered_after(3)
    (topic,) = bench.answers["f3"]["response"]["responses"]
    (told,) = topic["partitions"][0]["acquiredRecords"]
    assert told == {"firstOffset": 1, "lastOffset": 2, "deliveryCount": 1}
