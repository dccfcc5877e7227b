"""The timeline of a transactional id: its transactions, their contents, and how each ended.

It is the timeline of its producer with transactions as responses show them. One begins with the
first partition, offset or batch that a broker accepts. It ends with EndTxn, or with the next
InitProducerId, because the coordinator then aborts a transaction that is open.
"""

from collections.abc import Sequence
from typing import Any

from brokertwin.errors import UserError
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.history import producers
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.replay.recording import Exchange


class TransactionTimeline(ProducerTimeline):
    """A transactional id in a recording.

    Args:
        exchanges: the recording.
        key: the transactional id, or the producer id of one.

    Raises:
        UserError: the recording has no such producer, or it has no transactional id.
    """

    def __init__(self, exchanges: Sequence[Exchange] | ObservedRecording, key: str) -> None:
        super().__init__(exchanges, key)
        if not self.entity.name:
            raise UserError(
                f"Producer {key} has no transactional id in the recording.",
                f"Show its batches with: brokertwin explain producer {key}",
            )

    def ending(self) -> list[str]:
        """Each transaction, and the epoch of each producer id."""
        opened = self.entity.transaction
        lines = [each["words"] for each in self.ended]
        lines += [opened.words()] if opened is not None else []
        return lines + self._in_epochs()

    @property
    def ended(self) -> list[dict[str, Any]]:
        """The facts of the transactions that have ended, in their order."""
        subject = f"producer {self.entity.name}"
        found = self._recording.found(producers.PRODUCERS, "transaction")
        return [e.facts for e in found if e.subject == subject and "words" in e.facts]

    def _entry(
        self, exchange: RecordedExchange, found: Sequence[EntityFinding]
    ) -> TimelineEntry | None:
        entry = super()._entry(exchange, found)
        if entry is None:
            return None
        notes = [each.said for each in found if each.kind == "transaction"]
        return entry._replace(notes=[*notes, *entry.notes])
