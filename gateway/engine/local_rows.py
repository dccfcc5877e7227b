"""Outputs of the local engine's cell: responses and records as objects.

A job's cell encodes all outputs for topics. Here, responses go directly to pending requests. Only
records that change the batches of logs, or settings, are needed.
"""

from typing import Any, cast, get_args

import msgspec

from brokertwin.gateway.engine.engine import EngineResponse
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import Asked
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
from brokertwin.state.core.schema import Body

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


class LocalRows(Rows):
    """Collects the outputs of one event; unused ones are dropped."""

    def response(
        self,
        source: Asked,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        """Add a response."""
        document = msgspec.to_builtins(response) if isinstance(response, Body) else response
        outcome = EngineResponse(document, None, closes_connection, mute_ms)
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
