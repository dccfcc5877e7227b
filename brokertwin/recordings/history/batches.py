"""Record batches of a producer in a partition, and acknowledged offsets of a partition.

Source: KIP-98; ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import (
    SEQUENCE_MAX,
    SentBatch,
    sequence_after,
    sequence_before,
)
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.rules import Rule

BATCHES_KEPT = 5
"""Batches that a broker keeps of each producer and partition."""

BATCHES_MAX = 20
"""Maximum number of batches of a producer in a partition that are compared with a new one."""

OFFSETS_MAX = 500
"""Maximum number of acknowledged batches of a partition that are compared with a new one."""

GAP = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
OF_SEQUENCES = (GAP, Error.DUPLICATE_SEQUENCE_NUMBER)
TOO_FEW = (Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

TWICE = Rule(
    "A batch that is in the log is answered with the offset that it has there.",
    "KIP-98; ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState",
    "Look whether consumers get the records twice; if not, the first copy was lost with a leader"
    " after it had been acknowledged: look at acks, min.insync.replicas, unclean elections.",
)
SKIPPED = Rule(
    "A batch has to begin where the producer's last one in the partition ended.",
    "KIP-98; ProducerAppendInfo.checkSequence",
    "The broker had forgotten the producer: look at producer.id.expiration.ms, and for records that"
    " were deleted. The records in between were never written in this epoch.",
)
REPEATED = Rule(
    "A batch that comes again is not written again: it is answered with the offset that it has.",
    "KIP-98; ProducerStateEntry, NUM_BATCHES_TO_RETAIN",
    "Nothing: it is in the log once. If it comes often, answers are late or lost: look at"
    " request.timeout.ms and at the broker's load.",
)
REUSED = Rule(
    "An offset that was acknowledged is never given again.",
    "KIP-101, KIP-279; Partition, UnifiedLog.truncateTo",
    "The batch that was acknowledged first is lost: look at acks, min.insync.replicas, unclean"
    " elections.",
)


class AcknowledgedBatch(msgspec.Struct):
    """A batch that was acknowledged, and the Produce that sent it.

    Attributes:
        batch: its sequences and its offset.
        line: the Produce.
        is_repeat: whether it was acknowledged at the same offset before.
        is_reported: whether it is evidence already.
    """

    batch: SentBatch
    line: RecordedRequest
    is_repeat: bool = False
    is_reported: bool = False

    @property
    def said(self) -> str:
        """Its sequences, its epoch and its offset."""
        batch = self.batch
        return f"sequences {batch.first} to {batch.last} of epoch {batch.epoch} at {batch.offset}"

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.batch.offset + sequence_before(self.batch.last, self.batch.first) + 1


class ProducerInPartition(ObservedEntity, kw_only=True):
    """The batches of a producer in a partition.

    Attributes:
        topic: topic name, or id; "" for requests without batch headers.
        partition: its number.
        producer: producer id; the transactional id, or `?`, for requests without batch headers.
        kept: the newest acknowledged batches, repeats too.
    """

    topic: str
    partition: int
    producer: str
    kept: list[AcknowledgedBatch] = field(default_factory=list)

    @property
    def newest_batches(self) -> Sequence[AcknowledgedBatch]:
        """The batches that the broker keeps: the last five of the newest epoch."""
        written = [each for each in self.kept if not each.is_repeat]
        return [e for e in written if e.batch.epoch == written[-1].batch.epoch][-BATCHES_KEPT:]

    @property
    def last(self) -> AcknowledgedBatch | None:
        """The batch that was written last; a repeat was not written."""
        return next((each for each in reversed(self.kept) if not each.is_repeat), None)

    @property
    def place(self) -> str:
        """Topic and partition."""
        return f"{self.topic}-{self.partition}"

    def part_of(self, exchange: RecordedExchange, known: KnownFacts) -> RecordedExchange:
        """Return a Produce with its own batches, or the errors of one without headers."""
        sent = list(bodies.sent(exchange.request, exchange.response))
        if not self.topic:
            codes = {*bodies.errors(exchange.response)} - {each.error for each in sent}
            response = {"codes": [each for each in OF_SEQUENCES if each in codes]}
            return RecordedExchange(exchange.line, {}, response)
        own = [
            e for e in sent if str(e.producer_id) == self.producer and e.partition == self.partition
        ]
        return RecordedExchange(exchange.line, {"batches": own}, {})

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Take a Produce in its turn."""
        for code in exchange.response.get("codes", ()):
            yield self._refused(code, exchange.line, "")
        for each in exchange.request.get("batches", ()):
            batch = SentBatch(*each)
            if known.named(batch.topic) != self.topic:
                continue
            if batch.error in OF_SEQUENCES:
                said = self._missing(batch)
                yield self._refused(batch.error, exchange.line, said, self._because(batch))
            elif batch.error:
                yield self._note(batch.error, exchange.line, self._because(batch))
            elif batch.offset >= 0:
                yield from self._written(AcknowledgedBatch(batch, exchange.line))

    def _refused(
        self, code: int, line: RecordedRequest, said: str, cause: str = ""
    ) -> EntityFinding:
        is_gap = code == GAP
        return EntityFinding(
            kind="sequence-gap" if is_gap else "duplicate-refused",
            severity=Severity.ERROR if is_gap else Severity.WARNING,
            subject=self._subject,
            line=line,
            part=str(code) if not self.topic else "",
            said=said,
            cause=cause,
            code=code,
            facts=self._facts,
        )

    def _note(self, code: int, line: RecordedRequest, cause: str) -> EntityFinding:
        return EntityFinding(
            kind="batch-refused",
            severity=Severity.NOTE,
            subject=self._subject,
            line=line,
            cause=cause,
            code=code,
            facts=self._facts,
        )

    @property
    def _subject(self) -> str:
        of = f"producer {self.producer}"
        return f"{of} in {self.place}" if self.topic else of

    @property
    def _facts(self) -> dict[str, str]:
        return {"place": self.place, "producer": self.producer} if self.topic else {}

    def _missing(self, batch: SentBatch) -> str:
        """The sequences between a refused batch and the last one that was written."""
        said = f"begins at {batch.first} of epoch {batch.epoch}"
        if self.last is None:
            return f"{said}; nothing recorded before it"
        last = self.last.batch
        if last.epoch != batch.epoch:
            return f"{said}, after epoch {last.epoch}"
        missing = sequence_before(batch.first, last.last + 1)
        if missing > SEQUENCE_MAX // 2:
            return f"{said}, and {last.last} is written"
        return f"{said}, {missing} records after {last.last}"

    def _because(self, batch: SentBatch) -> str:
        """The cause of a refusal, if the batches of the partition show one."""
        last = self.last
        if last is not None and last.batch.epoch > batch.epoch:
            epoch = last.batch.epoch
            return (
                f"{last.line.words} wrote to {self.place} in epoch {epoch}; this is {batch.epoch}."
            )
        if batch.error != GAP:
            return ""
        if last is None:
            return (
                f"The batch begins at sequence {batch.first}, and the recording has none of"
                f" producer {batch.producer_id} before it in {self.place}: a new producer begins"
                " at 0."
            )
        if batch.epoch > last.batch.epoch:
            return (
                f"The epoch is new ({batch.epoch} after {last.batch.epoch}), so the batch has to"
                f" begin at 0; it begins at {batch.first}."
            )
        ended = f"sequence {last.batch.last}, by {last.line.words}"
        missing = sequence_before(batch.first, last.batch.last + 1)
        if missing > SEQUENCE_MAX // 2:
            return (
                f"It goes back: {self.place} ends at {ended}; this batch begins at {batch.first},"
                " and is not one of the last five."
            )
        return (
            f"{self.place} ends at {ended}; this batch begins at {batch.first}:"
            f" {missing} records in between are not in the log."
        )

    def _written(self, new: AcknowledgedBatch) -> Iterator[EntityFinding]:
        copies = [each for each in self.kept if each.batch[2:6] == new.batch[2:6]]
        same = [each for each in copies if each.batch.offset == new.batch.offset]
        if same:
            new.is_repeat = True
            cause = f"a repeat of {same[-1].line.words}: it is in the log once"
            yield self._found("batch-repeated", Severity.INFO, new, new.said, REPEATED, cause)
        others = [e for e in copies if 0 < abs(e.batch.offset - new.batch.offset) <= SEQUENCE_MAX]
        for each in [*others, new] if others else ():
            if not each.is_reported:
                each.is_reported = True
                yield self._found("written-twice", Severity.ERROR, each, each.said, TWICE)
        yield from self._began(new)
        before = [each for each in self.kept if each.end == new.batch.offset]
        if before and before[-1].batch.epoch == new.batch.epoch:
            due = sequence_after(before[-1].batch.last, 1)
            if new.batch.first != due:
                said = f"{new.said}, where {due} was due"
                yield self._found("sequence-skipped", Severity.ERROR, new, said, SKIPPED)
        self.kept = [*self.kept, new][-BATCHES_MAX:]

    def _began(self, new: AcknowledgedBatch) -> Iterator[EntityFinding]:
        """Report the first batch of a producer in the partition, and of an epoch."""
        former, of = self.last, f"producer {self.producer}"
        said = f"{of} writes its first batch here" if former is None else ""
        if former is not None and former.batch.epoch < new.batch.epoch:
            said = (
                f"{of} comes with epoch {new.batch.epoch}; before it had {former.batch.epoch}"
                f" (client {former.line.name})"
            )
        if said:
            yield self._found("producer-began", Severity.NOTE, new, said)

    def _found(
        self,
        kind: str,
        severity: Severity,
        shown: AcknowledgedBatch,
        said: str,
        rule: Rule | None = None,
        cause: str = "",
    ) -> EntityFinding:
        return EntityFinding(
            kind=kind,
            severity=severity,
            subject=self._subject,
            line=shown.line,
            part=str(shown.batch.offset),
            said=said,
            cause=cause,
            rule=rule,
            facts=self._facts,
        )


class AcknowledgedPartition(ObservedEntity, kw_only=True):
    """The responses to Produce requests for a partition.

    Acknowledged offsets are compared only if requests name the topic by its id, because a topic
    with the same name may have been deleted and created again.

    Attributes:
        topic: topic id, or name if requests have it.
        partition: its number.
        kept: the newest acknowledged batches of a topic that is named by its id.
    """

    topic: str
    partition: int
    kept: list[AcknowledgedBatch] = field(default_factory=list)

    def part_of(self, exchange: RecordedExchange, known: KnownFacts) -> RecordedExchange:
        """Return a Produce with the batches and the error of the partition."""
        place, response = (self.topic, self.partition), exchange.response
        codes = [
            code for *at, code in _codes_in(response) if tuple(at) == place and code in TOO_FEW
        ]
        sent = bodies.sent(exchange.request, response) if self._is_id(exchange) else ()
        own = [each for each in sent if each[:2] == place and not each.error and each.offset >= 0]
        return RecordedExchange(exchange.line, {"batches": own}, {"codes": codes})

    def _is_id(self, exchange: RecordedExchange) -> bool:
        topics = exchange.request.get("topicData") or ()
        return any(each.get("topicId") == self.topic and not each.get("name") for each in topics)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Take a Produce in its turn."""
        place = f"{known.named(self.topic)}-{self.partition}"
        for code in exchange.response["codes"]:
            yield EntityFinding(
                kind="under-min-isr",
                severity=Severity.ERROR,
                subject=f"partition {place}",
                line=exchange.line,
                code=code,
            )
        for each in exchange.request["batches"]:
            new = AcknowledgedBatch(SentBatch(*each), exchange.line)
            same = [e for e in self.kept if e.batch.offset == new.batch.offset]
            if any(each.batch != new.batch for each in same):
                for found in [*same, new]:
                    if not found.is_reported:
                        found.is_reported = True
                        yield EntityFinding(
                            kind="offset-reused",
                            severity=Severity.ERROR,
                            subject=place,
                            line=found.line,
                            part=str(found.batch.offset),
                            said=f"producer {found.batch.producer_id}: {found.said}",
                            rule=REUSED,
                        )
            self.kept = [*self.kept, new][-OFFSETS_MAX:]


def _codes_in(response: Any) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and error code of each part of a Produce response."""
    for topic in response.get("responses") or ():
        for part in topic["partitionResponses"]:
            yield bodies.topic_of(topic), part["index"], part["errorCode"]


def _producers_in(exchange: RecordedExchange, known: KnownFacts) -> Iterable[EntityKey]:
    sent = list(bodies.sent(exchange.request, exchange.response))
    names = {f"{e.producer_id} {e.partition} {known.named(e.topic)}": None for e in sent}
    yield from (EntityKey("producer-in-partition", name) for name in names)
    errors = {*bodies.errors(exchange.response)}.intersection(OF_SEQUENCES)
    if errors - {each.error for each in sent}:
        name = exchange.request.get("transactionalId") or "?"
        yield EntityKey("producer-in-partition", f"? {name}")


def _producer_in(key: EntityKey) -> ProducerInPartition:
    producer, _, rest = key.id.partition(" ")
    if producer == "?":
        return ProducerInPartition(topic="", partition=-1, producer=rest)
    partition, _, topic = rest.partition(" ")
    return ProducerInPartition(topic=topic, partition=int(partition), producer=producer)


def _partitions_in(exchange: RecordedExchange, known: KnownFacts) -> Iterable[EntityKey]:
    for topic, number, _ in _codes_in(exchange.response):
        yield EntityKey("partition", f"{number} {topic}")


def _partition_of(key: EntityKey) -> AcknowledgedPartition:
    partition, _, topic = key.id.partition(" ")
    return AcknowledgedPartition(topic=topic, partition=int(partition))


PRODUCE = frozenset({"PRODUCE"})
PRODUCERS = EntityKind("producer-in-partition", PRODUCE, _producers_in, _producer_in)
PARTITIONS = EntityKind("partition", PRODUCE, _partitions_in, _partition_of)
