"""A recorded exchange, and the observer's view of its bodies.

An exchange has two moments: a broker thread took the request, and the response was made. Bodies
with all fields are those of other rooms. The ones here are less strict: they have only the fields
in use, with defaults for other versions.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from brokertwin.state.cluster.image import LeaderIdAndEpoch
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.schema import ZERO_UUID, Body, Uuid
from brokertwin.state.fetch.fetch_bodies import DivergingEpoch

ANY_REPLICA = -2
"""Replica id of a tool that reads any replica (Kafka's debugging consumer)."""

METADATA_TOPIC_ID: Uuid = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The metadata log of the controllers, which is not a partition of a broker."""

B = TypeVar("B", bound=Body)
_decoders: dict[type[Body], msgspec.json.Decoder[Body]] = {}


class ObservedExchange(NamedTuple):
    """A recorded request and its response.

    Attributes:
        place: file and line.
        broker: the broker that received the request.
        taken: when a thread took the request, in ms since 1970.
        made: when the response was made.
        has_waited: the response was made later, in a purgatory.
        header: the request's header.
        request: the request's body as JSON.
        response: the response's body as JSON, `null` if there is none.
    """

    place: str
    broker: int
    taken: float
    made: float
    has_waited: bool
    header: RequestHeader
    request: bytes
    response: bytes

    def request_body(self, body_type: type[B]) -> B:
        """The request's body. Raises msgspec.MsgspecError for another shape."""
        return _decoded(self.request, body_type)

    def response_body(self, body_type: type[B]) -> B:
        """The response's body. Raises msgspec.MsgspecError for another shape."""
        return _decoded(self.response, body_type)


def _decoded(body: bytes, body_type: type[B]) -> B:
    decoder = _decoders.get(body_type)
    if decoder is None:
        decoder = _decoders[body_type] = msgspec.json.Decoder(body_type)
    return decoder.decode(body)  # type: ignore[return-value]


class ExchangeMoment(NamedTuple):
    """One of the two moments of an exchange, in ms since 1970."""

    time: float
    number: int
    is_response: bool
    exchange: ObservedExchange


def moments(exchanges: Iterable[ObservedExchange]) -> Iterator[ExchangeMoment]:
    """Moments in order, of exchanges in the order of their requests."""
    open_moments: list[ExchangeMoment] = []
    for number, exchange in enumerate(exchanges):
        while open_moments and open_moments[0].time < exchange.taken:
            yield heapq.heappop(open_moments)
        heapq.heappush(open_moments, ExchangeMoment(exchange.taken, number, False, exchange))
        heapq.heappush(open_moments, ExchangeMoment(exchange.made, number, True, exchange))
    while open_moments:
        yield heapq.heappop(open_moments)


# Fetch


class FetchedPartition(Body):
    partition_index: int
    error_code: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    current_leader: LeaderIdAndEpoch = msgspec.field(default_factory=LeaderIdAndEpoch)
    diverging_epoch: DivergingEpoch = msgspec.field(default_factory=DivergingEpoch)


class FetchedTopic(Body):
    topic: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchedPartition] = []


class ObservedFetchResponse(Body):
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchedTopic] = []


# AlterPartition


class IsrRequestBroker(Body):
    broker_id: int


class IsrRequestPartition(Body):
    partition_index: int
    leader_epoch: int = -1
    new_isr: list[int] = []
    new_isr_with_epochs: list[IsrRequestBroker] = []

    @property
    def wanted_isr(self) -> list[int]:
        """The in-sync set that the leader requests."""
        return self.new_isr or [each.broker_id for each in self.new_isr_with_epochs]


class IsrRequestTopic(Body):
    topic_id: Uuid = ZERO_UUID
    partitions: list[IsrRequestPartition] = []


class IsrRequest(Body):
    broker_id: int
    topics: list[IsrRequestTopic] = []


# Metadata and DescribeTopicPartitions


class MetadataPartition(Body):
    partition_index: int
    error_code: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []


class MetadataTopic(Body):
    error_code: int = 0
    name: str | None = None
    topic_id: Uuid = ZERO_UUID
    partitions: list[MetadataPartition] = []


class ObservedMetadataResponse(Body):
    topics: list[MetadataTopic] | None = None
