"""Responses without records wait for earlier writes of their coordinator, as in Kafka.

Compared with real brokers in `tests/gateway/test_waiting_answers_like_kafka.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.coordinators import GROUPS, Coordinators, error_of_commit
from tests.support.mixed_groups import subscription
from tests.support.replicas import BROKERS, TOPIC

NONE, UNAVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION = 0, 15, 16, 22
TIME_OUT_MS = 5_000
MEMBER = "hDTRH6AnTyGpTnrmLZPtjA"
Asked = tuple[str, int, dict[str, Any]]


def commit(metadata: str = "") -> dict[str, Any]:
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": metadata}
    return {"groupId": "g", "topics": [{"name": TOPIC, "partitions": [part]}]}


WHOLE = [{"name": "others", "partitions": [{"partitionIndex": 0}]}]
LEAVE = {"groupId": "g", "members": [{"memberId": "nobody"}]}
FETCH = {"groups": [{"groupId": "g", "topics": None}]}
OTHERS = {"groups": [{"groupId": "others", "topics": None}]}
ONE = {"groupId": "others", "topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
SET = [{"partitionIndex": 0, "startOffset": 0}]
ALTER = {"groupId": "s", "topics": [{"topicName": "none", "partitions": SET}]}
FORGET = {"groupId": "s", "topics": [{"topicName": TOPIC}]}
WAITING: dict[str, tuple[Asked, Callable[[Any], int]]] = {
    "LeaveGroup": (("LEAVE_GROUP", 5, LEAVE), lambda told: told["errorCode"]),
    "OffsetDelete": (
        ("OFFSET_DELETE", 0, {"groupId": "g", "topics": WHOLE}),
        lambda told: told["errorCode"],
    ),
    "DeleteGroups": (
        ("DELETE_GROUPS", 2, {"groupsNames": ["g2"]}),
        lambda told: told["results"][0]["errorCode"],
    ),
    "OffsetCommit": (
        ("OFFSET_COMMIT", 8, commit("x" * 5000)),
        lambda told: error_of_commit(told) or 0,
    ),
    "OffsetFetch that requires what is stable": (
        ("OFFSET_FETCH", 8, {**OTHERS, "requireStable": True}),
        lambda told: told["groups"][0]["errorCode"],
    ),
    "OffsetFetch of one group": (
        ("OFFSET_FETCH", 7, {**ONE, "requireStable": True}),
        lambda told: told["errorCode"],
    ),
    "AlterShareGroupOffsets": (
        ("ALTER_SHARE_GROUP_OFFSETS", 0, ALTER),
        lambda told: told["errorCode"],
    ),
    "DeleteShareGroupOffsets of no group": (
        ("DELETE_SHARE_GROUP_OFFSETS", 0, FORGET),
        lambda told: told["errorCode"],
    ),
}
AT_ONCE: dict[str, Asked] = {
    "Heartbeat of nobody": (
        "HEARTBEAT",
        4,
        {"groupId": "g", "generationId": 1, "memberId": "nobody"},
    ),
    "OffsetDelete of no group": ("OFFSET_DELETE", 0, {"groupId": "none", "topics": WHOLE}),
    "LeaveGroup of no group": ("LEAVE_GROUP", 5, {**LEAVE, "groupId": "none"}),
    "OffsetFetch": ("OFFSET_FETCH", 8, FETCH),
    "AlterShareGroupOffsets of a group of another kind": (
        "ALTER_SHARE_GROUP_OFFSETS",
        0,
        {**ALTER, "groupId": "g"},
    ),
    "DescribeGroups": ("DESCRIBE_GROUPS", 5, {"groups": ["g"]}),
}


@pytest.fixture
def brokers() -> Coordinators:
    """A group that has committed, in a topic of one partition: it holds all groups."""
    few = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    brokers = Coordinators(**few)
    brokers.bench.topic("others")
    assert brokers.commit(5) == NONE
    return brokers


def cut_off(brokers: Coordinators) -> None:
    """Nobody follows the coordinator any more, and an offset is written that none of them has."""
    others = [each for each in BROKERS if each != brokers.coordinator(GROUPS)]
    brokers.replicas.isolate(*others)
    assert brokers.commit(6) is None


def ask(brokers: Coordinators, asked: Asked) -> str | None:
    return brokers.ask(*asked, brokers.coordinator(GROUPS))


@pytest.mark.parametrize("what", WAITING)
def test_response_waits_until_earlier_writes_are_committed(
    brokers: Coordinators, what: str
) -> None:
    asked, _ = WAITING[what]
    expected = brokers.answer(ask(brokers, asked))
    assert expected is not None
    cut_off(brokers)
    waits = ask(brokers, asked)
    assert brokers.answer(waits) is None
    brokers.replicas.rejoin(*BROKERS)
    assert brokers.answer(waits) == expected


@pytest.mark.parametrize("what", WAITING)
def test_time_out_is_coordinator_not_available_or_not_coordinator_for_fetches(
    brokers: Coordinators, what: str
) -> None:
    asked, error_of = WAITING[what]
    cut_off(brokers)
    waits = ask(brokers, asked)
    brokers.bench.tick(TIME_OUT_MS - 1)
    assert brokers.answer(waits) is None
    brokers.bench.tick(1)
    error = NOT_COORDINATOR if "OffsetFetch" in what else UNAVAILABLE
    assert error_of(brokers.answer(waits)) == error


def test_time_out_response_has_no_parts(brokers: Coordinators) -> None:
    cut_off(brokers)
    asked = [WAITING[each][0] for each in ("LeaveGroup", "OffsetDelete", "AlterShareGroupOffsets")]
    left, deleted, altered = (ask(brokers, each) for each in asked)
    brokers.bench.tick(TIME_OUT_MS)
    assert (brokers.answer(left)["members"], brokers.answer(deleted)["topics"]) == ([], [])
    told = brokers.answer(altered)
    assert (told["responses"], told["errorMessage"]) == ([], "The coordinator is not available.")


@pytest.mark.parametrize("what", AT_ONCE)
def test_errors_and_reads_are_answered_at_once(brokers: Coordinators, what: str) -> None:
    cut_off(brokers)
    assert brokers.answer(ask(brokers, AT_ONCE[what])) is not None


def test_two_requests_pending_on_the_same_write_both_resume(brokers: Coordinators) -> None:
    cut_off(brokers)
    asked, _ = WAITING["LeaveGroup"]
    waits = [ask(brokers, asked), ask(brokers, asked)]
    brokers.replicas.rejoin(*BROKERS)
    assert None not in map(brokers.answer, waits)


def test_uncommitted_join_does_not_name_the_member(
    brokers: Coordinators,
) -> None:
    """The rejoin got a response without a record; the next coordinator does not know it."""
    cut_off(brokers)
    joins = {"groupId": "c", "memberId": MEMBER, "memberEpoch": 0, "rebalanceTimeoutMs": 60_000}
    asked = (
        "CONSUMER_GROUP_HEARTBEAT",
        0,
        {**joins, "subscribedTopicNames": [TOPIC], "topicPartitions": []},
    )
    first, second = ask(brokers, asked), ask(brokers, asked)
    assert brokers.answer(first) is brokers.answer(second) is None
    brokers.bench.tick(TIME_OUT_MS)
    codes = [brokers.answer(each)["errorCode"] for each in (first, second)]
    assert codes == [UNAVAILABLE, UNAVAILABLE]
    assert brokers.answer(first)["memberId"] is None


def test_stable_offset_is_the_last_written_one(
    brokers: Coordinators,
) -> None:
    cut_off(brokers)
    stable = ask(brokers, ("OFFSET_FETCH", 8, {**FETCH, "requireStable": True}))
    assert brokers.answer(stable) is None
    at_once = brokers.answer(ask(brokers, ("OFFSET_FETCH", 8, FETCH)))
    brokers.replicas.rejoin(*BROKERS)
    assert [fetched(at_once), fetched(brokers.answer(stable))] == [5, 6]


def fetched(told: Any) -> int:
    return int(told["groups"][0]["topics"][0]["partitions"][0]["committedOffset"])


@pytest.mark.parametrize("is_verified", [False, True])
def test_transactional_offsets_with_too_long_metadata_wait(
    brokers: Coordinators, is_verified: bool
) -> None:
    """The transaction is verified before or during the request."""
    held = brokers.init()
    assert held is not None
    who = {"producerId": held["producerId"], "producerEpoch": held["producerEpoch"]}
    body = {"transactionalId": "t", **who, "groupId": "g"}
    ask(brokers, ("ADD_OFFSETS_TO_TXN", 3, body))
    if is_verified:
        written = ask(brokers, ("TXN_OFFSET_COMMIT", 3, {**body, "topics": commit()["topics"]}))
        assert error_of_commit(brokers.answer(written)) == NONE
    cut_off(brokers)
    asked = ("TXN_OFFSET_COMMIT", 3, {**body, "topics": commit("x" * 5000)["topics"]})
    waits = ask(brokers, asked)
    brokers.bench.tick(TIME_OUT_MS - 1)
    assert brokers.answer(waits) is None
    brokers.bench.tick(1)
    assert error_of_commit(brokers.answer(waits)) == UNAVAILABLE


def test_classic_member_of_a_consumer_group_waits_to_join_and_to_sync(
    brokers: Coordinators,
) -> None:
    joins: dict[str, Any] = {"groupId": "c", "memberId": MEMBER, "memberEpoch": 0}
    joins |= {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": [TOPIC], "topicPartitions": []}
    ask(brokers, ("CONSUMER_GROUP_HEARTBEAT", 0, joins))
    protocols = [{"name": "range", "metadata": subscription(TOPIC)}]
    body = {"groupId": "c", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
    body |= {"protocolType": "consumer", "protocols": protocols, "memberId": ""}
    body["memberId"] = brokers.answer(ask(brokers, ("JOIN_GROUP", 9, body)))["memberId"]
    joined = brokers.answer(ask(brokers, ("JOIN_GROUP", 9, body)))
    assert joined["errorCode"] == NONE
    member = {"groupId": "c", "memberId": body["memberId"], "generationId": joined["generationId"]}
    synced = {**member, "protocolType": "consumer", "protocolName": "range", "assignments": []}
    assert brokers.answer(ask(brokers, ("SYNC_GROUP", 5, synced)))["errorCode"] == NONE
    cut_off(brokers)
    refused = brokers.answer(ask(brokers, ("SYNC_GROUP", 5, {**synced, "generationId": 0})))
    assert refused["errorCode"] == ILLEGAL_GENERATION
    asked = (("JOIN_GROUP", 9, body), ("SYNC_GROUP", 5, synced), ("HEARTBEAT", 4, member))
    waits = [ask(brokers, each) for each in asked]
    assert [brokers.answer(each) for each in waits] == [None, None, None]
    brokers.replicas.rejoin(*BROKERS)
    assert [brokers.answer(each)["errorCode"] for each in waits] == [NONE, NONE, NONE]


def test_leaving_a_group_of_another_kind_is_answered_at_once(brokers: Coordinators) -> None:
    joins = {"groupId": "s", "memberId": MEMBER, "memberEpoch": 0, "subscribedTopicNames": [TOPIC]}
    ask(brokers, ("SHARE_GROUP_HEARTBEAT", 1, joins))
    cut_off(brokers)
    left = brokers.answer(ask(brokers, ("LEAVE_GROUP", 5, {**LEAVE, "groupId": "s"})))
    assert left["errorCode"] == NONE
