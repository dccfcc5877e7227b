"""Responses without records wait for earlier writes of their coordinator, as in Kafka.

Compared with real brokers in `tests/gateway/test_pending_requests_like_kafka.py`.
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
Requested = tuple[str, int, dict[str, Any]]


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
WAITING: dict[str, tuple[Requested, Callable[[Any], int]]] = {
    "LeaveGroup": (("LEAVE_GROUP", 5, LEAVE), lambda reported: reported["errorCode"]),
    "OffsetDelete": (
        ("OFFSET_DELETE", 0, {"groupId": "g", "topics": WHOLE}),
        lambda reported: reported["errorCode"],
    ),
    "DeleteGroups": (
        ("DELETE_GROUPS", 2, {"groupsNames": ["g2"]}),
        lambda reported: reported["results"][0]["errorCode"],
    ),
    "OffsetCommit": (
        ("OFFSET_COMMIT", 8, commit("x" * 5000)),
        lambda reported: error_of_commit(reported) or 0,
    ),
    "OffsetFetch that requires what is stable": (
        ("OFFSET_FETCH", 8, {**OTHERS, "requireStable": True}),
        lambda reported: reported["groups"][0]["errorCode"],
    ),
    "OffsetFetch of one group": (
        ("OFFSET_FETCH", 7, {**ONE, "requireStable": True}),
        lambda reported: reported["errorCode"],
    ),
    "AlterShareGroupOffsets": (
        ("ALTER_SHARE_GROUP_OFFSETS", 0, ALTER),
        lambda reported: reported["errorCode"],
    ),
    "DeleteShareGroupOffsets of no group": (
        ("DELETE_SHARE_GROUP_OFFSETS", 0, FORGET),
        lambda reported: reported["errorCode"],
    ),
}
AT_ONCE: dict[str, Requested] = {
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


def send(brokers: Coordinators, requests: Requested) -> str | None:
    return brokers.send(*requests, brokers.coordinator(GROUPS))


@pytest.mark.parametrize("what", WAITING)
def test_response_waits_until_earlier_writes_are_committed(
    brokers: Coordinators, what: str
) -> None:
    requested, _ = WAITING[what]
    expected = brokers.response(send(brokers, requested))
    assert expected is not None
    cut_off(brokers)
    waits = send(brokers, requested)
    assert brokers.response(waits) is None
    brokers.replicas.rejoin(*BROKERS)
    assert brokers.response(waits) == expected


@pytest.mark.parametrize("what", WAITING)
def test_time_out_is_coordinator_not_available_or_not_coordinator_for_fetches(
    brokers: Coordinators, what: str
) -> None:
    requested, error_of = WAITING[what]
    cut_off(brokers)
    waits = send(brokers, requested)
    brokers.bench.tick(TIME_OUT_MS - 1)
    assert brokers.response(waits) is None
    brokers.bench.tick(1)
    error = NOT_COORDINATOR if "OffsetFetch" in what else UNAVAILABLE
    assert error_of(brokers.response(waits)) == error


def test_time_out_response_has_no_parts(brokers: Coordinators) -> None:
    cut_off(brokers)
    requests = [
        WAITING[each][0] for each in ("LeaveGroup", "OffsetDelete", "AlterShareGroupOffsets")
    ]
    left, deleted, altered = (send(brokers, each) for each in requests)
    brokers.bench.tick(TIME_OUT_MS)
    assert (brokers.response(left)["members"], brokers.response(deleted)["topics"]) == ([], [])
    response = brokers.response(altered)
    assert (response["responses"], response["errorMessage"]) == (
        [],
        "The coordinator is not available.",
    )


@pytest.mark.parametrize("what", AT_ONCE)
def test_errors_and_reads_get_their_responses_at_once(brokers: Coordinators, what: str) -> None:
    cut_off(brokers)
    assert brokers.response(send(brokers, AT_ONCE[what])) is not None


def test_two_requests_pending_on_the_same_write_both_resume(brokers: Coordinators) -> None:
    cut_off(brokers)
    requested, _ = WAITING["LeaveGroup"]
    waits = [send(brokers, requested), send(brokers, requested)]
    brokers.replicas.rejoin(*BROKERS)
    assert None not in map(brokers.response, waits)


def test_uncommitted_join_does_not_name_the_member(
    brokers: Coordinators,
) -> None:
    """The rejoin got a response without a record; the next coordinator does not know it."""
    cut_off(brokers)
    joins = {"groupId": "c", "memberId": MEMBER, "memberEpoch": 0, "rebalanceTimeoutMs": 60_000}
    requested = (
        "CONSUMER_GROUP_HEARTBEAT",
        0,
        {**joins, "subscribedTopicNames": [TOPIC], "topicPartitions": []},
    )
    first, second = send(brokers, requested), send(brokers, requested)
    assert brokers.response(first) is brokers.response(second) is None
    brokers.bench.tick(TIME_OUT_MS)
    codes = [brokers.response(each)["errorCode"] for each in (first, second)]
    assert codes == [UNAVAILABLE, UNAVAILABLE]
    assert brokers.response(first)["memberId"] is None


def test_stable_offset_is_the_last_written_one(
    brokers: Coordinators,
) -> None:
    cut_off(brokers)
    stable = send(brokers, ("OFFSET_FETCH", 8, {**FETCH, "requireStable": True}))
    assert brokers.response(stable) is None
    at_once = brokers.response(send(brokers, ("OFFSET_FETCH", 8, FETCH)))
    brokers.replicas.rejoin(*BROKERS)
    assert [fetched(at_once), fetched(brokers.response(stable))] == [5, 6]


def fetched(reported: Any) -> int:
    return int(reported["groups"][0]["topics"][0]["partitions"][0]["committedOffset"])


@pytest.mark.parametrize("is_verified", [False, True])
def test_transactional_offsets_with_too_long_metadata_wait(
    brokers: Coordinators, is_verified: bool
) -> None:
    """The transaction is verified before or during the request."""
    held = brokers.init()
    assert held is not None
    who = {"producerId": held["producerId"], "producerEpoch": held["producerEpoch"]}
    body = {"transactionalId": "t", **who, "groupId": "g"}
    send(brokers, ("ADD_OFFSETS_TO_TXN", 3, body))
    if is_verified:
        written = send(brokers, ("TXN_OFFSET_COMMIT", 3, {**body, "topics": commit()["topics"]}))
        assert error_of_commit(brokers.response(written)) == NONE
    cut_off(brokers)
    requested = ("TXN_OFFSET_COMMIT", 3, {**body, "topics": commit("x" * 5000)["topics"]})
    waits = send(brokers, requested)
    brokers.bench.tick(TIME_OUT_MS - 1)
    assert brokers.response(waits) is None
    brokers.bench.tick(1)
    assert error_of_commit(brokers.response(waits)) == UNAVAILABLE


def test_classic_member_of_a_consumer_group_waits_to_join_and_to_sync(
    brokers: Coordinators,
) -> None:
    joins: dict[str, Any] = {"groupId": "c", "memberId": MEMBER, "memberEpoch": 0}
    joins |= {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": [TOPIC], "topicPartitions": []}
    send(brokers, ("CONSUMER_GROUP_HEARTBEAT", 0, joins))
    protocols = [{"name": "range", "metadata": subscription(TOPIC)}]
    body = {"groupId": "c", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
    body |= {"protocolType": "consumer", "protocols": protocols, "memberId": ""}
    body["memberId"] = brokers.response(send(brokers, ("JOIN_GROUP", 9, body)))["memberId"]
    joined = brokers.response(send(brokers, ("JOIN_GROUP", 9, body)))
    assert joined["errorCode"] == NONE
    member = {"groupId": "c", "memberId": body["memberId"], "generationId": joined["generationId"]}
    synced = {**member, "protocolType": "consumer", "protocolName": "range", "assignments": []}
    assert brokers.response(send(brokers, ("SYNC_GROUP", 5, synced)))["errorCode"] == NONE
    cut_off(brokers)
    refused = brokers.response(send(brokers, ("SYNC_GROUP", 5, {**synced, "generationId": 0})))
    assert refused["errorCode"] == ILLEGAL_GENERATION
    requested = (("JOIN_GROUP", 9, body), ("SYNC_GROUP", 5, synced), ("HEARTBEAT", 4, member))
    waits = [send(brokers, each) for each in requested]
    assert [brokers.response(each) for each in waits] == [None, None, None]
    brokers.replicas.rejoin(*BROKERS)
    assert [brokers.response(each)["errorCode"] for each in waits] == [NONE, NONE, NONE]


def test_leaving_a_group_of_another_kind_gets_its_response_at_once(brokers: Coordinators) -> None:
    joins = {"groupId": "s", "memberId": MEMBER, "memberEpoch": 0, "subscribedTopicNames": [TOPIC]}
    send(brokers, ("SHARE_GROUP_HEARTBEAT", 1, joins))
    cut_off(brokers)
    left = brokers.response(send(brokers, ("LEAVE_GROUP", 5, {**LEAVE, "groupId": "s"})))
    assert left["errorCode"] == NONE
