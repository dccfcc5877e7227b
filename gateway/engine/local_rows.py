"""What the cell of the local engine gives out: answers and records as they are, the rest as rows.

A job's cell writes everything as bytes, for topics. Here nobody reads bytes: an answer goes to the
one who waits for it, and of the records only those that say which batches the logs have matter, and
that settings have changed.
"""

from typing import Any, cast, get_args

import msgspec

from brokertwin.gateway.engine.engine import Answer
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import Asked
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.records import (
    BatchAppended,
    ConfigChanged,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    PartitionChanged,
    Record,
    TopicRemoved,
)
from brokertwin.state.core.schema import Body

OF_LOGS = BatchAppended | LogCleaned | LogStartMoved | LogTaken | PartitionChanged | TopicRemoved
"""The records after which a log has other batches, or is another machine's."""

TOLD = OF_LOGS | ConfigChanged
"""The records that are given out."""

_TOLD = frozenset(get_args(TOLD))


class AnswerRow(Output, frozen=True, gc=False):
    """A row of `responses` whose value is `answer`; its `id` is the request's."""

    answer: Answer


class RecordRow(Output, frozen=True, gc=False):
    """A row of `records` whose value is `record`, applied by `machine`."""

    machine: int
    record: TOLD


class LocalRows(Rows):
    """Collects the outputs of one event; what nobody here reads is not written."""

    def response(
        self,
        source: Asked,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        """The answer to a request."""
        document = msgspec.to_builtins(response) if isinstance(response, Body) else response
        answer = Answer(document, None, closes_connection, mute_ms)
        row = AnswerRow(outputs.RESPONSES, None, None, None, source.event_id, answer)
        self.rows.append(row)

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        """A record, if it is about the batches of a log, or a setting."""
        if type(record) in _TOLD:
            told = cast("TOLD", record)
            self.rows.append(RecordRow(outputs.RECORDS, None, None, None, event_id, machine, told))

    def of_group(self, record: Record) -> None:
        """Offsets and groups have no topic of their own here."""
