"""States of share groups: requests that wait for earlier writes, or are sent after them.

Compared with real brokers in `tests/gateway/test_pending_requests_like_kafka.py`.
"""

from typing import Any

import pytest

from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from tests.support.coordinators import GROUPS, Coordinators
from tests.support.replicas import BROKERS, TOPIC

NONE, UNAVAILABLE, NOT_COORDINATOR, INVALID = 0, 15, 16, 42
COORDINATOR, GROUP_MS, STATE_MS = 1, 5_000, 7_000
MEMBER = "hDTRH6AnTyGpTnrmLZPtjA"
WRITTEN: dict[str, Any] = {"stateEpoch": 1, "leaderEpoch": 0, "startOffset": 0, "stateBatches": []}
REQUESTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a read": ("READ", {"leaderEpoch": 0}, "read-update-leader-epoch-state"),
    "a read of what is not": (
        "READ",
        {"leaderEpoch": 0, "partition": 5},
        "read-update-leader-epoch-state",
    ),
    "a partition below 0": ("WRITE", {**WRITTEN, "partition": -1}, "write-share-group-state"),
    "a state of the past": (
        "INITIALIZE",
        {"stateEpoch": 0, "startOffset": 0},
        "initialize-share-group-state",
    ),
    "nothing to delete": ("DELETE", {"partition": 5}, "delete-share-group-state"),
    "a summary": ("SUMMARY", {"leaderEpoch": 0}, "read-share-group-state-summary"),
}


class States:
    """Three brokers; one of them coordinates every group and every state."""

    def __init__(self) -> None:
        self.brokers = Coordinators(
            offsets_topic_num_partitions=1, share_coordinator_write_timeout_ms=STATE_MS
        )
        assignments = [{"partitionIndex": 0, "brokerIds": list(BROKERS)}]
        topic = {"name": SHARE_TOPIC, "numPartitions": -1, "replicationFactor": -1}
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        assert self.brokers.bench.request("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0
        assert self.brokers.coordinator(GROUPS) == COORDINATOR
        begun = self.send("INITIALIZE", stateEpoch=1, startOffset=0)
        assert self.result(begun)["errorCode"] == NONE

    def send(self, verb: str, partition: int = 0, **given: Any) -> str | None:
        """Asks for a partition's state; the request's id."""
        suffix = "SHARE_GROUP_STATE"
        api = f"READ_{suffix}_SUMMARY" if verb == "SUMMARY" else f"{verb}_{suffix}"
        parts = [{"partition": partition, **given}]
        topics = [{"topicId": self.brokers.replicas.topic_id, "partitions": parts}]
        return self.brokers.send(api, 0, {"groupId": "g", "topics": topics}, COORDINATOR)

    def result(self, event_id: str | None) -> Any:
        """The response about the partition, or None while it is pending."""
        response = self.brokers.response(event_id)
        return response and response["results"][0]["partitions"][0]

    def call(self, api: str, version: int, body: dict[str, Any]) -> str | None:
        """Asks the coordinator; the request's id."""
        return self.brokers.send(api, version, body, COORDINATOR)

    def cut_off(self) -> None:
        self.brokers.replicas.isolate(*(each for each in BROKERS if each != COORDINATOR))

    def alter(self) -> str | None:
        """Sets an offset of the group `s`; the request's id."""
        partitions = [{"partitionIndex": 0, "startOffset": 0}]
        topics = [{"topicName": TOPIC, "partitions": partitions}]
        return self.call("ALTER_SHARE_GROUP_OFFSETS", 0, {"groupId": "s", "topics": topics})

    def forget(self) -> str | None:
        """Has the group `s` forget the topic; the request's id."""
        body = {"groupId": "s", "topics": [{"topicName": TOPIC}]}
        return self.call("DELETE_SHARE_GROUP_OFFSETS", 0, body)

    def states_of(self, group_id: str) -> list[str]:
        keys = self.brokers.bench.cell.tables.groups.keys(f"{COORDINATOR}/share-state/")
        return [each for each in keys if f"/{group_id}/" in each]


@pytest.mark.parametrize("what", REQUESTED)
def test_results_of_a_share_coordinator_wait_for_its_writes(what: str) -> None:
    states, (verb, given, _) = States(), REQUESTED[what]
    expected = states.result(states.send(verb, **given))
    states.cut_off()
    assert states.result(states.send("WRITE", **WRITTEN)) is None
    waits = states.send(verb, **given)
    assert states.result(waits) is None
    states.brokers.replicas.rejoin(*BROKERS)
    assert states.result(waits) == expected


@pytest.mark.parametrize("what", REQUESTED)
def test_time_out_has_kafkas_error_message(what: str) -> None:
    """share.coordinator.write.timeout.ms, not that of the group's offsets."""
    states, (verb, given, event) = States(), REQUESTED[what]
    states.cut_off()
    states.send("WRITE", **WRITTEN)
    waits = states.send(verb, **given)
    states.brokers.bench.tick(STATE_MS - 1)
    assert states.result(waits) is None
    states.brokers.bench.tick(1)
    response = states.result(waits)
    words = f": CoordinatorWriteEvent(name={event}) timed out after {STATE_MS}ms"
    assert response["errorCode"] == UNAVAILABLE
    assert response["errorMessage"].endswith(words)
    assert response["partition"] == given.get("partition", 0)


def test_request_to_another_broker_is_refused_at_once() -> None:
    states = States()
    states.cut_off()
    states.send("WRITE", **WRITTEN)
    body = {"groupId": "g", "topics": []}
    parts = [{"partition": 0, "leaderEpoch": 0}]
    body["topics"] = [{"topicId": states.brokers.replicas.topic_id, "partitions": parts}]
    response = states.brokers.send("READ_SHARE_GROUP_STATE", 0, body, COORDINATOR + 1)
    assert states.result(response)["errorCode"] == NOT_COORDINATOR


def test_described_offsets_wait_for_committed_states() -> None:
    states = States()
    assert states.brokers.response(states.alter())["errorCode"] == NONE
    states.cut_off()
    states.send("WRITE", **WRITTEN)
    topics = [{"topicName": TOPIC, "partitions": [0]}]
    body = {"groups": [{"groupId": "s", "topics": topics}]}
    waits = [states.call("DESCRIBE_SHARE_GROUP_OFFSETS", 0, body) for _ in range(2)]
    assert [states.brokers.response(each) for each in waits] == [None, None]
    states.brokers.replicas.rejoin(*BROKERS)
    groups = [states.brokers.response(each)["groups"][0] for each in waits]
    assert [each["topics"][0]["partitions"][0]["startOffset"] for each in groups] == [0, 0]


def test_request_to_a_share_coordinator_is_sent_after_the_commit() -> None:
    states = States()
    states.cut_off()
    waits = states.alter()
    assert (states.brokers.response(waits), states.states_of("s")) == (None, [])
    states.brokers.replicas.rejoin(*BROKERS)
    assert states.brokers.response(waits)["errorCode"] == NONE
    assert len(states.states_of("s")) == 1


def test_request_to_a_share_coordinator_is_not_sent_without_the_commit() -> None:
    states = States()
    assert states.brokers.response(states.alter())["errorCode"] == NONE
    states.cut_off()
    waits = states.forget()
    states.brokers.bench.tick(GROUP_MS - 1)
    assert states.brokers.response(waits) is None
    states.brokers.bench.tick(1)
    response = states.brokers.response(waits)
    words = "The coordinator is not available."
    assert response == {
        **response,
        "errorCode": UNAVAILABLE,
        "errorMessage": words,
        "responses": [],
    }
    states.brokers.replicas.rejoin(*BROKERS)
    assert len(states.states_of("s")) == 1
    assert states.brokers.response(states.forget())["responses"][0]["errorCode"] == NONE
    assert states.states_of("s") == []


def test_initialized_topic_is_no_longer_deleted() -> None:
    """Both requests are accepted before the share coordinator is called, so nothing is deleted."""
    states = States()
    assert states.brokers.response(states.alter())["errorCode"] == NONE
    states.cut_off()
    states.forget()
    states.alter()
    states.brokers.bench.tick(GROUP_MS)
    states.brokers.replicas.rejoin(*BROKERS)
    reported = states.brokers.response(states.forget())["responses"][0]
    assert reported["errorMessage"] == "There is no offset information to delete."
