"""Transactions compared with a real broker: the same requests to both.

Retriable errors (14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR,
19 NOT_ENOUGH_REPLICAS, 51 CONCURRENT_TRANSACTIONS) are not compared: both requests are repeated.
Producer ids are relative to the first one. The errors of a response are compared without order,
because Kafka takes them from hash maps.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from tests.support.batches import numbered
from tests.support.goldens import WRITTEN_MS, Connection, connection_to, tape
from tests.support.machine import header
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.transactions import TransactionBench

Call = Callable[[str, int, dict[str, Any]], dict[str, Any]]

AGAIN = {14, 15, 16, 19, 51}
PAUSE_S = 0.02


def codes(value: Any) -> list[int]:
    """Return all error codes in a response, in order."""
    if isinstance(value, list):
        return [code for part in value for code in codes(part)]
    if not isinstance(value, dict):
        return []
    result = []
    for name, part in value.items():
        result += [part] if name.endswith("rrorCode") else codes(part)
    return result


class Real:
    """A real broker; retriable requests are repeated."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        if api == "Produce":
            body = {**body, "topicData": [_parts(topic, "records") for topic in body["topicData"]]}
        end = time.monotonic() + PATIENCE_S
        while True:
            response = dict(self._connection.call(api, version, body))
            if not AGAIN.intersection(codes(response)):
                return response
            assert time.monotonic() < end, response
            time.sleep(PAUSE_S)


class Ours:
    """A bench; retriable requests are repeated."""

    def __init__(self) -> None:
        self._bench = TransactionBench()

    def __call__(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        name = "".join(f"_{c}" if c.isupper() else c.upper() for c in api).removeprefix("_")
        if api == "Produce":
            body = {**body, "topicData": [_parts(topic, "batches") for topic in body["topicData"]]}
        for _ in range(3):
            response: dict[str, Any] = self._bench.request(name, version, body)
            if not AGAIN.intersection(codes(response)):
                break
        return response


def _parts(topic: dict[str, Any], form: str) -> dict[str, Any]:
    """Return a topic of a Produce with its batches in one side's format."""
    parts = [{"index": part["index"], form: part[form]} for part in topic["partitionData"]]
    return {**topic, "partitionData": parts}


class Story:
    """The requests, and the compared parts of the responses."""

    def __init__(self, call: Call, run: str) -> None:
        self._call = call
        self.topic, self.name, self.group = f"a-{run}", f"t-{run}", f"g-{run}"
        self.reported: list[tuple[str, Any]] = []
        self.first_id: int | None = None

    def __getattr__(self, api: str) -> Callable[..., dict[str, Any]]:
        def send(version: int, **body: Any) -> dict[str, Any]:
            response = self._call(api, version, body)
            self.reported.append(
                (f"{len(self.reported)} {api} v{version}", sorted(codes(response)))
            )
            return response

        return send

    def is_led(self) -> bool:
        """True if the broker leads the topic, so it returns no retriable errors."""
        partitions = [{"partitionIndex": each, "timestamp": -1} for each in (0, 1)]
        topics = [{"name": self.topic, "partitions": partitions}]
        return not any(codes(self._call("ListOffsets", 7, {"replicaId": -1, "topics": topics})))

    def note(self, what: str, value: Any) -> None:
        self.reported.append((what, value))

    def init(self, name: str, held: tuple[int, int] = (-1, -1)) -> tuple[int, int]:
        response = self.InitProducerId(
            5,
            transactionalId=name,
            transactionTimeoutMs=60_000,
            producerId=held[0],
            producerEpoch=held[1],
        )
        if self.first_id is None:
            self.first_id = response["producerId"]
        self._note_holder(response)
        return response["producerId"], response["producerEpoch"]

    def _note_holder(self, response: dict[str, Any]) -> None:
        assert self.first_id is not None
        is_given = response["producerId"] >= 0
        relative = response["producerId"] - self.first_id if is_given else None
        self.note("holder", (relative, response["producerEpoch"]))

    def add(self, held: tuple[int, int], version: int = 3, **topics: list[int]) -> None:
        self.AddPartitionsToTxn(
            version,
            v3AndBelowTransactionalId=self.name,
            v3AndBelowProducerId=held[0],
            v3AndBelowProducerEpoch=held[1],
            v3AndBelowTopics=[{"name": name, "partitions": each} for name, each in topics.items()],
        )

    def end(
        self, held: tuple[int, int], is_commit: bool, version: int = 3, name: str | None = None
    ) -> tuple[int, int]:
        response = self.EndTxn(
            version,
            transactionalId=self.name if name is None else name,
            producerId=held[0],
            producerEpoch=held[1],
            committed=is_commit,
        )
        if version < 5:
            return held
        self._note_holder(response)
        return response["producerId"], response["producerEpoch"]

    def produce(self, held: tuple[int, int], sequence: int, version: int, index: int = 0) -> None:
        records = numbered(1, pid=held[0], epoch=held[1], seq=sequence, txn=True, time=WRITTEN_MS)
        batch = header(1, *held, sequence, size=len(records), isTransactional=True)
        part = {"index": index, "records": records, "batches": [batch]}
        response = self.Produce(
            version,
            transactionalId=self.name,
            acks=-1,
            timeoutMs=10_000,
            topicData=[{"name": self.topic, "partitionData": [part]}],
        )
        self.note("offset", response["responses"][0]["partitionResponses"][0]["baseOffset"])

    def commit(self, held: tuple[int, int], offset: int, version: int = 3, **fields: Any) -> None:
        index, metadata = fields.pop("index", 0), fields.pop("metadata", "m")
        committed = {
            "partitionIndex": index,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": metadata,
        }
        body = {
            "transactionalId": self.name,
            "groupId": self.group,
            "producerId": held[0],
            "producerEpoch": held[1],
            "generationId": -1,
            "memberId": "",
            "groupInstanceId": None,
            "topics": [{"name": self.topic, "partitions": [committed]}],
            **fields,
        }
        self.TxnOffsetCommit(version, **body)

    def offsets(self, is_stable: bool) -> None:
        topics = [{"name": self.topic, "partitionIndexes": [0, 1]}]
        body = {"groupId": self.group, "memberId": None, "memberEpoch": -1, "topics": topics}
        response = self._call("OffsetFetch", 8, {"groups": [body], "requireStable": is_stable})
        parts = response["groups"][0]["topics"][0]["partitions"]
        self.note("offsets", [(p["errorCode"], p["committedOffset"]) for p in parts])

    def described(self) -> None:
        response = self.DescribeTransactions(
            0, transactionalIds=[self.name, "", f"{self.name}-not"]
        )
        first = response["transactionStates"][0]
        # the real broker says Prepare* while markers are written
        state = first["transactionState"].replace("Prepare", "Complete")
        self.note("described", (state, first["transactionTimeoutMs"], first["producerEpoch"]))


def play(story: Story) -> None:
    """Send valid and invalid requests in both transaction versions."""
    topics = {story.topic: [0], f"{story.topic}-not": [0]}
    for key_type, key in ((0, story.group), (1, story.name)):
        story.FindCoordinator(4, keyType=key_type, coordinatorKeys=[key])
    held = story.init(story.name)
    story.described()
    add_errors(story, held, topics)
    offset_errors(story, held)
    one_with_offsets(story, held)
    ends_of_version_2(story, held)
    fences(story)


def add_errors(story: Story, held: tuple[int, int], topics: dict[str, list[int]]) -> None:
    producer_id, epoch = held
    story.add(held, **topics)
    story.add(held, **{story.topic: [0, 7]})
    story.add(held, __consumer_offsets=[0])
    story.add((producer_id, epoch + 1), **{story.topic: [0]})
    story.add((producer_id, epoch + 1), version=1, **{story.topic: [0]})
    story.add((producer_id + 500, epoch), **{story.topic: [0]})
    story.end(held, True)
    story.end(held, False)
    story.end((producer_id, epoch + 1), True, version=1)
    story.end(held, True, name="")
    story.described()


def offset_errors(story: Story, held: tuple[int, int]) -> None:
    for version in (3, 4):
        story.commit(held, 5, version)
    story.commit((held[0], held[1] + 1), 5)
    story.commit((held[0] + 500, held[1]), 5)
    story.commit(held, 5, index=9)
    story.commit(held, 5, groupId="")
    story.commit(held, 5, transactionalId="")
    story.AddOffsetsToTxn(
        3,
        transactionalId=story.name,
        producerId=held[0],
        producerEpoch=held[1] + 1,
        groupId=story.group,
    )


def one_with_offsets(story: Story, held: tuple[int, int]) -> None:
    """A transaction of version 1 with records and offsets."""
    story.add(held, **{story.topic: [0]})
    story.produce(held, 0, 11)
    story.produce(held, 0, 11, index=1)
    story.produce(held, 0, 9, index=1)
    story.AddOffsetsToTxn(
        3,
        transactionalId=story.name,
        producerId=held[0],
        producerEpoch=held[1],
        groupId=story.group,
    )
    story.commit(held, 5, generationId=3, memberId="m")
    story.commit(held, 5, metadata="m" * 5000)
    story.commit(held, 5)
    story.commit(held, 6)
    story.commit(held, 5, generationId=3, memberId="m")
    story.offsets(False)
    story.offsets(True)
    story.described()
    story.end(held, True)
    story.end(held, True)
    story.end(held, False)
    story.offsets(False)
    story.add(held, **{story.topic: [1]})
    story.produce(held, 0, 11, index=1)
    story.end(held, False)
    story.end(held, False)
    story.end(held, True)
    story.described()


def ends_of_version_2(story: Story, held: tuple[int, int]) -> None:
    story.end(held, True, version=5)
    held = story.end(held, False, version=5)
    story.end((held[0], held[1] - 1), False, version=5)
    story.end((held[0], held[1] - 1), True, version=5)
    story.end((held[0], held[1] + 1), True, version=5)
    story.produce(held, 0, 12)
    story.commit(held, 9, 5)
    before = held
    held = story.end(held, True, version=5)
    story.end(before, True, version=5)
    story.end(before, False, version=5)
    story.offsets(True)
    story.produce(before, 1, 12)
    story.produce(held, 0, 12)
    story.end(held, True, version=3)
    story.end(held, True, version=5)
    story.end(held, False, version=5)
    story.described()


def fences(story: Story) -> None:
    held = story.init(story.name)
    story.produce(held, 0, 12)
    newer = story.init(story.name)
    story.add(held, **{story.topic: [0]})
    story.produce(held, 1, 12)
    story.end(held, True)
    story.init(story.name, held)
    newer = story.init(story.name, newer)
    story.produce(newer, 0, 12)
    story.init(story.name, held)
    story.init(story.name, newer)
    story.described()


@pytest.mark.compares
def test_coordinator_responds_like_kafkas(real_kafka: Address) -> None:
    with tape("transactions/coordinator") as recording:
        real = recording.connection(lambda: connection_to(real_kafka))
        sides = [Story(Real(real), "story"), Story(Ours(), "story")]
        for story in sides:
            story.CreateTopics(
                7,
                topics=[
                    {
                        "name": story.topic,
                        "numPartitions": 2,
                        "replicationFactor": 1,
                        "assignments": [],
                        "configs": [],
                    }
                ],
                timeoutMs=10_000,
                validateOnly=False,
            )
            wait_until(story.is_led, "the topic is known to the broker")
            play(story)
        real.close()
    theirs, ours = (story.reported for story in sides)
    different = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    assert not different
    assert len(ours) > 100
