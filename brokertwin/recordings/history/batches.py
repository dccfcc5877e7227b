"""Record batches of a producer in a partition, and acknowledged offsets of a partition.

Source: KIP-98; ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    BatchFinding,
    BatchRefused,
    BatchRepeated,
    Cause,
    Certainty,
    DuplicateRefused,
    Finding,
    NewerEpochWrote,
    OffsetReused,
    PartitionId,
    ProducerBegan,
    RepeatOf,
    SequenceExpected,
    SequenceGap,
    SequenceSkipped,
    Severity,
    UnderMinIsr,
    WrittenTwice,
)

BATCHES_KEPT = 5
"""Batches that a broker keeps of each producer and partition."""

BATCHES_MAX = 20
"""Maximum number of batches of a producer in a partition that are compared with a new one."""

OFFSETS_MAX = 500
"""Maximum number of acknowledged batches of a partition that are compared with a new one."""

GAP = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
OF_SEQUENCES = (GAP, Error.DUPLICATE_SEQUENCE_NUMBER)
REFUSALS: dict[int, type[SequenceGap | DuplicateRefused]] = {
    GAP: SequenceGap,
    Error.DUPLICATE_SEQUENCE_NUMBER: DuplicateRefused,
}
SEVERITY: dict[int, Severity] = {
    GAP: Severity.ERROR,
    Error.DUPLICATE_SEQUENCE_NUMBER: Severity.WARNING,
}
TOO_FEW = (Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


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
    def end(self) -> int:
        return self.batch.offset + sequence_before(self.batch.last, self.batch.first) + 1


class ProducerInPartition(ObservedEntity, kw_only=True):
    """The batches of a producer in a partition.

    Attributes:
        topic: topic name, or id; "" for requests without batch headers.
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
        return f"{self.topic}-{self.partition}"

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        for code in exchange.response.get("codes", ()):
            yield REFUSALS[code](
                line=exchange.line,
                severity=SEVERITY[code],
                certainty=Certainty.UNKNOWN,
                producer=self.producer,
                code=code,
            )
        for each in exchange.request.get("batches", ()):
            batch = SentBatch(*each)
            if known.named(batch.topic) != self.topic:
                continue
            if batch.error:
                yield self._refused(batch, exchange.line)
            elif batch.offset >= 0:
                is_id = batch.topic in exchange.request.get("ids", ())
                yield from self._written(AcknowledgedBatch(batch, exchange.line), is_id)

    @property
    def _at(self) -> PartitionId:
        return PartitionId(self.topic, self.partition)

    def _refused(self, batch: SentBatch, line: RecordedRequest) -> Finding:
        causes = self._causes(batch)
        return REFUSALS.get(batch.error, BatchRefused)(
            line=line,
            severity=SEVERITY.get(batch.error, Severity.NOTE),
            causes=causes,
            certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
            producer=self.producer,
            partition=self._at,
            epoch=batch.epoch,
            first_sequence=batch.first,
            last_sequence=batch.last,
            code=batch.error,
        )

    def _causes(self, batch: SentBatch) -> tuple[Cause, ...]:
        """The cause of a refusal, if the batches of the partition show one."""
        last, at = self.last, self._at
        if last is not None and last.batch.epoch > batch.epoch:
            epoch = last.batch.epoch
            return (NewerEpochWrote(partition=at, own=batch.epoch, epoch=epoch, by=last.line),)
        if batch.error != GAP:
            return ()
        producer_id, epoch, first = batch.producer_id, batch.epoch, batch.first
        if last is None:
            return (
                SequenceExpected(partition=at, producer_id=producer_id, epoch=epoch, first=first),
            )
        return (
            SequenceExpected(
                partition=at,
                producer_id=producer_id,
                epoch=epoch,
                first=first,
                last=last.batch.last,
                last_epoch=last.batch.epoch,
                by=last.line,
            ),
        )

    def _written(self, new: AcknowledgedBatch, is_id: bool) -> Iterator[Finding]:
        """Compare a batch with those before it; only a topic id shows that the topic is the same.

        Another topic of the same name has other offsets, and no producers yet.
        """
        copies = [each for each in self.kept if each.batch[2:6] == new.batch[2:6]]
        same = [each for each in copies if each.batch.offset == new.batch.offset]
        if same:
            new.is_repeat = True
            why = (RepeatOf(by=same[-1].line),)
            yield self._found(BatchRepeated, Severity.INFO, new, causes=why)
        others = [e for e in copies if 0 < abs(e.batch.offset - new.batch.offset) <= SEQUENCE_MAX]
        others = [e for e in others if is_id and e.batch.topic == new.batch.topic]
        for each in [*others, new] if others else ():
            if not each.is_reported:
                each.is_reported = True
                yield self._found(WrittenTwice, Severity.ERROR, each)
        former = self.last
        if former is None:
            yield self._found(ProducerBegan, Severity.NOTE, new)
        elif former.batch.epoch < new.batch.epoch:
            epoch, client = former.batch.epoch, former.line.name
            yield self._found(ProducerBegan, Severity.NOTE, new, former=epoch, former_client=client)
        before = [
            each
            for each in self.kept
            if is_id and each.batch.topic == new.batch.topic and each.end == new.batch.offset
        ]
        if before and before[-1].batch.epoch == new.batch.epoch:
            due = sequence_after(before[-1].batch.last, 1)
            if new.batch.first != due:
                yield self._found(SequenceSkipped, Severity.ERROR, new, expected=due)
        self.kept = [*self.kept, new][-BATCHES_MAX:]

    def _found(
        self, kind: type[BatchFinding], severity: Severity, shown: AcknowledgedBatch, **more: Any
    ) -> Finding:
        return found_of(kind, severity, shown, self.producer, self._at, **more)


def found_of(
    kind: type[BatchFinding],
    severity: Severity,
    shown: AcknowledgedBatch,
    producer: str,
    partition: PartitionId,
    **more: Any,
) -> Finding:
    batch = shown.batch
    return kind(
        line=shown.line,
        severity=severity,
        producer=producer,
        partition=partition,
        epoch=batch.epoch,
        first_sequence=batch.first,
        last_sequence=batch.last,
        offset=batch.offset,
        **more,
    )


class AcknowledgedPartition(ObservedEntity, kw_only=True):
    """The responses to Produce requests for a partition.

    Acknowledged offsets are compared only if requests name the topic by its id, because a topic
    with the same name may have been deleted and created again.

    Attributes:
        topic: topic id, or name if requests have it.
        kept: the newest acknowledged batches of a topic that is named by its id.
    """

    topic: str
    partition: int
    kept: list[AcknowledgedBatch] = field(default_factory=list)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        at = PartitionId(known.named(self.topic), self.partition)
        for code in exchange.response["codes"]:
            severity = Severity.ERROR
            yield UnderMinIsr(line=exchange.line, severity=severity, partition=at, code=code)
        for each in exchange.request["batches"]:
            new = AcknowledgedBatch(SentBatch(*each), exchange.line)
            same = [e for e in self.kept if e.batch.offset == new.batch.offset]
            if any(each.batch != new.batch for each in same):
                for acknowledged in [*same, new]:
                    if not acknowledged.is_reported:
                        acknowledged.is_reported = True
                        producer = str(acknowledged.batch.producer_id)
                        yield found_of(OffsetReused, Severity.ERROR, acknowledged, producer, at)
            self.kept = [*self.kept, new][-OFFSETS_MAX:]


def _codes_in(response: Any) -> Iterator[tuple[str, int, int]]:
    for topic in response.get("responses") or ():
        for part in topic["partitionResponses"]:
            yield bodies.topic_of(topic), part["index"], part["errorCode"]


def _ids_in(exchange: RecordedExchange) -> set[str]:
    """The topics that a request names by id."""
    topics = exchange.request.get("topicData") or ()
    return {e["topicId"] for e in topics if e.get("topicId") and not e.get("name")}


def _producers_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    """Producers with their batches, and a nameless one with the errors without batch headers."""
    own: dict[str, list[SentBatch]] = defaultdict(list)
    seen_codes = set()
    for each in bodies.sent(exchange.request, exchange.response):
        own[f"{each.producer_id} {each.partition} {known.named(each.topic)}"].append(each)
        seen_codes.add(each.error)
    ids = _ids_in(exchange)
    for name, sent in own.items():
        named = sorted(ids.intersection(each.topic for each in sent))
        part = RecordedExchange(exchange.line, {"batches": sent, "ids": named}, {})
        yield EntityKey("producer-in-partition", name), part
    codes = {*bodies.errors(exchange.response)} - seen_codes
    if codes.intersection(OF_SEQUENCES):
        name = exchange.request.get("transactionalId") or "?"
        response = {"codes": [each for each in OF_SEQUENCES if each in codes]}
        part = RecordedExchange(exchange.line, {}, response)
        yield EntityKey("producer-in-partition", f"? {name}"), part


def _producer_in(key: EntityKey) -> ProducerInPartition:
    producer, _, rest = key.id.partition(" ")
    if producer == "?":
        return ProducerInPartition(topic="", partition=-1, producer=rest)
    partition, _, topic = rest.partition(" ")
    return ProducerInPartition(topic=topic, partition=int(partition), producer=producer)


def _partitions_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    ids = _ids_in(exchange)
    own: dict[tuple[str, int], list[SentBatch]] = defaultdict(list)
    for each in bodies.sent(exchange.request, exchange.response) if ids else ():
        if each.topic in ids and not each.error and each.offset >= 0:
            own[each.topic, each.partition].append(each)
    codes: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, number, code in _codes_in(exchange.response):
        if code in TOO_FEW:
            codes[topic, number].append(code)
    for place in dict.fromkeys([*own, *codes]):
        topic, number = place
        request, response = {"batches": own.get(place, [])}, {"codes": codes.get(place, [])}
        part = RecordedExchange(exchange.line, request, response)
        yield EntityKey("partition", f"{number} {topic}"), part


def _partition_of(key: EntityKey) -> AcknowledgedPartition:
    partition, _, topic = key.id.partition(" ")
    return AcknowledgedPartition(topic=topic, partition=int(partition))


PRODUCE = frozenset({"PRODUCE"})
PRODUCERS = EntityKind("producer-in-partition", PRODUCE, _producers_in, _producer_in)
PARTITIONS = EntityKind("partition", PRODUCE, _partitions_in, _partition_of)
