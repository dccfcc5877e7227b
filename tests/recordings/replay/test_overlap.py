"""Which requests can change another one's response, and races that only this explains."""

from typing import Any

import pytest

from brokertwin.recordings.replay.comparison import CompareVerdict
from brokertwin.recordings.replay.overlap import Footprints
from brokertwin.recordings.replay.recording import Recording
from tests.support.races import (
    TOPIC,
    TimedRequest,
    create,
    fetch,
    order_of,
    produce,
    recorded,
    replayed,
)

GROUP = "g"
PARTITIONS = [{"partitionIndex": 0, "committedOffset": 1}]
COMMIT = {"groupId": GROUP, "topics": [{"name": TOPIC, "partitions": PARTITIONS}]}
RUNS = {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": [TOPIC]}]}
HEARTBEAT = {"groupId": GROUP, "generationId": 1, "memberId": "m"}
END = {"transactionalId": "t", "producerId": 1, "producerEpoch": 0, "committed": True}
CREATION = {"topics": [{"name": TOPIC, "numPartitions": 1, "replicationFactor": 1}]}
READ = {"topics": [{"topic": TOPIC, "partitions": []}], "sessionEpoch": -1}


def footprints(*requested: tuple[str, int, dict[str, Any]]) -> Footprints:
    requests = [
        TimedRequest(str(number), api, version, body, number)
        for number, (api, version, body) in enumerate(requested)
    ]
    return Footprints(recorded(requests, []).exchanges)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (("DELETE_TOPICS", 4, {"topicNames": [TOPIC]}), ("FETCH", 11, READ)),
        (("DELETE_GROUPS", 2, {"groupsNames": [GROUP]}), ("OFFSET_COMMIT", 8, COMMIT)),
        (("OFFSET_COMMIT", 8, COMMIT), ("DESCRIBE_GROUPS", 5, {"groups": [GROUP]})),
        (("OFFSET_COMMIT", 8, COMMIT), ("OFFSET_FETCH", 8, {"groups": [{"groupId": GROUP}]})),
        (("END_TXN", 3, END), ("DESCRIBE_TRANSACTIONS", 0, {"transactionalIds": ["t"]})),
        (("OFFSET_COMMIT", 8, COMMIT), ("LIST_GROUPS", 4, {})),
        (
            ("CREATE_PARTITIONS", 2, {"topics": [{"name": TOPIC, "count": 2}]}),
            ("CONSUMER_GROUP_HEARTBEAT", 1, {"groupId": GROUP, "subscribedTopicNames": [TOPIC]}),
        ),
        (
            ("CREATE_TOPICS", 5, CREATION),
            ("STREAMS_GROUP_HEARTBEAT", 0, {"groupId": GROUP, "topology": RUNS}),
        ),
        (("END_TXN", 3, END), ("LIST_TRANSACTIONS", 0, {})),
        (("CREATE_TOPICS", 5, CREATION), ("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": []})),
        (("METADATA", 9, {"topics": [{"name": TOPIC}]}), ("FETCH", 11, READ)),
        (("FIND_COORDINATOR", 3, {"key": GROUP, "keyType": 0}), ("HEARTBEAT", 4, HEARTBEAT)),
        (
            ("FIND_COORDINATOR", 3, {"key": "other", "keyType": 1}),
            ("METADATA", 9, {"topics": [{"name": "__transaction_state"}]}),
        ),
    ],
    ids=lambda request: request[0],
)
def test_requests_with_equal_names_conflict(
    writer: tuple[str, int, dict[str, Any]], reader: tuple[str, int, dict[str, Any]]
) -> None:
    assert footprints(writer, reader).may_change(0, 1)


@pytest.mark.parametrize(
    "reader",
    [
        ("METADATA", 9, {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False}),
        ("METADATA", 9, {"topics": None}),
        ("DESCRIBE_GROUPS", 5, {"groups": [TOPIC]}),
        ("FIND_COORDINATOR", 3, {"key": GROUP, "keyType": 0}),
    ],
    ids=lambda request: request[0],
)
def test_reads_and_other_names_do_not_conflict(
    reader: tuple[str, int, dict[str, Any]],
) -> None:
    assert not footprints(reader, ("FETCH", 11, READ)).may_change(0, 1)


def test_ending_a_transaction_conflicts_with_reads_of_its_partitions() -> None:
    """Its markers; found where a fetch waited for 500 ms and the commit came in its last 40."""
    added = {
        "v3AndBelowTransactionalId": "t",
        "v3AndBelowTopics": [{"name": TOPIC, "partitions": [0]}],
    }
    other = {"topics": [{"topic": "other", "partitions": []}], "sessionEpoch": -1}
    found = footprints(
        ("ADD_PARTITIONS_TO_TXN", 3, added),
        ("END_TXN", 3, END),
        ("FETCH", 11, READ),
        ("FETCH", 11, other),
    )
    assert found.may_change(1, 2)
    assert not found.may_change(1, 3)
    assert not footprints(("END_TXN", 3, END), ("FETCH", 11, READ)).may_change(0, 1)


def test_a_fetch_may_precede_an_overlapping_deletion() -> None:
    deletion = {"topicNames": [TOPIC], "timeoutMs": 1000}
    requests = [
        create(),
        produce("a", 10, 3, "p1"),
        TimedRequest("delete", "DELETE_TOPICS", 4, deletion, 20, 9, "admin"),
        fetch("read", 21, 2, "reader", max_wait=0),
    ]
    handled = [("create", 0), ("a", 10), ("read", 21), ("delete", 22)]
    recording: Recording = recorded(requests, handled)
    planned, outcomes = replayed(recording)
    assert {outcome.verdict for outcome in outcomes.values()} == {CompareVerdict.AGREE}
    assert order_of(planned.schedule) == ["create", "a", "read", "delete"]
