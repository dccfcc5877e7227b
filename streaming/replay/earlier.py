"""What a broker had before its recording began.

A recording may begin in the middle of a broker's life: producer ids were allocated to it, and the
internal topics of its coordinators were there. A fresh machine would answer the first
InitProducerId with 14 and the first look-ups of a coordinator with 15. Where the first recorded
answer shows that the real broker was past that, a request of our own before the recording brings
the machine there, too. Such requests are no exchanges: they are not compared and not counted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from brokerstream.state.events import Choices, Event, RequestHeader
from brokerstream.streaming.replay.choices import (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    INTERNAL_TOPICS,
    TopicIds,
)
from brokerstream.streaming.replay.recording import Exchange

INIT_PRODUCER_ID_VERSION = 4
FIND_COORDINATOR_VERSION = 4


class Earlier(msgspec.Struct, frozen=True):
    """A request of our own: what it is about, and its event's document."""

    about: str
    document: bytes


def earlier_requests(exchanges: Sequence[Exchange], cluster: str) -> list[Earlier]:
    """The requests that come before the first exchange, in order."""
    if not exchanges:
        return []
    topic_ids = TopicIds(exchanges)
    found = [*_producer_ids(exchanges), *_internal_topics(exchanges, topic_ids)]
    start = min(exchange.time for exchange in exchanges)
    encoder = msgspec.json.Encoder()
    return [
        Earlier(about, encoder.encode(_event(number, cluster, start, broker, header, body, chosen)))
        for number, (about, broker, header, body, chosen) in enumerate(found)
    ]


_Request = tuple[str, int, RequestHeader, dict[str, Any], Choices | None]


def _producer_ids(exchanges: Sequence[Exchange]) -> Iterator[_Request]:
    """A block of producer ids for each broker whose first InitProducerId got an id."""
    seen: set[int] = set()
    for exchange in exchanges:
        is_first = exchange.broker not in seen
        if exchange.header.request_api_key != INIT_PRODUCER_ID or not is_first:
            continue
        seen.add(exchange.broker)
        if isinstance(exchange.response, dict) and exchange.response.get("errorCode") == 0:
            header = RequestHeader(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION)
            body = {"transactionalId": None, "transactionTimeoutMs": 0}
            yield f"producer ids of broker {exchange.broker}", exchange.broker, header, body, None


def _internal_topics(exchanges: Sequence[Exchange], topic_ids: TopicIds) -> Iterator[_Request]:
    """The internal topic of each kind of coordinator whose first look-up found one."""
    seen: set[int] = set()
    for exchange in exchanges:
        if exchange.header.request_api_key != FIND_COORDINATOR:
            continue
        key_type = exchange.body().get("keyType", 0)
        if key_type in seen or not 0 <= key_type < len(INTERNAL_TOPICS):
            continue
        seen.add(key_type)
        if _found_coordinator(exchange.response):
            name = INTERNAL_TOPICS[key_type]
            topic_id = topic_ids.after(0, name)
            chosen = Choices(topic_ids={name: topic_id}) if topic_id is not None else None
            header = RequestHeader(FIND_COORDINATOR, FIND_COORDINATOR_VERSION)
            body = {"keyType": key_type, "coordinatorKeys": ["earlier"]}
            yield f"topic {name}", exchange.broker, header, body, chosen


def _found_coordinator(response: Any) -> bool:
    if not isinstance(response, dict):
        return False
    answers = response.get("coordinators", [response])
    return any(answer.get("errorCode") == 0 for answer in answers)


def _event(
    number: int,
    cluster: str,
    time: int,
    broker: int,
    header: RequestHeader,
    body: dict[str, Any],
    chosen: Choices | None,
) -> Event:
    return Event(
        id=f"earlier/{number}",
        cluster=cluster,
        broker=broker,
        time=time,
        nonce=f"earlier/{number}",
        request_header=header,
        request=msgspec.Raw(msgspec.json.encode(body)),
        choices=chosen,
    )
