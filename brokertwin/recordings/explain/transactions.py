"""The timeline of a transactional id: its transactions, their contents, and how each ended.

It is the timeline of its producer with transactions as responses show them. One begins with the
first partition, offset or batch that a broker accepts. It ends with EndTxn, or with the next
InitProducerId, because the coordinator then aborts a transaction that is open.
"""

from collections.abc import Sequence

from brokertwin.errors import UserError
from brokertwin.recordings import sentences
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.history import producers
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import (
    Finding,
    TransactionBegan,
    TransactionEnded,
    TransactionTookIn,
    TransactionWaited,
)
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.replay.recording import Exchange

NOTES = (TransactionBegan, TransactionTookIn, TransactionWaited, TransactionEnded)


class TransactionTimeline(ProducerTimeline):
    """A transactional id in a recording.

    `key`: the transactional id, or the producer id of one.

    Raises:
        UserError: the recording has no such producer, or it has no transactional id.
    """

    WHAT = "transactional id"

    def __init__(self, exchanges: Sequence[Exchange] | ObservedRecording, key: str) -> None:
        super().__init__(exchanges, key)
        if not self.entity.name:
            raise UserError(
                f"Producer {key} has no transactional id in the recording.",
                f"Show its batches with: brokertwin explain producer {key}",
            )

    def ending(self) -> list[str]:
        opened = self.entity.transaction
        lines = list(map(sentences.transaction, self.ended))
        lines += [sentences.open_transaction(opened)] if opened is not None else []
        return lines + self._in_epochs()

    @property
    def ended(self) -> list[TransactionEnded]:
        findings = self._recording.found(producers.PRODUCERS, TransactionEnded)
        own = [e for e in findings if e.producer.id == self.entity.name and e.began is not None]
        return sorted(own, key=lambda each: each.number)

    def _entry(
        self, exchange: RecordedExchange, findings: Sequence[Finding]
    ) -> TimelineEntry | None:
        entry = super()._entry(exchange, findings)
        if entry is None:
            return None
        notes = [sentences.said(each) for each in findings if isinstance(each, NOTES)]
        return entry._replace(notes=[*notes, *entry.notes])
