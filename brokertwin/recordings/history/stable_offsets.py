"""The last stable offset (LSO) of a partition, and the open transaction that holds it back.

Consumers with isolation.level=read_committed read up to the LSO: the first record of the oldest
open transaction. Responses to Fetch have it beside the high watermark (HW). The transaction is
known if its first Produce is recorded: the base offset of that is the LSO.

Source: UnifiedLog.fetchLastStableOffsetMetadata, ProducerStateManager.firstUnstableOffset; KIP-98.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
from msgspec import field

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import NO_PRODUCER
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    Cause,
    Certainty,
    LsoHeldBack,
    OpenTransactionOf,
    PartitionId,
    ProducerKey,
    Severity,
)

HELD_MS = 10_000
"""For how long the LSO has to be held back for a finding."""

TRANSACTIONS_MAX = 100
"""Maximum number of open transactions of a partition that are kept."""

PRODUCES_MAX = 20
"""Maximum number of later Produces of a producer that are kept."""

READERS_MAX = 100
"""Maximum number of client ids that are kept of those that read only committed records."""


class TransactionInPartition(msgspec.Struct, frozen=True):
    """An open transaction: its first offset in the partition, and the Produce that wrote it."""

    producer: ProducerKey
    producer_id: int
    first: int
    line: RecordedRequest


class StableOffset(msgspec.Struct):
    """The LSO of a partition.

    Attributes:
        high_watermark: the last HW beside it; -1 if none is recorded.
        stable: the last LSO; -1 if none is recorded.
        open: open transactions by producer.
        later: Produces after the first one by producer: a capture has no markers, so each may be
            the first one of the next transaction.
        since: the first response with this LSO below the HW; None if it is not held back.
        readers: clients that fetched since then with isolation.level=read_committed.
        reported: the finding about it; None if there is none yet.
    """

    high_watermark: int = -1
    stable: int = -1
    open: dict[str, TransactionInPartition] = field(default_factory=dict)
    since: RecordedRequest | None = None
    readers: list[str] = field(default_factory=list)
    reported: LsoHeldBack | None = None
    later: dict[str, list[TransactionInPartition]] = field(default_factory=dict)

    @property
    def holder(self) -> TransactionInPartition | None:
        """The transaction whose first record is at the LSO; None if it is not recorded."""
        if self.since is None:
            return None
        written = chain(self.open.values(), *self.later.values())
        return next((each for each in written if each.first == self.stable), None)

    def fetched(
        self, exchange: RecordedExchange, topic: str, partition: int
    ) -> Iterable[LsoHeldBack]:
        """Take the LSO and the HW of a response to Fetch."""
        line, response = exchange.line, exchange.response
        stable, watermark = response.get("lastStable", -1), response["highWatermark"]
        if stable < 0 or stable < self.stable or watermark < self.high_watermark:
            return ()  # an older response, or a follower's, which has no LSO
        is_same = stable == self.stable
        self.stable, self.high_watermark = stable, watermark
        if stable >= watermark:
            self.since, self.readers, self.reported = None, [], None
            return ()
        self._end_before(stable)
        if self.since is None or not is_same:
            self.since, self.readers, self.reported = line, [], None
        if exchange.request.get("readsCommitted") and line.name not in self.readers:
            self.readers = [*self.readers, line.name][-READERS_MAX:]
        finding = self._found(line, PartitionId(topic, partition))
        if finding.held_ms < HELD_MS:
            return ()
        self.reported = finding
        return (finding,)

    def _found(self, line: RecordedRequest, at: PartitionId) -> LsoHeldBack:
        holder = self.holder
        since = holder.line if holder is not None else (self.since or line)
        if self.reported is not None:
            since = self.reported.since
        causes: tuple[Cause, ...] = ()
        if holder is not None:
            causes = (OpenTransactionOf(producer=holder.producer, began=holder.line),)
        return LsoHeldBack(
            line=line,
            severity=Severity.WARNING if self.readers else Severity.INFO,
            causes=causes,
            certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
            client=holder.line.name if holder is not None else "",
            partition=at,
            since=since,
            stable=self.stable,
            behind=self.high_watermark - self.stable,
            readers=tuple(self.readers),
            held_ms=line.end - since.end,
        )

    def written(self, exchange: RecordedExchange) -> None:
        name, line = exchange.request["transactionalId"], exchange.line
        new = TransactionInPartition(
            ProducerKey(name), exchange.request["producerId"], exchange.response["offset"], line
        )
        if name not in self.open:
            self.open[name] = new
        elif len(later := self.later.setdefault(name, [])) < PRODUCES_MAX:
            later.append(new)
        while len(self.open) > TRANSACTIONS_MAX:
            self._end(next(iter(self.open)))

    def _end(self, name: str) -> TransactionInPartition:
        self.later.pop(name, None)
        return self.open.pop(name)

    def _end_before(self, stable: int) -> None:
        """End transactions that began before the LSO: it is that of the oldest open one."""
        for name in [name for name, each in self.open.items() if each.first < stable]:
            later = [each for each in self.later.get(name, ()) if each.first >= stable]
            self._end(name)
            if later:
                self.open[name], self.later[name] = later[0], later[1:]

    def marked(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[LsoHeldBack]:
        """Take the markers of transactions."""
        for producer_id in exchange.request["producerIds"]:
            name = known.producers.get(producer_id)
            ended = [n for n, e in self.open.items() if name == n or e.producer_id == producer_id]
            for each in ended:
                gone = self._end(each)
                if self.reported is not None and gone.line == self.reported.since:
                    held_ms = exchange.line.end - gone.line.end
                    yield msgspec.structs.replace(
                        self.reported, ended=exchange.line, held_ms=held_ms
                    )


def written_in(
    exchange: RecordedExchange, known: KnownFacts
) -> dict[tuple[str, int], RecordedExchange]:
    """The partitions that a Produce of a transaction wrote to, each with its part."""
    body, written = exchange.request, dict[tuple[str, int], RecordedExchange]()
    name = body.get("transactionalId")
    if not name:
        return written
    holders = bodies.holders("PRODUCE", body)
    producer_id = holders[0].producer_id if len(holders) == 1 else NO_PRODUCER
    request = {"transactionalId": name, "producerId": producer_id}
    for topic in exchange.response.get("responses") or ():
        topic_name = known.topic(topic)
        for part in topic["partitionResponses"]:
            if not part["errorCode"] and part.get("baseOffset", -1) >= 0:
                of = RecordedExchange(exchange.line, request, {"offset": part["baseOffset"]})
                written[topic_name, part["index"]] = of
    return written


def marked_in(
    exchange: RecordedExchange, known: KnownFacts
) -> dict[tuple[str, int], RecordedExchange]:
    """The partitions that WriteTxnMarkers names, each with the producers of its transactions."""
    producers: dict[tuple[str, int], list[int]] = {}
    for marker in exchange.request.get("markers") or ():
        for topic in marker.get("topics") or ():
            for number in topic["partitionIndexes"]:
                place = known.topic(topic), number
                producers.setdefault(place, []).append(marker["producerId"])
    return {
        place: RecordedExchange(exchange.line, {"producerIds": ids}, {})
        for place, ids in producers.items()
    }
