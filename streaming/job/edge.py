"""The edge: turns documents into events for `requests`, or rejects them.

An event has an id, cluster, broker and nonce. Its principal is marked as asserted, because it was
not authenticated. Documents that would become dead letters are rejected at once, with the checks of
a cell. Recorded results (`response`, `responseTime`, `delivered`) are dropped.

Two kinds of internal requests of a recorded cluster are rejected, because the model creates them
itself: copies forwarded to the controller, and requests on the controller's listener.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io.placement import Placement
from brokertwin.protocol.bodies import Int32, Int64
from brokertwin.recordings.formats.documents import clusters_own, is_controllers
from brokertwin.recordings.formats.order import ArrivalOrder
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.event_loop import api_of
from brokertwin.state.cell.output_rows import EventRefusedError
from brokertwin.state.core.events import (
    Event,
    Kind,
    Reason,
    Refusal,
    RequestHeader,
    decode_body,
    decode_event,
    refusal_of,
)
from brokertwin.state.core.settings import KAFKA_4_4, BrokerSettings
from brokertwin.wording import counted

NONCE_BYTES = 16
NOT_GIVEN = msgspec.Raw(b"")
INTERNAL_FIELDS = {"choices": "choices", "isHeld": "is_held", "of": "of"}
"""Fields of internal events, and their names here."""


class Sendable(NamedTuple):
    """An event to send: its cell (the key), partition and document.

    `time` is in ms since 1970; `connection` is the connection's name.
    """

    cell: str
    partition: int
    document: bytes
    id: str
    time: int
    connection: str


class UncheckedEvent(msgspec.Struct, rename="camel", omit_defaults=True):
    """Accepted fields of a document: those of an Event, all optional."""

    id: str = ""
    cluster: str = ""
    broker: Int32 | None = None
    time: Int64 | None = None
    kind: str = Kind.REQUEST
    connection: str = ""
    principal: str = "User:ANONYMOUS"
    host: str = ""
    listener: str = ""
    is_forwarded: bool = False
    nonce: str = ""
    reply_to: Int32 = 0
    request_header: RequestHeader | None = None
    request: msgspec.Raw = msgspec.Raw(b"null")
    choices: msgspec.Raw = NOT_GIVEN
    is_held: msgspec.Raw = NOT_GIVEN
    of: msgspec.Raw = NOT_GIVEN


_outside_decoder = msgspec.json.Decoder(UncheckedEvent)
_encoder = msgspec.json.Encoder()
_body_decoders = {key: api.decoder() for key, api in BUILT.items()}


def by_time(events: Iterable[tuple[str, Sendable]]) -> list[Sendable]:
    """Merge events of several files, given in line order, by time.

    Ties are ordered by file and line. Requests of a connection keep their order, because Kafka
    answers them in sequence.
    """
    arrivals = ArrivalOrder()
    keyed = [
        (arrivals.time((file, event.connection), event.time), place, event)
        for place, (file, event) in enumerate(events)
    ]
    keyed.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in keyed]


class JobEdge:
    """Creates events for the clusters of a job.

    Args:
        placements: the job's clusters by name, from the topic `placement`.
        cluster: default cluster; None if the job has several.
        broker: default broker; None means the cluster's first.
        now: returns the default time, in ms since 1970.

    Attributes:
        controllers: listeners of controllers, whose requests are internal. Requests that only
            controllers handle add their listener.
    """

    def __init__(
        self,
        placements: dict[str, Placement],
        cluster: str | None,
        broker: int | None,
        now: Callable[[], int],
    ) -> None:
        self._placements = placements
        self._cluster = cluster
        self._broker = broker
        self._now = now
        self.controllers: set[str] = set()

    def event(self, document: bytes, event_id: str) -> Sendable | Refusal:
        """Return the event for a document, or the reason of a rejection.

        Args:
            document: a JSON object in the format of Kafka's request log.
            event_id: the id if the document has none.
        """
        try:
            outside = _outside_decoder.decode(document)
        except (UnicodeDecodeError, RecursionError, msgspec.MsgspecError) as error:
            return refusal_of(error)
        placed = self._placement(outside)
        if isinstance(placed, Refusal):
            return placed
        broker = outside.broker if outside.broker is not None else self._broker
        is_end = outside.kind == Kind.DISCONNECT
        event = Event(
            id=outside.id or event_id,
            cluster=placed.cluster,
            broker=broker if broker is not None else placed.brokers[0],
            time=outside.time if outside.time is not None else self._now(),
            kind=Kind.DISCONNECT if is_end else Kind.REQUEST,
            connection=outside.connection,
            principal=outside.principal,
            principal_is_asserted=True,
            host=outside.host,
            nonce=outside.nonce or secrets.token_hex(NONCE_BYTES),
            reply_to=outside.reply_to,
            request_header=outside.request_header,
            request=outside.request,
        )
        encoded = _encoder.encode(event)
        refusal = self._check(outside, event, placed) or check_event(encoded)
        if refusal is not None:
            return refusal
        cell = placed.cell_of(event.broker)
        return Sendable(
            cell, placed.partition_of(cell), encoded, event.id, event.time, event.connection
        )

    def _placement(self, outside: UncheckedEvent) -> Placement | Refusal:
        name = outside.cluster or self._cluster
        names = ", ".join(sorted(self._placements))
        if name is None:
            return Refusal(Reason.MISSING_FIELD, f"no `cluster`, but the job has several: {names}")
        placed = self._placements.get(name)
        if placed is None:
            return Refusal(Reason.UNKNOWN_CLUSTER, f"this job has clusters {names}, not {name!r}")
        return placed

    def _check(self, outside: UncheckedEvent, event: Event, placed: Placement) -> Refusal | None:
        internal = [name for name, own in INTERNAL_FIELDS.items() if bytes(getattr(outside, own))]
        if outside.kind not in (Kind.REQUEST, Kind.DISCONNECT) or internal:
            subject = (
                f"kind {outside.kind!r}" if outside.kind != Kind.REQUEST else f"`{internal[0]}`"
            )
            return Refusal(Reason.INTERNAL_KIND, f"{subject} cannot be sent by clients")
        if event.kind == Kind.DISCONNECT and not event.connection:
            return Refusal(Reason.MISSING_FIELD, "no `connection` for the end of a connection")
        header = outside.request_header
        if header is not None and is_controllers(header, bytes(outside.request)):
            self.controllers.add(outside.listener)
        own = clusters_own(outside.listener, outside.is_forwarded, self.controllers - {""})
        if own:
            return Refusal(Reason.CLUSTERS_OWN, own)
        if event.broker not in placed.brokers:
            return Refusal(
                Reason.UNKNOWN_BROKER, f"broker {event.broker} is not one of {placed.brokers}"
            )
        if not 0 <= event.reply_to < placed.responses_partitions:
            return Refusal(
                Reason.REPLY_TO,
                f"replyTo is {event.reply_to}, but `responses` has"
                f" {counted(placed.responses_partitions, 'partition')}",
            )
        return None


_NEWEST = BrokerSettings(brokertwin_kafka_version=KAFKA_4_4)
"""Of the release with the most versions; a cell itself refuses what its release lacks."""


def check_event(document: bytes) -> Refusal | None:
    """Return the refusal of a cell before it handles the request, if any."""
    event = decode_event(document)
    if isinstance(event, Refusal):
        return event
    if event.kind == Kind.DISCONNECT:
        return None
    assert event.request_header is not None
    try:
        api = api_of(event.request_header, _NEWEST)
    except EventRefusedError as refused:
        return refused.refusal
    body = decode_body(event.request, _body_decoders[api.key])
    return body if isinstance(body, Refusal) else None
