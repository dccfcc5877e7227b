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
        producer_id: its producer id.
        epoch: its producer epoch.
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

    def take_in(self, places: Iterable[tuple[str, int]], groups: Iterable[str]) -> Iterator[str]:
        """Take in batches, partitions and groups; report the new ones in words.

        Args:
            places: topic and partition, and whether a batch was written there.
            groups: group ids.
        """
        for place, batches in places:
            if place not in self.places:
                yield f"takes in {place}"
            self.places[place] = self.places.get(place, 0) + batches
        for group in groups:
            if group not in self.groups:
                self.groups.append(group)
                yield f"takes in offsets of group {group}"
        while len(self.places) > PLACES_MAX:
            del self.places[next(iter(self.places))]
        del self.groups[:-PLACES_MAX]

    def lasted_ms(self, ended: RecordedRequest) -> int:
        """From the request that began it to the response that ended it."""
        return ended.end - self.began.time

    def words(self, ended: RecordedRequest | None = None, became: str = "", why: str = "") -> str:
        """Describe it in one line.

        Args:
            ended: the request that ended it; None if it is open.
            became: `committed` or `aborted`.
            why: why the coordinator aborted it without a request.
        """
        named = sorted(self.places.items(), key=lambda each: _sorted_place(each[0]))
        offsets = [f"offsets of group {name}" for name in self.groups]
        of = f"transaction {self.number}, producer {self.producer_id} epoch {self.epoch}"
        held = ", ".join([*(f"{at}{_batches(n)}" for at, n in named), *offsets]) or "nothing"
        if ended is None:
            return f"{of}: open since {self.began.words}; {held}"
        if why:
            return f"{of}: {why}; {held}"
        return f"{of}: {became} after {self.lasted_ms(ended)} ms by {ended.words}; {held}"


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


def _sorted_place(place: str) -> tuple[str, int]:
    topic, _, partition = place.rpartition("-")
    return topic, int(partition)


def _batches(count: int) -> str:
    """The number of known batches; a request log without their headers knows none."""
    return f" ({count} batch{'es' * (count > 1)})" if count else ""
