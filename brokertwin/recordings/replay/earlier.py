"""Recreates what a broker had before its recording began.

Producer ids may have been allocated, and internal topics may have existed. A new model would return
14 COORDINATOR_LOAD_IN_PROGRESS to the first InitProducerId, 15 COORDINATOR_NOT_AVAILABLE to the
first coordinator lookups, and 16 NOT_COORDINATOR to a commit without a lookup. If the first
recorded response shows that the real broker was past that, a request before the recording brings
the model there. Such requests are not compared or counted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from brokertwin.protocol.kafka_apis import FIND_COORDINATOR, INIT_PRODUCER_ID, Trait
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.choices import INTERNAL_TOPICS, TopicIds
from brokertwin.recordings.replay.picks import NOWHERE
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Choices, Event, RequestHeader

GROUP = 0
"""The key type of groups."""

OF_THE_BROKER = frozenset({3, 15, 16, 29, 30, 53, 100})
"""Errors of a commit without a coordinator."""

INIT_PRODUCER_ID_VERSION = 4
FIND_COORDINATOR_VERSION = 4


class Earlier(msgspec.Struct, frozen=True):
    """An added request: its purpose and its event."""

    about: str
    document: bytes


def earlier_requests(exchanges: Sequence[Exchange], cluster: str, part: str = "") -> list[Earlier]:
    """Return the requests before the first exchange, in order. `part` is a prefix of their ids."""
    if not exchanges:
        return []
    topic_ids = TopicIds(exchanges)
    found = [*_producer_ids(exchanges), *_internal_topics(exchanges, topic_ids)]
    start = min(exchange.time for exchange in exchanges)
    encode = msgspec.json.Encoder().encode
    return [
        Earlier(each[0], encode(_event(f"{part}earlier/{number}", cluster, start, each)))
        for number, each in enumerate(found)
    ]


def lacking(found: Sequence[Earlier], cell: Cell) -> list[Earlier]:
    """Return the requests that a cell needs, by trying them on a copy.

    A cell restored from a stored state may need none.
    """
    copy, needed = cell.copy(), []
    for request in found:
        responses = local.responses_in(copy.handle(request.document, NOWHERE)).values()
        if not any(_found_coordinator(response.response) for response in responses):
            needed.append(request)
    return needed


_Request = tuple[str, int, RequestHeader, dict[str, Any], Choices | None]


def _producer_ids(exchanges: Sequence[Exchange]) -> Iterator[_Request]:
    """Yield a request for each broker whose first InitProducerId succeeded."""
    seen: set[int] = set()
    for exchange in exchanges:
        is_first = exchange.broker not in seen
        if exchange.header.request_api_key != INIT_PRODUCER_ID.key or not is_first:
            continue
        seen.add(exchange.broker)
        if isinstance(exchange.response, dict) and exchange.response.get("errorCode") == 0:
            header = RequestHeader(INIT_PRODUCER_ID.key, INIT_PRODUCER_ID_VERSION)
            body = {"transactionalId": None, "transactionTimeoutMs": 0}
            yield f"producer ids of broker {exchange.broker}", exchange.broker, header, body, None


def _internal_topics(exchanges: Sequence[Exchange], topic_ids: TopicIds) -> Iterator[_Request]:
    seen: set[int] = set()
    for exchange in exchanges:
        key_type = _coordinator_type(exchange)
        if key_type is None or key_type in seen:
            continue
        seen.add(key_type)
        is_look_up = exchange.header.request_api_key == FIND_COORDINATOR.key
        found = _found_coordinator if is_look_up else _handled_by_coordinator
        if found(exchange.response):
            name = INTERNAL_TOPICS[key_type]
            topic_id = topic_ids.after(0, name)
            chosen = Choices(topic_ids={name: topic_id}) if topic_id is not None else None
            header = RequestHeader(FIND_COORDINATOR.key, FIND_COORDINATOR_VERSION)
            body = {"keyType": key_type, "coordinatorKeys": ["earlier"]}
            yield f"topic {name}", exchange.broker, header, body, chosen


def _coordinator_type(exchange: Exchange) -> int | None:
    if exchange.has(Trait.COMMITS_OFFSETS):
        return GROUP
    if exchange.header.request_api_key != FIND_COORDINATOR.key:
        return None
    key_type = int(exchange.body().get("keyType", GROUP))
    return key_type if 0 <= key_type < len(INTERNAL_TOPICS) else None


def _handled_by_coordinator(response: Any) -> bool:
    """Whether the group's coordinator handled a commit."""
    topics = response.get("topics", ()) if isinstance(response, dict) else ()
    codes = [p.get("errorCode") for topic in topics for p in topic.get("partitions", ())]
    return any(code not in OF_THE_BROKER for code in codes)


def _found_coordinator(response: Any) -> bool:
    """Whether a FindCoordinator or InitProducerId response has no error."""
    if not isinstance(response, dict):
        return False
    responses = response.get("coordinators", [response])
    return any(response.get("errorCode") == 0 for response in responses)


def _event(name: str, cluster: str, time: int, request: _Request) -> Event:
    _, broker, header, body, chosen = request
    return Event(
        id=name,
        cluster=cluster,
        broker=broker,
        time=time,
        nonce=name,
        request_header=header,
        request=msgspec.Raw(msgspec.json.encode(body)),
        choices=chosen,
    )
