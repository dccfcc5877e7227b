"""Recorded exchanges as machines take them, and facts that belong to no entity."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.own_clients import is_own
from brokertwin.recordings.history.words import clock
from brokertwin.recordings.replay.recording import Exchange


class RecordedRequest(msgspec.Struct, frozen=True):
    """The part of an exchange that a state keeps; it identifies the evidence of a finding.

    Attributes:
        place: file and line, or topic, partition and offset.
        time: arrival of the request, in ms since 1970.
        end: the last ms at which the broker may have responded.
        broker: the broker that received it.
        client: client id; "" if the request has none.
        host: host of the client; "" if not recorded.
        connection: the recording's name of the connection.
        api: name of the API.
        version: API version.
        is_own: whether a broker or a controller sent it.
    """

    place: str
    time: int
    end: int
    broker: int
    client: str
    host: str
    connection: str
    api: str
    version: int
    is_own: bool = False

    @property
    def name(self) -> str:
        """Client id; `?` if the request has none."""
        return self.client or "?"

    @property
    def process(self) -> tuple[str, str]:
        """Client id and host, which identify a client as far as the recording shows."""
        return self.client, self.host

    @property
    def words(self) -> str:
        """`client second's INIT_PRODUCER_ID at 12:00:03.120 (orders.jsonl:12)`."""
        return f"client {self.name}'s {self.api} at {clock(self.time)} ({self.place})"

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sort key: the order of responses, then of requests, then of lines."""
        file, _, line = self.place.rpartition(":")
        return self.end, self.time, file, int(line) if line.isdecimal() else 0


class RecordedExchange(msgspec.Struct, frozen=True):
    """A request with its response; bodies are those of Kafka's request log.

    `response` is empty if the request has none (acks=0). `is_answered` is False if the recording
    lacks the response.
    """

    line: RecordedRequest
    request: Any
    response: Any
    is_answered: bool = True

    @property
    def code(self) -> int:
        """The error code of the response as a whole."""
        return int(self.response.get("errorCode", 0))


class KnownFacts(msgspec.Struct):
    """Facts that belong to no entity. A router collects them; a missing fact is unknown.

    Attributes:
        topics: topic id to name.
        producers: producer id to transactional id.
        groups: producer id to the groups whose offsets it committed in transactions.
        logs: broker to the first and the last ms that its log covers.
    """

    topics: dict[str, str] = {}
    producers: dict[int, str] = {}
    groups: dict[int, list[str]] = {}
    logs: dict[int, tuple[int, int]] = {}

    @property
    def last(self) -> int:
        """When the last response of all logs was sent, in ms since 1970."""
        return max((last for _, last in self.logs.values()), default=0)

    def topic(self, part: Any) -> str:
        """Name of the topic in a part of a body; its id if no response showed the name."""
        return self.named(str(part.get("topic") or bodies.topic_of(part)))

    def named(self, topic: str) -> str:
        """Name of a topic, given its name or id."""
        return self.topics.get(topic, topic)

    def is_covered(self, broker: int, first: int, last: int) -> bool:
        """Return whether the log of a broker covers a span, in ms since 1970."""
        begin, end = self.logs.get(broker, (last, first))
        return begin <= first and last <= end

    def learn(self, exchange: RecordedExchange) -> None:
        """Take the facts of an exchange; their order does not matter."""
        line = exchange.line
        first, last = self.logs.get(line.broker, (line.time, line.end))
        self.logs[line.broker] = min(first, line.time), max(last, line.end)
        self.topics |= bodies.topic_names_in(line.api, exchange.response)
        if line.api == "TXN_OFFSET_COMMIT":
            groups = self.groups.setdefault(exchange.request.get("producerId", -1), [])
            group = str(exchange.request.get("groupId"))
            groups += [group] if group not in groups else []
        for holder in bodies.holders_of(line.api, exchange.request, exchange.response):
            if holder.name and holder.producer_id != bodies.NO_PRODUCER:
                self.producers[holder.producer_id] = holder.name


def exchange_of(recorded: Exchange) -> RecordedExchange:
    """Convert a line of a recording."""
    body, client = recorded.body(), recorded.header.client_id or ""
    line = RecordedRequest(
        recorded.id,
        recorded.time,
        recorded.end,
        recorded.broker,
        client,
        recorded.host,
        recorded.connection,
        recorded.api,
        recorded.version,
        is_own(recorded.api, client, body),
    )
    return RecordedExchange(line, body, recorded.response or {}, recorded.is_recorded)


def exchanges_of(recorded: Iterable[Exchange]) -> list[RecordedExchange]:
    """Convert the exchanges with a recorded response, in the order of responses."""
    found = [exchange_of(each) for each in recorded if each.is_recorded]
    return sorted(found, key=lambda each: each.line.end)


def known_of(exchanges: Iterable[RecordedExchange], topics: Mapping[str, str]) -> KnownFacts:
    """Collect the facts of a whole recording, beside names of topics that are known already."""
    known = KnownFacts(dict(topics))
    for each in exchanges:
        known.learn(each)
    return known
