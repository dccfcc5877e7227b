"""The open transaction of a transactional id: the partitions and groups that it took in."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import field

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest

PLACES_MAX = 1_000
"""Maximum number of partitions and groups of a transaction that are kept."""


class OpenTransaction(msgspec.Struct):
    """A transaction that no request has ended.

    Attributes:
        number: its number in the recording, from 1.
        began: the first request that the broker accepted.
        places: topic and partition to the number of known batches there.
        groups: the groups whose offsets belong to it.
    """

    number: int
    producer_id: int
    epoch: int
    began: RecordedRequest
    places: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)

    def take_in(
        self, places: Iterable[tuple[str, int]], groups: Iterable[str]
    ) -> tuple[list[str], list[str]]:
        """Take in batches, partitions and groups.

        `places`: topic and partition, and the number of batches that were written there.

        Returns:
            the places and the groups that are new.
        """
        new_places, new_groups = [], []
        for place, batches in places:
            if place not in self.places:
                new_places.append(place)
            self.places[place] = self.places.get(place, 0) + batches
        for group in groups:
            if group not in self.groups:
                self.groups.append(group)
                new_groups.append(group)
        while len(self.places) > PLACES_MAX:
            del self.places[next(iter(self.places))]
        del self.groups[:-PLACES_MAX]
        return new_places, new_groups

    def lasted_ms(self, ended: RecordedRequest) -> int:
        return ended.end - self.began.time


class EndedTransaction(msgspec.Struct, frozen=True):
    """The request that ended the last transaction.

    Attributes:
        epoch: its epoch; -1 if it has none.
        producer_id: its producer id; -1 if it has none.
        made: when its response was made, in ms since 1970; the line may be written much later.
    """

    line: RecordedRequest
    epoch: int
    producer_id: int
    made: float


def taken_in(
    exchange: RecordedExchange, name: str, known: KnownFacts
) -> tuple[list[tuple[str, int]], list[str]]:
    """The partitions and groups that a request took into a transaction.

    Returns:
        topic and partition with the number of batches there, and group ids.
    """
    line, body = exchange.line, exchange.request
    if line.api == "PRODUCE":
        return (_written(exchange, known) if body.get("transactionalId") else []), []
    if line.api == "ADD_PARTITIONS_TO_TXN":
        return [(place, 0) for place in _added(exchange, name, known)], []
    if bodies.errors(exchange.response):
        return [], []
    return [], [str(body.get("groupId") or "")]


def _written(exchange: RecordedExchange, known: KnownFacts) -> list[tuple[str, int]]:
    """Partitions of a Produce; those of newer clients join the transaction by it (KIP-890)."""
    batches = list(bodies.sent(exchange.request, exchange.response))
    if batches:
        return [(_place(known, e.topic, e.partition), 1) for e in batches if not e.error]
    return [
        (_place(known, bodies.topic_of(topic), part["index"]), 0)
        for topic in exchange.response.get("responses") or ()
        for part in topic["partitionResponses"]
        if not part["errorCode"]
    ]


def _added(exchange: RecordedExchange, name: str, known: KnownFacts) -> Iterator[str]:
    """Partitions that an AddPartitionsToTxn took in."""
    body, response = exchange.request, exchange.response
    checked = [e["transactionalId"] for e in body.get("transactions") or () if e.get("verifyOnly")]
    topics: list[Any] = list(response.get("resultsByTopicV3AndBelow") or ())
    for each in response.get("resultsByTransaction") or ():
        if each["transactionalId"] == name and name not in checked:
            topics += each["topicResults"]
    for topic in topics:
        for result in topic["resultsByPartition"]:
            if not result["partitionErrorCode"]:
                yield _place(known, bodies.topic_of(topic), result["partitionIndex"])


def _place(known: KnownFacts, topic: str, partition: int) -> str:
    return f"{known.named(topic)}-{partition}"
