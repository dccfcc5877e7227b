"""What the gateway asks of an engine: answers to requests, and a place for record batches.

The engine `local` (`local_engine.py`) has a cell in this process. One that writes events to a job's
request topic and reads answers from its response topic offers the same.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from brokertwin.gateway.bounded_rates import RateLimit, RequestLimit
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.events import Kind, LogMark
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.core.settings import BrokerSettings

NONCE_BYTES = 16
NONCES_DRAWN = 256
"""How many nonces are drawn at once: asking the system takes longer than the rest of an event."""

INCARNATION_BYTES = 6

Body = dict[str, Any]

Clock = Callable[[], int]
"""Gives the time in ms since 1970; it never runs back."""


NOT_KEPT = "not kept"
"""The reason of an answer to what could not be written down, and so was not decided."""


class UnansweredError(Exception):
    """No answer will come; the text says why. The request may have been decided all the same."""


class EdgeRequest(NamedTuple):
    """A request as it came to a logical broker.

    `host` is the client's address, without a port; `body` is as events have it. `listener` is by
    which one the client came, where the answer says where brokers are.
    """

    broker: int
    connection: str
    principal: str
    host: str
    header: Body
    body: Body
    listener: str = ""


class Answer(NamedTuple):
    """What became of a request.

    `response` is its body, None for acks 0; `error` has the reason and the detail of a dead letter.
    `closes_connection` tells a client that waits for no answer of an error, `mute_ms` for how long
    it is not heard.
    """

    response: Body | None
    error: Body | None = None
    closes_connection: bool = False
    mute_ms: int = 0


class ResponseRow(msgspec.Struct, rename="camel"):
    """What is read of a row of `responses`."""

    response: Body | None = None
    error: Body | None = None
    closes_connection: bool = False
    mute_ms: int = 0

    def answer(self) -> Answer:
        """It as an engine gives it."""
        return Answer(self.response, self.error, self.closes_connection, self.mute_ms)


HeedBroker = Callable[[int, bool], None]
"""Is told that a broker has stopped (True), or is there (False); it may be told again."""


class Engine(Protocol):
    """Decides requests and keeps bytes."""

    cluster: str
    brokers: list[int]
    heed_broker: HeedBroker
    heed_settings: Callable[[], None]
    """Is told that settings of brokers have changed."""

    users_file: Path | None
    """Where users are kept that authenticate no client; None: in memory."""

    @property
    def throttle_ms(self) -> int:
        """What answers ask clients to wait before they ask again, because there are too many."""

    async def start(self) -> None:
        """Get ready; events of before are taken up again."""

    async def close(self) -> None:
        """End in order."""

    def submit(self, request: EdgeRequest) -> asyncio.Future[Answer]:
        """Hand over a request; those of one caller are decided in the order of the calls.

        The future raises UnansweredError where no answer will come.
        """

    def disconnected(self, broker: int, connection: str) -> None:
        """Tell the broker that a connection has ended that it may hold something for."""

    def intervene(self, kind: Kind, broker: int, directory: str = "") -> asyncio.Future[Answer]:
        """Do to a broker what `ABOUT_BROKERS` names; the future is as that of `submit`.

        `directory` is the log directory that fails.
        """

    def features_epoch(self) -> int:
        """Return the offset of the last metadata record; 0 if it is not known."""

    def known_features(self) -> list[Body] | None:
        """The finalized features with their levels; None where they have to be asked for."""

    def settings_of(self, broker: int) -> BrokerSettings:
        """The settings that hold for a broker, without secrets."""

    def changed_settings(self, broker: int) -> Mapping[str, str]:
        """The settings that hold for a broker other than those that it was started with."""

    def connection_limit(self, broker: int, host: str) -> RateLimit | None:
        """How fast a broker takes connections from an address; None: as fast as they come."""

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        """How much of the gateway's time a client's requests may take; None: all of it."""

    def codec_of(self, broker: int, topic: Body) -> TopicCodec | None:
        """The codec that a topic of a Produce request asks for; None: that of the producer."""

    def put(self, data: bytes) -> asyncio.Future[str]:
        """Begin to keep the bytes of a batch; their locator, or OSError."""

    async def get(self, locator: str) -> bytes | None:
        """The bytes at a locator, None where they are lost."""

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """The batches of a sealed part of a log, None where there is no such part."""


class _RequestEvent(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A request's event as it is written; `Event` is what the machine reads of it."""

    id: str
    cluster: str
    time: int
    broker: int
    connection: str
    reply_to: int
    principal: str
    host: str
    nonce: str
    request_header: Body
    request: Body
    listener: str = ""


class EventWriter:
    """Makes events of requests: with an id, a time, and a nonce from which the machine draws ids.

    Args:
        cluster: the name of the cluster.
        responses_partitions: how many the topic `responses` has.
        clock: gives the events' times; without it this machine's clock.

    Attributes:
        incarnation: what the ids of this writer's events begin with, and no other's.
        reply_to: the partition of `responses` that takes the answers.
    """

    def __init__(
        self, cluster: str, responses_partitions: int = 1, clock: Clock | None = None
    ) -> None:
        self.incarnation = secrets.token_hex(INCARNATION_BYTES)
        self.reply_to = partition_of(self.incarnation.encode(), responses_partitions)
        self._cluster = cluster
        self._clock = clock or now_ms
        self._encoder = msgspec.json.Encoder()
        self._count = 0
        self._nonces: list[str] = []

    def request(self, request: EdgeRequest) -> tuple[str, bytes]:
        """Id and document of a request's event."""
        event_id = self._next_id()
        event = _RequestEvent(
            event_id,
            self._cluster,
            self._clock(),
            request.broker,
            self._connection(request.connection),
            self.reply_to,
            request.principal,
            request.host,
            self._nonce(),
            request.header,
            request.body,
            request.listener,
        )
        return event_id, self._encoder.encode(event)

    def intervention(self, kind: Kind, broker: int, directory: str) -> tuple[str, bytes]:
        """Id and document of an event of `ABOUT_BROKERS`."""
        event = {"kind": kind, "broker": broker, "replyTo": self.reply_to, "nonce": self._nonce()}
        return self._write(event | ({"directory": directory} if directory else {}))

    def disconnection(self, broker: int, connection: str) -> tuple[str, bytes]:
        """Id and document of an event that says that a connection has ended."""
        named = self._connection(connection)
        return self._write({"kind": Kind.DISCONNECT, "broker": broker, "connection": named})

    def question(self, broker: int) -> tuple[str, bytes]:
        """Id and document of an event that asks for the settings that a gateway acts on."""
        told = {"kind": Kind.TELL_SETTINGS, "broker": broker, "replyTo": self.reply_to}
        return self._write(told)

    def _connection(self, name: str) -> str:
        """A connection's name as no other writer's connection has it."""
        return f"{self.incarnation}-{name}"

    def cleaning(self, broker: int, cleaned: LogCleaned, seen: LogMark) -> tuple[str, bytes]:
        """Id and document of an event that says what a pass of the cleaner has left of a log."""
        told = {"kind": Kind.CLEAN_LOG, "broker": broker, "cleaned": cleaned, "seen": seen}
        return self._write(told)

    def tick(self) -> bytes:
        """The document of an event that only lets time pass."""
        return self._write({"kind": "tick"})[1]

    def _nonce(self) -> str:
        if not self._nonces:
            drawn = os.urandom(NONCE_BYTES * NONCES_DRAWN).hex()
            size = 2 * NONCE_BYTES
            self._nonces = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        return self._nonces.pop()

    def _next_id(self) -> str:
        self._count += 1
        return f"{self.incarnation}-{self._count}"

    def _write(self, fields: Body) -> tuple[str, bytes]:
        event_id = self._next_id()
        frame = {"id": event_id, "cluster": self._cluster, "time": self._clock()}
        return event_id, self._encoder.encode({**frame, **fields})


def heed_nothing(*_: object) -> None:
    """What an engine tells that has nobody in front of it."""


def now_ms() -> int:
    """The time in ms since 1970."""
    return time.time_ns() // 1_000_000
