"""Outputs of the local engine's cell, as objects.

A job's cell encodes all outputs for topics. Here, responses go directly to pending requests. Only
records that change the batches of logs, or settings, are needed. Only rare outputs, such as dead
letters, have the form of their topics.
"""

from typing import Any, cast, get_args

import msgspec

from brokertwin.gateway.engine.engine import EngineResponse
from brokertwin.protocol.bodies import Body, Uuid, render
from brokertwin.protocol.codec import response_type
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import AnyRequest
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.records import (
    BatchAppended,
    ConfigChanged,
    LineLogged,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    PartitionChanged,
    Record,
    TopicRemoved,
)
from brokertwin.state.logs.log import SealedSegment

OF_LOGS = BatchAppended | LogCleaned | LogStartMoved | LogTaken | PartitionChanged | TopicRemoved
"""Records that change the batches of a log, or its machine."""

RECORDS_READ = OF_LOGS | ConfigChanged | LineLogged
"""Records that are returned."""

_RECORDS_READ = frozenset(get_args(RECORDS_READ))


class LocalResponse(Output, frozen=True, gc=False):
    """A row of `responses` as an object; `id` is that of the request."""

    outcome: EngineResponse


class LocalRecord(Output, frozen=True, gc=False):
    """A row of `records` as an object, applied by `machine`."""

    machine: int
    record: RECORDS_READ


class LocalSegment(Output, frozen=True, gc=False):
    """A row of `segments` as an object: topic id, partition and base offset, and the batches."""

    place: tuple[Uuid, int, int]
    batches: list[dict[str, Any]] | None


class LocalTimer(Output, frozen=True, gc=False):
    """A row of `timers` as an object; the deadline is in ms since 1970."""

    deadline: int


class LocalRows(Rows):
    """Collects the outputs of one event; unused ones are dropped."""

    def response(
        self,
        source: AnyRequest,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        """Add a response."""
        if isinstance(response, dict):  # prepared before it was committed
            response = msgspec.convert(response, response_type(source.header.request_api_key))
        outcome = EngineResponse(response, None, closes_connection, mute_ms)
        row = LocalResponse(outputs.RESPONSES, None, None, None, source.event_id, outcome)
        self.rows.append(row)

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        """Add a record that changes the batches of a log, or a setting, or a log line."""
        if type(record) in _RECORDS_READ:
            read = cast("RECORDS_READ", record)
            self.rows.append(
                LocalRecord(outputs.RECORDS, None, None, None, event_id, machine, read)
            )

    def of_group(self, record: Record) -> None:
        """Ignore records of groups."""

    def segment(self, sealed: SealedSegment) -> None:
        """Add a chunk of an index that has left the state."""
        place = (sealed.topic_id, sealed.partition, sealed.base_offset)
        batches = [render(batch, 0) for batch in sealed.batches]
        self.rows.append(LocalSegment(outputs.SEGMENTS, None, None, None, "", place, batches))

    def segment_gone(self, topic_id: Uuid, partition: int, base_offset: int) -> None:
        """Add the tombstone of a sealed chunk that no log has any longer."""
        place = (topic_id, partition, base_offset)
        self.rows.append(LocalSegment(outputs.SEGMENTS, None, None, None, "", place, None))

    def timer(self, deadline: int) -> None:
        """Add a deadline at which time must advance."""
        self.rows.append(LocalTimer(outputs.TIMERS, None, None, None, "", deadline))
