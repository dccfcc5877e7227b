"""What `brokertwin cluster elect` and `reassign` ask for, and what came of it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.state.core.errors import Error

ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS = 43, 45
ELECT_VERSION, REASSIGN_VERSION = 2, 1
PREFERRED, UNCLEAN = 0, 1
TIMEOUT_MS = 60_000

FINE = (Error.NONE, Error.ELECTION_NOT_NEEDED)
"""What no exit code tells."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Outcome(NamedTuple):
    """What came of a partition."""

    place: Place
    error: Error
    message: str | None

    @property
    def words(self) -> str:
        """The error by name, with what the controller says of it."""
        return f"{self.error.name}: {self.message}" if self.message else self.error.name


def place_of(text: str) -> Place:
    """The partition `orders-0`. Raises UserError."""
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise UserError(f"{text} is no partition.", "Write the topic and the number: orders-0.")
    return Place(topic, int(number))


def replicas_of(text: str) -> tuple[Place, list[int]]:
    """The partition and replicas of `orders-0=2,3,1`. Raises UserError."""
    name, equals, brokers = text.partition("=")
    ids = brokers.split(",")
    if not equals or not all(each.isdecimal() for each in ids):
        raise UserError(
            f"{text}: expected a partition and its replicas, the preferred leader first.",
            "As in orders-0=2,3,1.",
        )
    return place_of(name), [int(each) for each in ids]


def election(places: Sequence[Place], is_unclean: bool) -> dict[str, Any]:
    """The body of ElectLeaders; without places everywhere."""
    asked = [
        {"topic": topic, "partitions": [place.partition for place in group]}
        for topic, group in _by_topic(places)
    ]
    return {
        "electionType": UNCLEAN if is_unclean else PREFERRED,
        "topicPartitions": asked or None,
        "timeoutMs": TIMEOUT_MS,
    }


def reassignment(wanted: dict[Place, list[int] | None]) -> dict[str, Any]:
    """The body of AlterPartitionReassignments; no replicas cancel."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partitionIndex": place.partition, "replicas": wanted[place]} for place in group
            ],
        }
        for topic, group in _by_topic(wanted)
    ]
    return {"timeoutMs": TIMEOUT_MS, "topics": topics}


def elected(response: dict[str, Any]) -> list[Outcome]:
    """What came of an election. Raises UserError where all of it was refused."""
    _check(response)
    return [
        _outcome(Place(topic["topic"], each["partitionId"]), each)
        for topic in response["replicaElectionResults"]
        for each in topic["partitionResult"]
    ]


def reassigned(response: dict[str, Any]) -> list[Outcome]:
    """What came of a reassignment. Raises UserError where all of it was refused."""
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
            f"Refused with {error.name}.", "Who may do it is named by --principal User:NAME."
        )


def _outcome(place: Place, result: dict[str, Any]) -> Outcome:
    return Outcome(place, Error(result["errorCode"]), result["errorMessage"])


def _by_topic(places: Iterable[Place]) -> list[tuple[str, list[Place]]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        found[place.topic].append(place)
    return list(found.items())
