"""Interface of an engine: processes requests and stores record batches.

The engine `local` (`local_engine.py`) has a cell in this process. The engine `spark`
(`spark_engine.py`) writes events to a job's request topic and reads responses from its response
topic.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from brokertwin.gateway.admin.known_settings import KnownSettings
from brokertwin.gateway.bounded_rates import RequestLimit
from brokertwin.protocol import bodies
from brokertwin.protocol.codec import response_type
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.generated.produce import TopicProduceData
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.events import REQUEST, Event, Kind, LogMark, RequestHeader
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.records import LogCleaned

NONCE_BYTES = 16
NONCES_DRAWN = 256
"""Nonces drawn at once, because a system call for each takes longer than the rest of an event."""

INCARNATION_BYTES = 6

Body = dict[str, Any]
"""A document in the form of Kafka's request log."""

AnyBody = bodies.Body | Body

Clock = Callable[[], int]
"""Returns the time in ms since 1970; never decreases."""


NOT_KEPT = "not kept"
"""Reason of a response to an event that could not be stored and was not processed."""


class NoResponseError(Exception):
    """No response will come; the message has the reason. The request may have been processed."""


class EdgeRequest(NamedTuple):
    """A request received by a logical broker.

    `host` is the client's address, without port. `body` is the request's struct, or a document.
    `listener` is set for APIs whose response depends on it.
    """

    broker: int
    connection: str
    principal: str
    host: str
    header: RequestHeader
    body: AnyBody
    listener: str = ""

    @property
    def api_key(self) -> int:
        return self.header.request_api_key

    @property
    def version(self) -> int:
        return self.header.request_api_version

    def document(self) -> RequestFrame:
        """Return the request in the form of Kafka's request log."""
        header = msgspec.to_builtins(self.header)
        return RequestFrame(header, document_of_body(self.body, self.version))


class EngineResponse(NamedTuple):
    """Result of a request.

    `response` is the response's struct, or a document where the model has no struct; None for acks
    0. `error` has reason and detail of a dead letter. `closes_connection` reports an error to a
    client that expects no response. `mute_ms` is the throttle time. `injected` is the error code
    that a fault put into the response.
    """

    response: AnyBody | None
    error: Body | None = None
    closes_connection: bool = False
    mute_ms: int = 0
    injected: int = 0

    def copied(self) -> "EngineResponse":
        """Return a copy for a later reader: the state may change the parts of a response."""
        response = self.response
        if response is None:
            return self
        copy = msgspec.convert(msgspec.to_builtins(response), type(response))
        return self._replace(response=copy)

    def document(self, version: int) -> Body:
        """Return the response in the form of Kafka's request log; empty without one."""
        return {} if self.response is None else document_of_body(self.response, version)


NULL = msgspec.Raw(b"null")


class ResponseRow(msgspec.Struct, rename="camel"):
    """Fields read from a row of `responses`."""

    response: msgspec.Raw = NULL
    error: Body | None = None
    closes_connection: bool = False
    mute_ms: int = 0
    request_header: RequestHeader | None = None

    def to_response(self) -> EngineResponse:
        """Convert to an engine's response; that of an intervention is a document."""
        response: AnyBody | None = None
        if self.response != NULL:
            header = self.request_header
            kind: type[AnyBody] = Body if header is None else response_type(header.request_api_key)
            response = msgspec.json.decode(self.response, type=kind)
        return EngineResponse(response, self.error, self.closes_connection, self.mute_ms)


OnBroker = Callable[[int, bool], None]
"""Called when a broker has stopped (True) or runs (False); may be repeated."""


class BrokerEngine(Protocol):
    """Processes requests and stores batch bytes."""

    cluster: str
    brokers: list[int]
    on_broker: OnBroker
    on_settings: Callable[[], None]
    """Called after broker settings have changed."""

    users_file: Path | None
    """File of users that authenticate no client; None: in memory."""

    @property
    def decides_here(self) -> bool:
        """Whether requests are decided in this process, one after the other."""

    @property
    def throttle_ms(self) -> int:
        """Throttle time for all responses while too many requests are pending."""

    async def start(self) -> None:
        """Start; recover the previous state."""

    async def close(self) -> None:
        """Shut down."""

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        """Submit a request; requests of one caller are processed in call order.

        The future raises NoResponseError if no response will come.
        """

    def disconnected(self, broker: int, connection: str) -> None:
        """Report the end of a connection for which the broker may keep state."""

    def intervene(
        self, kind: Kind, broker: int, directory: str = ""
    ) -> asyncio.Future[EngineResponse]:
        """Submit an intervention of `ABOUT_BROKERS`; the future is as that of `submit`.

        `directory` is the log directory that fails.
        """

    def features_epoch(self) -> int:
        """Return the offset of the last metadata record, or 0 if it is unknown."""

    def known_features(self) -> list[Body] | None:
        """Return the finalized features with levels, or None if they require a request."""

    def known(self, broker: int) -> KnownSettings:
        """Return the current settings, as a broker knows them."""

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        """Return the request time quota of a client, if any."""

    def codec_of(self, broker: int, topic: TopicProduceData) -> TopicCodec | None:
        """Return the codec that a topic of a Produce request requires, or None for `producer`."""

    def put(self, data: bytes) -> str | asyncio.Future[str]:
        """Store the bytes of a batch; return their locator, or a future with it. Raises OSError."""

    async def get(self, locator: str) -> bytes | None:
        """Return the bytes at a locator, or None if they are lost."""

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """Return the batches of a sealed segment, or None."""


class EventWriter:
    """Creates events: with an id, a time, and a nonce from which ids are derived.

    Args:
        responses_partitions: number of partitions of the topic `responses`.
        clock: time of events; default: this machine's clock.

    Attributes:
        incarnation: unique prefix of the ids of this writer's events.
        reply_to: partition of `responses` for the responses.
    """

    def __init__(
        self, cluster: str, responses_partitions: int = 1, clock: Clock | None = None
    ) -> None:
        self.incarnation = secrets.token_hex(INCARNATION_BYTES)
        self.reply_to = partition_of(self.incarnation.encode(), responses_partitions)
        self._cluster = cluster
        self._clock = clock or now_ms
        self._count = 0
        self._nonces: list[str] = []

    def request(self, request: EdgeRequest) -> Event:
        self._count += 1
        return Event(
            f"{self.incarnation}-{self._count}",
            self._cluster,
            request.broker,
            self._clock(),
            REQUEST,
            f"{self.incarnation}-{request.connection}",
            request.principal,
            False,
            request.host,
            request.listener,
            self._nonces.pop() if self._nonces else self._nonce(),
            self.reply_to,
            request.header,
            cast("msgspec.Raw", request.body),
        )

    def intervention(self, kind: Kind, broker: int, **fields: Any) -> Event:
        """Return an event of `INTERVENTIONS`, with fields of the event."""
        return self._event(kind, broker, reply_to=self.reply_to, nonce=self._nonce(), **fields)

    def disconnection(self, broker: int, connection: str) -> Event:
        return self._event(Kind.DISCONNECT, broker, connection=f"{self.incarnation}-{connection}")

    def settings_query(self, broker: int) -> Event:
        return self._event(Kind.TELL_SETTINGS, broker, reply_to=self.reply_to)

    def cleaning(self, broker: int, cleaned: LogCleaned, seen: LogMark) -> Event:
        found = msgspec.to_builtins(cleaned)
        return self._event(Kind.CLEAN_LOG, broker, cleaned=found, seen=seen)

    def tick(self) -> Event:
        """Return an event that only advances time."""
        return self._event(Kind.TICK)

    def _nonce(self) -> str:
        if not self._nonces:
            drawn = os.urandom(NONCE_BYTES * NONCES_DRAWN).hex()
            size = 2 * NONCE_BYTES
            self._nonces = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        return self._nonces.pop()

    def _next_id(self) -> str:
        self._count += 1
        return f"{self.incarnation}-{self._count}"

    def _event(self, kind: Kind, broker: int = 1, **fields: Any) -> Event:
        return Event(self._next_id(), self._cluster, broker, self._clock(), kind, **fields)


def document_of_body(body: AnyBody, version: int) -> Body:
    """Return a body in the form of Kafka's request log."""
    return body if isinstance(body, dict) else bodies.render(body, version)


def internal_header(api_key: int, version: int, client_id: str | None) -> RequestHeader:
    return RequestHeader(api_key, version, 0, client_id, KAFKA_APIS[api_key].name)


def ignore(*_: object) -> None:
    """Default callback of an engine without a gateway."""


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000
