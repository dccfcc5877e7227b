"""Answers with nothing to write wait for what their coordinator wrote before, as in Kafka.

Beside real brokers: `tests/gateway/test_waiting_answers_like_kafka.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.coordinators import GROUPS, Coordinators, error_of_commit
from tests.support.replicas import BROKERS, TOPIC

NONE, UNAVAILABLE, NOT_COORDINATOR = 0, 15, 16
TIME_OUT_MS = 5_000
MEMBER = "hDTRH6AnTyGpTnrmLZPtjA"
Asked = tuple[str, int, dict[str, Any]]


def commit(metadata: str = "") -> dict[str, Any]:
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": metadata}
    return {"groupId": "g", "topics": [{"name": TOPIC, "partitions": [part]}]}


WHOLE = [{"name": "others", "partitions": [{"partitionIndex": 0}]}]
LEAVE = {"groupId": "g", "members": [{"memberId": "nobody"}]}
FETCH = {"groups": [{"groupId": "g", "topics": None}]}
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
    "DescribeGroups": ("DESCRIBE_GROUPS", 5, {"groups": ["g"]}),
}


@pytest.fixture
def brokers() -> Coordinators:
    """A group that has committed, in a topic of one partition: it holds all groups."""
    brokers = Coordinators(offsets_topic_num_partitions=1)
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
def test_an_answer_waits_until_followers_have_what_was_written(
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
def test_where_time_is_up_it_is_15(brokers: Coordinators, what: str) -> None:
    asked, error_of = WAITING[what]
    cut_off(brokers)
    waits = ask(brokers, asked)
    brokers.bench.tick(TIME_OUT_MS - 1)
    assert brokers.answer(waits) is None
    brokers.bench.tick(1)
    assert error_of(brokers.answer(waits)) == UNAVAILABLE


@pytest.mark.parametrize("what", AT_ONCE)
def test_an_error_that_ends_a_request_is_told_at_once_and_so_is_who_reads(
    brokers: Coordinators, what: str
) -> None:
    cut_off(brokers)
    assert brokers.answer(ask(brokers, AT_ONCE[what])) is not None


def test_two_that_wait_for_the_same_are_both_told(brokers: Coordinators) -> None:
    cut_off(brokers)
    asked, _ = WAITING["LeaveGroup"]
    waits = [ask(brokers, asked), ask(brokers, asked)]
    brokers.replicas.rejoin(*BROKERS)
    assert None not in map(brokers.answer, waits)


def test_a_member_whose_join_is_not_written_is_not_told_that_it_is_one(
    brokers: Coordinators,
) -> None:
    """It joined again, with nothing to write, and was told; the next coordinator knew it not."""
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
