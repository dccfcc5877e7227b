"""Dead letters of share groups (KIP-1191); the exam's `v4_4_dead_letters…` are recorded."""

import base64
import re
from typing import Any

import msgspec
import pytest

from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from brokertwin.protocol.kafka_apis import PRODUCE
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision
from brokertwin.state.share.dead_letters import WrittenLetters
from brokertwin.state.share.in_flight import RecordState
from brokertwin.state.share.share_partition import DeadLetters
from tests.support.machine import CLUSTER, header
from tests.support.share_groups import GROUP
from tests.support.share_members import Shared, batch, got

DEAD = "dlq.dead"
LOCK_MS = REQUEST_TIMEOUT_MS = 30_000
TAKES = {"errors.deadletterqueue.group.enable": "true"}
HEADER = re.compile(rb"__dlq\.errors\.(?:offset|message).(\d|Offset[a-z ]+\.)")
REJECTED, UNDELIVERED = (
    "Offset rejected by client.",
    "Offset delivery count exceeded the threshold.",
)


class Letters(Shared):
    """A share group whose records are delivered twice at most, and a topic for the rest."""

    def __init__(
        self,
        named: str = DEAD,
        topic: str = DEAD,
        creates: bool = False,
        brokers: tuple[int, ...] = (1,),
        **configs: str,
    ) -> None:
        given = {
            "errors.deadletterqueue.auto.create.topics.enable": str(creates).lower(),
            "group.share.delivery.count.limit": "2",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
        }
        super().__init__(brokers=brokers, brokertwin_kafka_version="4.4", given=given)
        self.topic(topic, **(configs or TAKES))
        self.name = topic
        config = {"name": "errors.deadletterqueue.topic.name", "configOperation": 0, "value": named}
        group = {"resourceType": 32, "resourceName": GROUP, "configs": [config]}
        self.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [group]})

    def leader(self, topic: str) -> int:
        topics = self.request("METADATA", 12, {"topics": [{"name": topic}]})["topics"]
        return int(topics[0]["partitions"][0]["leaderId"]) if topics[0]["partitions"] else 1

    def written(self) -> list[list[str]]:
        """Return the offset and the message of each dead letter."""
        part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
        topics = [{"topic": self.name, "partitions": [part]}]
        body = {"maxBytes": 100_000, "sessionEpoch": -1, "topics": topics}
        leader = self.leader(self.name)
        response = self.request("FETCH", 12, body, broker=leader)
        batches = response["responses"][0]["partitions"][0].get("batches", [])
        return [
            [text.decode() for text in HEADER.findall(base64.b64decode(each["packed"]))]
            for each in batches
        ]


def test_rejected_and_undelivered_records_become_dead_letters() -> None:
    bench = Letters()
    assert bench.fetch("a") == [(0, 2, 1)]
    assert bench.acknowledge("a", batch(0, 2, 3, 2, 1)) == 0
    assert bench.written() == [["0", REJECTED]]
    assert bench.fetch("a") == [(1, 1, 2)]
    bench.tick(LOCK_MS)
    assert bench.written() == [["0", REJECTED], ["1", UNDELIVERED]]
    assert bench.fetch("b") == []


def test_a_closed_session_returns_records_at_their_last_delivery() -> None:
    bench = Letters()
    assert bench.fetch("a") == [(0, 2, 1)]
    bench.lose("a")
    assert bench.fetch("b") == [(0, 2, 2)]
    bench.lose("b")
    assert bench.written() == [["0", UNDELIVERED, "1", UNDELIVERED, "2", UNDELIVERED]]


@pytest.mark.parametrize(("most", "batches"), [("500", [2, 1]), ("100", []), ("2000", [3])])
def test_dead_letters_are_split_by_the_greatest_batch(most: str, batches: list[int]) -> None:
    bench = Letters(**TAKES, **{"max.message.bytes": most})
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    written = bench.written()
    assert [len(each) // 2 for each in written] == batches
    assert [each for letters in written for each in letters[::2]] == ["0", "1", "2"][: sum(batches)]
    bench.append("foo", {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1})
    assert bench.fetch("b") == [(3, 3, 1)]


@pytest.mark.parametrize(
    ("named", "topic", "configs"),
    [
        ("", DEAD, TAKES),
        ("dlq.none", DEAD, TAKES),
        ("other", "other", TAKES),
        (DEAD, DEAD, {"errors.deadletterqueue.group.enable": "false"}),
        (DEAD, DEAD, {**TAKES, "cleanup.policy": "compact"}),
    ],
    ids=["no topic named", "no such topic", "another prefix", "not enabled", "compacted"],
)
def test_records_are_archived_if_no_dead_letter_can_be_written(
    named: str, topic: str, configs: dict[str, str]
) -> None:
    bench = Letters(named, topic, **configs)
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    assert bench.written() == []
    bench.append("foo", {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1})
    assert bench.fetch("b") == [(3, 3, 1)]


def test_a_missing_topic_is_created_if_brokers_do_so() -> None:
    bench = Letters("dlq.new", creates=True)
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    bench.name = "dlq.new"
    assert bench.written() == [["0", REJECTED, "1", REJECTED, "2", REJECTED]]
    described = bench.request("METADATA", 12, {"topics": [{"name": "dlq.new"}]})["topics"][0]
    assert len(described["partitions"]) == 1


def test_each_dead_letter_is_written_once_if_several_partitions_create_the_topic() -> None:
    bench = Letters("dlq.new", creates=True)
    body = {
        "groupId": GROUP,
        "memberId": "a",
        "maxWaitMs": 0,
        "minBytes": 1,
        "maxRecords": 500,
        "batchSize": 500,
        "forgottenTopicsData": [],
    }

    def fetch(epoch: int, *acknowledged: dict[str, Any]) -> Any:
        for_each = {"acknowledgementBatches": list(acknowledged)}
        places = [{"partitionIndex": number, **for_each} for number in (0, 1)]
        topics = [{"topicId": bench.ids["foo"], "partitions": places}]
        fields = {**body, "shareSessionEpoch": epoch, "topics": topics}
        return got(bench.request("SHARE_FETCH", 2, fields, connection="a"))

    assert fetch(0) == [(0, 2, 1)]
    produced = [{"index": 1, "batches": [header(1)]}]
    topics = [{"name": "foo", "partitionData": produced}]
    bench.request("PRODUCE", 9, {"acks": -1, "topicData": topics})
    assert fetch(1) == [(0, 0, 1)]
    assert fetch(2, batch(0, 0, 3)) == []
    bench.name = "dlq.new"
    assert bench.written() == [["0", REJECTED], ["0", REJECTED]]


@pytest.mark.parametrize(
    ("refused", "ticks_ms", "batches"),
    [
        ((0,), (1_999, 1), [["0", "1"], ["2"]]),
        ((0, 1, 2, 3), (2_000, 4_000, 8_000, 15_999, 1), [["0", "1"], ["2"]]),
        ((0, 1, 2, 3, 4), (2_000, 4_000, 8_000, 16_000, 60_000), []),
        ((1,), (1_999, 1), [["0", "1"], ["2"]]),
    ],
    ids=["once", "four times", "five times", "the second batch"],
)
def test_dead_letters_are_written_again_after_the_leader_has_moved(
    monkeypatch: pytest.MonkeyPatch,
    refused: tuple[int, ...],
    ticks_ms: tuple[int, ...],
    batches: list[list[str]],
) -> None:
    writes = iter(range(100))

    def handle(broker: Any, request: Any) -> Decision:
        if request.is_from_machine and next(writes) in refused:
            topic = TopicProduceResponse(
                partition_responses=[PartitionProduceResponse(index=0, error_code=6)]
            )
            return Decision(response=ProduceResponse(responses=[topic]))
        return built.handle(broker, request)

    bench = Letters(**TAKES, **{"max.message.bytes": "500"})
    built = BUILT[PRODUCE.key]
    monkeypatch.setitem(BUILT, PRODUCE.key, msgspec.structs.replace(built, handle=handle))
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    for ms in ticks_ms:
        assert [letters[::2] for letters in bench.written()] != batches or not batches
        bench.tick(ms)
    assert [letters[::2] for letters in bench.written()] == batches
    bench.append("foo", {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1})
    assert bench.fetch("b") == [(3, 3, 1)]


@pytest.mark.parametrize(
    ("end", "start"), [("kill-broker", "start-broker"), ("isolate-broker", "rejoin-broker")]
)
def test_dead_letters_are_written_again_if_their_broker_does_not_respond(
    end: str, start: str
) -> None:
    bench = Letters(brokers=(1, 2, 3))
    bench.settings.may_intervene = True
    topics = ("foo", "__consumer_offsets", "__share_group_state")
    idle = {1, 2, 3}.difference(map(bench.leader, topics))
    move = {"partitionIndex": 0, "replicas": [min(idle)]}
    bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, name=DEAD, **move, timeoutMs=30_000)
    bench.tick(10_000)
    leader = bench.leader(DEAD)
    assert leader in idle

    def go(kind: str) -> None:
        event = {"id": kind, "cluster": CLUSTER, "kind": kind, "broker": leader}
        bench.handle({**event, "time": bench.now})
        assert bench.dead_letters(bench.last) == []

    assert bench.fetch("a") == [(0, 2, 1)]
    go(end)
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    go(start)
    bench.tick(REQUEST_TIMEOUT_MS)
    assert bench.written() == []
    bench.tick(2_000)
    assert [letters[::2] for letters in bench.written()] == [["0", "1", "2"]]


def test_the_context_of_a_former_release_is_about_all_letters() -> None:
    letters = DeadLetters(3, 5, 1, 1)
    context = msgspec.json.encode([("g", "t", 0), letters])
    written = msgspec.json.decode(context, type=WrittenLetters)
    assert written.first <= letters.first
    assert written.last >= letters.last


@pytest.mark.parametrize("named", ["dlq.no topic", "other.new"])
def test_records_are_archived_if_their_topic_cannot_be_created(named: str) -> None:
    bench = Letters(named, creates=True)
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    topics = bench.request("METADATA", 12, {"topics": None})["topics"]
    assert named not in {each["name"] for each in topics}
    bench.append("foo", {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1})
    assert bench.fetch("b") == [(3, 3, 1)]


def test_a_new_leader_writes_the_dead_letters_that_are_due() -> None:
    bench = Letters()
    states = [
        {
            "firstOffset": 0,
            "lastOffset": 1,
            "deliveryState": int(RecordState.ARCHIVING),
            "deliveryCount": 1,
        }
    ]
    part = {"partition": 0, "stateEpoch": -1, "leaderEpoch": -1, "startOffset": 0}
    part |= {"deliveryCompleteCount": 0, "stateBatches": states}
    topics = [{"topicId": bench.ids["foo"], "partitions": [part]}]
    response = bench.request("WRITE_SHARE_GROUP_STATE", 1, {"groupId": GROUP, "topics": topics})
    assert response["results"][0]["partitions"][0]["errorCode"] == 0
    key = bench.cell.tables.shares.keys("1/share-partition/")[0]
    bench.cell.tables.shares.drop(key)
    name = key.split("/", 2)[2]
    pending.set_timer(bench.cell.tables.pending, f"share-lock/1/{name}", None)
    assert bench.fetch("a") == [(2, 2, 1)]
    assert bench.written() == [["0", "1"]]


def test_a_former_level_of_share_version_has_no_dead_letters() -> None:
    bench = Letters()
    update = {"feature": "share.version", "maxVersionLevel": 1, "upgradeType": 2}
    response = bench.request("UPDATE_FEATURES", 2, {"featureUpdates": [update]})
    assert response["errorCode"] == 0
    bench.fetch("a")
    assert bench.acknowledge("a", batch(0, 2, 3)) == 0
    assert bench.written() == []


def test_a_client_cannot_send_a_brokers_batch() -> None:
    bench = Letters()
    own = {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1, "packed": "AA=="}
    assert bench.append(DEAD, own)["errorCode"] == 87
