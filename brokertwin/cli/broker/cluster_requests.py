"""Requests of `brokertwin cluster elect` and `reassign`, and their results."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error

ELECT_VERSION, REASSIGN_VERSION = 2, 1
PREFERRED, UNCLEAN = 0, 1
TIMEOUT_MS = 60_000

FINE = (Error.NONE, Error.ELECTION_NOT_NEEDED)
"""Errors that do not change the exit code."""


class Place(NamedTuple):
    topic: str
    partition: int


class PartitionResult(NamedTuple):
    place: Place
    error: Error
    message: str | None

    @property
    def text(self) -> str:
        """`ok`, or the error's code and name with the controller's message."""
        if self.error is Error.NONE:
            return "ok"
        name = f"{self.error.value} {self.error.name}"
        return f"{name}: {self.message}" if self.message else name


def place_of(text: str) -> Place:
    """Parse a partition such as `orders-0`. Raises UserError."""
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise UserError(
            f"Invalid partition {text!r}.", "Pass the topic and the partition number: orders-0."
        )
    return Place(topic, int(number))


def replicas_of(text: str) -> tuple[Place, list[int]]:
    """Parse a partition and its replicas such as `orders-0=2,3,1`. Raises UserError."""
    name, equals, brokers = text.partition("=")
    ids = brokers.split(",")
    if not equals or not all(each.isdecimal() for each in ids):
        raise UserError(
            f"Invalid reassignment {text!r}.",
            "Pass a partition and its replicas, preferred leader first: orders-0=2,3,1.",
        )
    return place_of(name), [int(each) for each in ids]


def election(places: Sequence[Place], is_unclean: bool) -> dict[str, Any]:
    """Return the body of ElectLeaders; no places mean all partitions."""
    topics = [
        {"topic": topic, "partitions": [place.partition for place in group]}
        for topic, group in _by_topic(places)
    ]
    return {
        "electionType": UNCLEAN if is_unclean else PREFERRED,
        "topicPartitions": topics or None,
        "timeoutMs": TIMEOUT_MS,
    }


def reassignment(targets: dict[Place, list[int] | None]) -> dict[str, Any]:
    """Return the body of AlterPartitionReassignments; None as replicas cancels."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partitionIndex": place.partition, "replicas": targets[place]} for place in group
            ],
        }
        for topic, group in _by_topic(targets)
    ]
    return {"timeoutMs": TIMEOUT_MS, "topics": topics}


def elected(response: dict[str, Any]) -> list[PartitionResult]:
    """Return the results of an election. Raises UserError if the whole request was refused."""
    _check(response)
    return [
        _outcome(Place(topic["topic"], each["partitionId"]), each)
        for topic in response["replicaElectionResults"]
        for each in topic["partitionResult"]
    ]


def reassigned(response: dict[str, Any]) -> list[PartitionResult]:
    """Return the results of a reassignment. Raises UserError if the whole request was refused."""
    _check(response)
    return [
        _outcome(Place(topic["name"], each["partitionIndex"]), each)
        for topic in response["responses"]
        for each in topic["partitions"]
    ]


def _check(response: dict[str, Any]) -> None:
    error = Error(response.get("errorCode", Error.NONE))
    if error is not Error.NONE:
        raise UserError(
            f"The controller refused the request: {error.value} {error.name}.",
            "Pass a principal that is allowed to do it: --principal User:NAME.",
        )


def _outcome(place: Place, result: dict[str, Any]) -> PartitionResult:
    return PartitionResult(place, Error(result["errorCode"]), result["errorMessage"])


def _by_topic(places: Iterable[Place]) -> list[tuple[str, list[Place]]]:
    by_topic: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        by_topic[place.topic].append(place)
    return list(by_topic.items())
