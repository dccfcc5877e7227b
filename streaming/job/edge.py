"""The edge: what is put on an event before it goes to `requests`, and what is refused there.

A document from outside becomes an event with id, cluster, broker and nonce; its principal is marked
as asserted: nobody has checked it. What the job would only make a dead letter of is refused at
once, with the same checks that a cell makes. Recorded answers (`response`, `responseTime`,
`delivered`) are left out.

Of a recorded cluster's own traffic two kinds of requests are refused, because the machine makes
them itself: the copy that a broker forwarded to the controller, and what came in on the
controller's listener.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io.placement import Placement
from brokertwin.recordings.formats.documents import clusters_own, is_controllers
from brokertwin.recordings.formats.order import Arrivals
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.output_rows import EventRefusedError
from brokertwin.state.cell.requests import api_of
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
from brokertwin.state.core.schema import Int32, Int64
from brokertwin.wording import counted

NONCE_BYTES = 16
NOT_GIVEN = msgspec.Raw(b"")
INTERNAL_FIELDS = {"choices": "choices", "isHeld": "is_held", "of": "of"}
"""Fields of events that only brokertwin itself writes, and what they are called here."""


class Sendable(NamedTuple):
    """An event that may be sent: its cell (the key), its partition, its document.

    `time` is the event's, in ms since 1970; `connection` is its connection's name.
    """

    cell: str
    partition: int
    document: bytes
    id: str
    time: int
    connection: str


class _Outside(msgspec.Struct, rename="camel", omit_defaults=True):
    """What is taken over from a document; the type of an Event, but nothing is required."""

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


_outside_decoder = msgspec.json.Decoder(_Outside)
_encoder = msgspec.json.Encoder()
_body_decoders = {key: api.decoder() for key, api in BUILT.items()}


def by_time(events: Iterable[tuple[str, Sendable]]) -> list[Sendable]:
    """Events of several files, (file, event) in the order of their lines, as one history.

    They are ordered by time, ties by file and line. Requests of one connection keep their order,
    whatever their times say: Kafka answers them one after the other.
    """
    arrivals = Arrivals()
    keyed = [
        (arrivals.time((file, event.connection), event.time), place, event)
        for place, (file, event) in enumerate(events)
    ]
    keyed.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in keyed]


class Edge:
    """Makes events for the clusters of a job.

    Args:
        placements: the job's clusters by name, from the topic `placement`.
        cluster: the cluster of documents that name none; None where the job has several.
        broker: the broker of documents that name none; None: the cluster's first.
        now: gives the time, in ms since 1970, for documents that have none.

    Attributes:
        controllers: listeners of controllers: requests on them are the cluster's own. Requests
            that only a controller gets add theirs.
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
        """The event that a document stands for, or why there is none.

        Args:
            document: one JSON object in the shape of Kafka's request log.
            event_id: the id of an event whose document has none.
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

    def _placement(self, outside: _Outside) -> Placement | Refusal:
        name = outside.cluster or self._cluster
        known = ", ".join(sorted(self._placements))
        if name is None:
            return Refusal(Reason.MISSING_FIELD, f"no `cluster`, but the job has several: {known}")
        placed = self._placements.get(name)
        if placed is None:
            return Refusal(Reason.UNKNOWN_CLUSTER, f"this job has clusters {known}, not {name!r}")
        return placed

    def _check(self, outside: _Outside, event: Event, placed: Placement) -> Refusal | None:
        """What concerns the frame of the event."""
        internal = [name for name, own in INTERNAL_FIELDS.items() if bytes(getattr(outside, own))]
        if outside.kind not in (Kind.REQUEST, Kind.DISCONNECT) or internal:
            what = f"kind {outside.kind!r}" if outside.kind != Kind.REQUEST else f"`{internal[0]}`"
            return Refusal(Reason.INTERNAL_KIND, f"{what} cannot be sent by clients")
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


def check_event(document: bytes) -> Refusal | None:
    """What a cell would refuse before it handles the request, or the end of a connection."""
    event = decode_event(document)
    if isinstance(event, Refusal):
        return event
    if event.kind == Kind.DISCONNECT:
        return None
    assert event.request_header is not None
    try:
        api = api_of(event.request_header)
    except EventRefusedError as refused:
        return refused.refusal
    body = decode_body(event.request, _body_decoders[api.key])
    return body if isinstance(body, Refusal) else None
