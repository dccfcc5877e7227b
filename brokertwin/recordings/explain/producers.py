"""The timeline of a producer: its epochs and their owners, its batches, and refusals."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from brokertwin.recordings.explain.story import NO_RESPONSE, TimelineEntry, TimelineError, absent
from brokertwin.recordings.history import batches, bodies, producers
from brokertwin.recordings.history.batches import ProducerInPartition
from brokertwin.recordings.history.bodies import (
    MARKERS,
    NO_PRODUCER,
    PRODUCER_APIS,
    Holder,
    SentBatch,
)
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import (
    BatchFinding,
    BatchRepeated,
    CoordinatorAborted,
    EpochGiven,
    Finding,
    ProducerInPartitionId,
    TransactionTimedOut,
    WrittenTwice,
)
from brokertwin.recordings.history.producers import ObservedProducer
from brokertwin.recordings.history.recording import ObservedRecording, observed_recording
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.sentences import cause, said

NOTES = (EpochGiven, BatchRepeated, WrittenTwice)
"""Findings that are notes of an entry."""


class ProducerTimeline:
    """A producer in a recording.

    `key`: a producer id, or a transactional id.

    Raises:
        UserError: the recording has no such producer.
    """

    WHAT: ClassVar[str] = "producer"

    def __init__(self, exchanges: Sequence[Exchange] | ObservedRecording, key: str) -> None:
        recording = observed_recording(exchanges)
        self._exchanges = [each for each in recording.exchanges if each.line.api in PRODUCER_APIS]
        if not self._exchanges:  # a text log may have no responses
            own = PRODUCER_APIS - {MARKERS}
            self._exchanges = [each for each in recording.without_response if each.line.api in own]
            recording = recording.of(self._exchanges)
        self._recording = recording
        self._known = self._recording.known
        entities = self._recording.observed(producers.PRODUCERS).entities
        name = self._known.producers.get(int(key)) if key.isdecimal() else None
        keys = [each for each in entities if each.id in (key, name)]
        if not keys or key == str(NO_PRODUCER):
            names = {each.id for each in entities} - {str(NO_PRODUCER)}
            if self.WHAT != ProducerTimeline.WHAT:
                names = {each for each in names if not each.isdecimal()}
            raise absent(self.WHAT, key, sorted(names))
        entity = entities[keys[0]]
        assert isinstance(entity, ObservedProducer)
        self.entity = entity
        self.ids = {number for number, of in self._known.producers.items() if of == entity.name}
        self.ids |= {entity.id} - {NO_PRODUCER}
        self._found = self._recording.at_places(producers.PRODUCERS, batches.PRODUCERS)

    def story(self) -> list[TimelineEntry]:
        """One entry for each request of the producer, in the order of their arrival."""
        entries = (
            self._entry(each, self._own_findings(each))
            for each in sorted(self._exchanges, key=lambda each: each.line.time)
        )
        return [entry for entry in entries if entry is not None]

    def ending(self) -> list[str]:
        """The epoch of each producer id, and the last five batches of each partition."""
        lines = self._in_epochs()
        kept = self._recording.observed(batches.PRODUCERS).entities.values()
        own = [
            each
            for each in kept
            if isinstance(each, ProducerInPartition) and each.topic and each.kept
        ]
        for each in sorted(own, key=lambda e: (e.topic, e.partition, int(e.producer))):
            if int(each.producer) in self.ids:
                said = ", ".join(
                    f"{kept.batch.first} to {kept.batch.last} at offset {kept.batch.offset}"
                    for kept in each.newest_batches
                )
                of = f"producer {each.producer}, last sequences in {each.place}"
                lines.append(f"{of}: {said}")
        return lines

    def _in_epochs(self) -> list[str]:
        """The epoch of each producer id: a response gave it, or abort markers show it."""
        lines = []
        last = {each.producer_id: each for each in self.entity.given}
        for producer_id, epochs in sorted(last.items()):
            epoch, since = epochs.epoch, epochs.line.words
            aborts = [e for e in self.entity.aborts if e.producer_id == producer_id]
            newest = max(aborts, key=lambda each: each.epoch, default=None)
            if newest is not None and newest.epoch > epoch:
                epoch, since = newest.epoch, newest.marker.words
            lines.append(f"producer {producer_id} is in epoch {epoch} since {since}")
        return lines

    def _own_findings(self, exchange: RecordedExchange) -> list[Finding]:
        findings = self._found.get(exchange.line.place, ())
        return [each for each in findings if self._is_own(each)]

    def _is_own(self, finding: Finding) -> bool:
        if isinstance(finding, BatchFinding):
            return finding.partition is None or int(finding.producer) in self.ids
        return not isinstance(finding, EpochGiven) or finding.producer_id in self.ids

    def _entry(
        self, exchange: RecordedExchange, findings: Sequence[Finding]
    ) -> TimelineEntry | None:
        line, body, response = exchange.line, exchange.request, exchange.response
        holders = bodies.holders_of(line.api, body, response)
        mine = [each for each in holders if self.entity.is_own(each, self._known)]
        if not mine:
            return None
        if line.api == MARKERS:
            aborts = [
                said(e) for e in findings if isinstance(e, CoordinatorAborted | TransactionTimedOut)
            ]
            return TimelineEntry.at(line, "; ".join(sorted(aborts)), [], []) if aborts else None
        notes = [cause(e) or said(e) for e in findings if isinstance(e, NOTES)]
        sent = [e for e in bodies.sent(body, response) if e.producer_id in self.ids]
        own = [each._replace(topic=self._known.named(each.topic)) for each in sent]
        if line.api == "PRODUCE" and own:
            text = "; ".join(map(said_of_batch, own))
            refused = [TimelineError(e.error, cause_of(e, findings)) for e in own if e.error]
        else:
            is_produce = line.api == "PRODUCE"
            text = self._written(response) if is_produce else _said(exchange, mine[0])
            causes = {each.error: cause(each) for each in findings if each.error and cause(each)}
            codes = dict.fromkeys(bodies.errors(response))
            refused = [TimelineError(code, causes.get(code, "")) for code in codes]
        if not exchange.has_response:
            notes.append(NO_RESPONSE)
        return TimelineEntry.at(line, text, list(filter(None, notes)), refused)

    def _written(self, response: Any) -> str:
        """The partitions of a Produce whose batch headers are not recorded."""
        places = [
            f"{self._known.topic(topic)}-{each['index']}"
            + (" refused" if each["errorCode"] else f" at offset {each['baseOffset']}")
            for topic in response.get("responses") or ()
            for each in topic["partitionResponses"]
        ]
        return f"{', '.join(places)}, without batch headers" if places else "no response"


def cause_of(batch: SentBatch, findings: Iterable[Finding]) -> str:
    """The cause of a refusal: from the batches of the partition, or from the epochs."""
    place = batch.topic, batch.partition
    same = [each for each in findings if each.error == batch.error]
    in_place = [
        each
        for each in same
        if isinstance(each.subject, ProducerInPartitionId)
        and each.subject.partition is not None
        and (each.subject.partition.topic, each.subject.partition.partition) == place
    ]
    others = [each for each in same if not isinstance(each, BatchFinding)]
    return next(filter(None, map(cause, [*in_place, *others])), "")


def said_of_batch(batch: SentBatch) -> str:
    became = f"offset {batch.offset}" if not batch.error else "refused"
    return (
        f"{batch.topic}-{batch.partition}: producer {batch.producer_id} epoch {batch.epoch},"
        f" sequences {batch.first} to {batch.last}, {became}"
    )


def _said(exchange: RecordedExchange, holder: Holder) -> str:
    """A request in words, with its result."""
    api, response = exchange.line.api, exchange.response
    said = f"{holder.name}" if holder.name else "no transactional id"
    if holder.producer_id != NO_PRODUCER:
        said += f", producer {holder.producer_id} epoch {holder.epoch}"
    if api == "END_TXN":
        said += ", commit" if exchange.request.get("committed") else ", abort"
    if api == "INIT_PRODUCER_ID" and exchange.has_response and not exchange.code:
        said += f": got producer {response.get('producerId')} epoch {response.get('producerEpoch')}"
    return said
