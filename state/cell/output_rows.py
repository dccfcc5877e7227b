"""Output rows of one event, as a cell collects and numbers them."""

from typing import Any

import msgspec

from brokertwin.protocol.bodies import Body, Uuid, render, shown
from brokertwin.state.core import outputs
from brokertwin.state.core.dead_letters import dead_letter, error_document
from brokertwin.state.core.decision import AnyRequest
from brokertwin.state.core.events import Event, Reason, Refusal, RequestHeader
from brokertwin.state.core.outputs import Output, Position, SegmentKey
from brokertwin.state.core.records import Record, RecordEntry
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.groups import group_rows
from brokertwin.state.logs import log as logs

_json = msgspec.json.Encoder()


class EventRefusedError(Exception):
    """Raised if an event cannot be handled; has the refusal."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.refusal = Refusal(reason, detail)


class Response(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """The content of a row of `responses`; times are in ms since 1970 (`docs/operations.md`)."""

    id: str
    cluster: str
    broker: int
    connection: str
    principal: str
    request_header: RequestHeader
    response_time: int
    response: Any
    closes_connection: bool = False
    mute_ms: int = 0


class Rows:
    """Collects the output rows of an event, and numbers those that are not responses.

    One instance serves all events of a cell.
    """

    def __init__(self, settings: CellSettings) -> None:
        self.settings = settings
        self._cluster = settings.cluster
        self._name = settings.name
        self._cell = settings.name.encode()
        self._bytes_max = settings.output_bytes_max
        self._writes_records = settings.writes_records
        self.position = Position(-1, 0)
        self.begin(Position(0, 0))

    def begin(self, position: Position) -> None:
        """Start with the event at a position; `rows` is a new list."""
        self._ids_begin = f"{self._name}/{position.place}/"
        self.position = position
        self.rows: list[Output] = []
        self._ordinal = 0

    def mark(self) -> tuple[int, int]:
        """Return the point that `reset` goes back to."""
        return len(self.rows), self._ordinal

    def reset(self, mark: tuple[int, int]) -> None:
        """Remove the rows since `mark`."""
        del self.rows[mark[0] :]
        self._ordinal = mark[1]

    def extend(self, rows: list[Output]) -> None:
        self.rows.extend(rows)

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Add a row with a new id. Raises EventRefusedError if it is too large for the topic."""
        size = len(key or b"") + len(value or b"")
        if size > self._bytes_max:
            raise EventRefusedError(
                Reason.OUTPUT_TOO_LARGE,
                f"a row for `{topic}` has {size} bytes; the limit is {self._bytes_max}",
            )
        number = self._ordinal
        self._ordinal = number + 1
        self.rows.append(Output(topic, None, key, value, f"{self._ids_begin}{number}"))

    def dead_letter(self, document: Event | bytes, refusal: Refusal) -> None:
        """Add the dead letter of something due before an event, beside the event's rows."""
        letter = dead_letter(self.settings, document, self.position, refusal)
        row_id = f"{letter.id}/{self._ordinal}"
        self.rows.append(msgspec.structs.replace(letter, id=row_id))
        self._ordinal += 1

    def response(
        self,
        source: AnyRequest,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        """Add the response to a request. Raises EventRefusedError if it is too large."""
        if response is not None and type(response) is not dict:  # `isinstance` is slow here
            response = shown(response, source.header.request_api_version)  # type: ignore[arg-type]
        value = _json.encode(
            Response(
                source.event_id,
                self._cluster,
                source.broker,
                source.connection,
                source.principal,
                source.header,
                now,
                response,
                closes_connection,
                mute_ms,
            )
        )
        if len(value) > self._bytes_max:
            raise self._too_large(value)
        self.rows.append(Output(outputs.RESPONSES, source.reply_to, None, value, source.event_id))

    def done(self, event: Event, now: int, content: msgspec.Struct | None = None) -> None:
        """Add the response to an event that is not a request.

        Raises EventRefusedError if it is too large.
        """
        document = {
            "id": event.id,
            "cluster": self.settings.cluster,
            "broker": event.broker,
            "kind": event.kind,
            "responseTime": now,
            "response": content or {},
        }
        value = _json.encode(document)
        if len(value) > self._bytes_max:
            raise self._too_large(value)
        self.rows.append(Output(outputs.RESPONSES, event.reply_to, None, value, event.id))

    def _too_large(self, value: bytes) -> EventRefusedError:
        detail = f"the answer has {len(value)} bytes; the limit is {self._bytes_max}"
        return EventRefusedError(Reason.OUTPUT_TOO_LARGE, detail)

    def broker_changed(self, cause: str, broker: int, is_stopped: bool) -> None:
        """Add that a broker has stopped or started, in every partition, for every gateway."""
        change = outputs.BrokerChange(self.settings.cluster, broker, is_stopped)
        value = _json.encode(change)
        for partition in range(self.settings.responses_partitions):
            row_id = f"{outputs.BROKER_CHANGES}{cause}/{partition}"
            self.rows.append(Output(outputs.RESPONSES, partition, None, value, row_id))

    def error(self, source: AnyRequest, refusal: Refusal) -> None:
        """Add the error response to a request that has become a dead letter."""
        document = {
            "id": source.event_id,
            "cluster": self._cluster,
            "broker": source.broker,
            "connection": source.connection,
            "principal": source.principal,
            "requestHeader": source.header,
        }
        value = error_document(self.settings, document, refusal)
        self.rows.append(Output(outputs.RESPONSES, source.reply_to, None, value, source.event_id))

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        """Add the row of a record to the history; without it, other rows keep their ids."""
        if self._writes_records:
            entry = RecordEntry(machine, now, event_id, record)
            self.add(outputs.RECORDS, self._cell, _json.encode(entry))
        else:
            self._ordinal += 1

    def of_group(self, record: Record) -> None:
        """Add the compacted row of an offset or a group; other records have none."""
        row = group_rows.encode(record)
        if row is not None:
            key, value = row
            self.add(outputs.offsets_topic(self.settings.cluster), key, value)

    def segment(self, sealed: logs.SealedSegment) -> None:
        """Add a chunk of an index that has left the state."""
        place = (sealed.topic_id, sealed.partition, sealed.base_offset)
        key = SegmentKey(self.settings.cluster, *place)
        value = msgspec.to_builtins(key)
        value["batches"] = [render(batch, 0) for batch in sealed.batches]
        self.add(outputs.SEGMENTS, _json.encode(key), _json.encode(value))

    def segment_gone(self, topic_id: Uuid, partition: int, base_offset: int) -> None:
        """Add the tombstone of a sealed chunk that no log has any longer."""
        key = SegmentKey(self.settings.cluster, topic_id, partition, base_offset)
        self.add(outputs.SEGMENTS, _json.encode(key), None)

    def request(self, cell: str, event: Event) -> None:
        self.add(outputs.REQUESTS, cell.encode(), _json.encode(event))

    def timer(self, deadline: int) -> None:
        value = {"cluster": self.settings.cluster, "deadline": deadline}
        self.add(outputs.TIMERS, self._cell, _json.encode(value))
