"""Requests of an operator: valid replicas for existing partitions."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.operating import Operator
from brokertwin.simulation.plan import FaultKind, Injection, RunPlan, draw

SEED = next(seed for seed in range(99) if draw(seed).brokers == 3)


class RecordingCluster(SimulatedCluster):
    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan, VirtualClock())
        self.requests: list[dict[str, Any]] = []
        self.passed_on: list[str] = []
        self.on_response = lambda name, _: self.passed_on.append(name)

    def take(self, cell: str, document: bytes) -> None:
        self.requests.append(json.loads(document))


def operator() -> tuple[RecordingCluster, Operator, list[tuple[FaultKind, str]]]:
    recording = RecordingCluster(draw(SEED))
    received: list[tuple[FaultKind, str]] = []
    return recording, Operator(recording, lambda *what: received.append(what)), received


def test_a_reassignment_keeps_enough_replicas_for_min_insync() -> None:
    recording, requests, _ = operator()
    for number in range(50):
        requests.reassign(Injection(0, FaultKind.REASSIGN, number / 50, 0), [2])
    for event in recording.requests:
        assert event["broker"] == 2
        (partition,) = event["request"]["topics"][0]["partitions"]
        replicas = partition["replicas"]
        assert recording.plan.in_sync_min <= len(set(replicas)) == len(replicas) <= 3
    names = {event["request"]["topics"][0]["name"] for event in recording.requests}
    assert {"orders", "__consumer_offsets", "__transaction_state"} <= names


@pytest.mark.parametrize(
    ("begin", "received", "where"),
    [
        (
            Operator.reassign,
            {
                "responses": [
                    {"name": "orders", "partitions": [{"partitionIndex": 1, "errorCode": 0}]}
                ]
            },
            "orders-1",
        ),
        (
            Operator.elect,
            {
                "replicaElectionResults": [
                    {
                        "topic": "orders",
                        "partitionResult": [
                            {"partitionId": 0, "errorCode": 80},
                            {"partitionId": 2, "errorCode": 0},
                        ],
                    }
                ]
            },
            "orders-2",
        ),
    ],
)
def test_only_effective_requests_are_counted(
    begin: Callable[..., None], received: dict[str, Any], where: str
) -> None:
    recording, requests, observed = operator()
    fault = FaultKind.REASSIGN if begin is Operator.reassign else FaultKind.ELECT
    for response in (None, received):
        begin(requests, Injection(0, fault, 0.5, 0), [1])
        recording.respond(recording.requests[-1]["id"], {"response": response})
    recording.respond("client/1", {})
    assert observed == [(fault, where)]
    assert recording.passed_on == ["client/1"]


def test_nothing_is_cancelled_without_a_reassignment() -> None:
    recording, requests, _ = operator()
    requests.cancel()
    assert recording.requests == []
    requests.reassign(Injection(0, FaultKind.REASSIGN, 0.5, 0), [1])
    requests.cancel()
    partitions = [p for t in recording.requests[1]["request"]["topics"] for p in t["partitions"]]
    assert partitions and all(each["replicas"] is None for each in partitions)
