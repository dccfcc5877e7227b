"""The time of one event in small and in large states.

    python bench/growth.py [--sizes 100 10000 1000000] [--kind append ...] [--events 5000]

One cell in this process; between events only the cell itself encodes (changed items, every 500
events). `size` objects are created by applying records, as a replay of the topic `records` does;
then events of the kind are handled:

    append      a Produce of one batch, to a partition with `size` batches
    produce     a Produce by an idempotent producer, among `size` producers of the partition
    wait        a Fetch that waits, among `size` waiting for other partitions; and its response
    fetch       a Fetch without session at the log end, among `size` partitions
    commit      an OffsetCommit for one partition, among `size` committed offsets of 100 groups
    transaction AddPartitionsToTxn, Produce, EndTxn, among `size` transactional ids
    heartbeat   a Heartbeat by a member, among `size` groups of one member
    member      a Heartbeat in one group of `size` members
    join        a JoinGroup by a new member while such a group rebalances, and a LeaveGroup
    rejoin      a JoinGroup by a follower of such a group that lost its response
    offset      an OffsetCommit by a member of such a group

Times are medians of processor time in µs per step (three events in a transaction, two in a wait and
a join) over rounds in which the sizes take turns; `ratio` is to the smallest size. A run is valid
only if no response has an error.
"""

import argparse
import base64
import gc
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.generated.group_rows import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import COMMIT_EVENTS_MAX, Cell
from brokertwin.state.core.group_records import (
    GroupRecord,
)
from brokertwin.state.core.outputs import DEAD_LETTERS, RESPONSES, Output, Position
from brokertwin.state.core.records import (
    BatchAppended,
    OffsetCommitted,
    TopicCreated,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.core.settings import BrokerSettings, CellSettings

START = 1_700_000_000_000
BROKER, CONTROLLER = 1, -1
ROUND = COMMIT_EVENTS_MAX
"""Steps per round, so that each round includes commits."""

EMPTY_SUBSCRIPTION = base64.b64encode(bytes(6)).decode()

ANSWERED = {b"0", b"25"}
"""No error, or `25 UNKNOWN_MEMBER_ID` for a join whose member leaves while it waits."""

_ERRORS = re.compile(rb'rrorCode":(-?[0-9]+)')

Document = bytes
Kind = Callable[["GrowthBed", int], Iterator[list[Document]]]


class GrowthMismatch(Exception):
    """A response differs from the expected one."""


class GrowthBed:
    """A cell with a topic of one partition, the internal topics and a fixed clock."""

    def __init__(self) -> None:
        broker = BrokerSettings(
            offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1
        )
        self.settings = CellSettings(
            name="bench", cluster="bench", event_time="recorded", broker_settings=broker
        )
        self.cell = Cell(self.settings)
        self._numbers = itertools.count()
        self.topic("t", 0, 1)
        self.topic("__consumer_offsets", 1, 1)
        self.topic("__transaction_state", 2, 1)

    def put(self, record: Any) -> None:
        apply(self.cell.tables.of(BROKER), record)

    def topic(self, name: str, number: int, partitions: int) -> str:
        """Create a topic at controller and broker; return its id."""
        topic_id = f"{number:021d}A"
        created = TopicCreated(topic_id, name, [[BROKER]] * partitions, {})
        apply(self.cell.tables.of(CONTROLLER), created)
        apply(self.cell.tables.of(BROKER), created)
        return topic_id

    def batches(self, count: int, producers: int = 0) -> None:
        """Append batches of `producers` different producers to the partition."""
        for at in range(count):
            producer = at % producers if producers else -1
            batch = Batch(
                base_offset=at,
                last_offset_delta=0,
                producer_id=producer,
                producer_epoch=0 if producers else -1,
                base_sequence=0 if producers else -1,
                max_timestamp=START,
                size_in_bytes=100,
                record_count=1,
            )
            self.put(BatchAppended(f"{0:021d}A", 0, batch))

    def event(self, key: int, version: int, body: dict[str, Any], **choices: Any) -> Document:
        """Return a client's request."""
        number = next(self._numbers)
        event = {
            "id": f"e{number}",
            "cluster": "bench",
            "broker": BROKER,
            "time": START,
            "nonce": f"n{number}",
            "connection": "c",
            "requestHeader": {"requestApiKey": key, "requestApiVersion": version, "clientId": "b"},
            "request": body,
        }
        return msgspec.json.encode({**event, "choices": choices} if choices else event)

    def produce(self, sequence: int = -1, **fields: Any) -> Document:
        batch = {
            "baseOffset": 0,
            "lastOffsetDelta": 0,
            "recordCount": 1,
            "sizeInBytes": 100,
            "maxTimestamp": START,
            "magic": 2,
            "baseSequence": sequence,
            **fields,
        }
        data = [{"name": "t", "partitionData": [{"index": 0, "batches": [batch]}]}]
        name = fields.get("transactionalId")
        return self.event(0, 12, {"acks": -1, "transactionalId": name, "topicData": data})


def append(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    bed.batches(size)
    while True:
        yield [bed.produce()]


def produce(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Many producers of the partition; one sends its next batch."""
    bed.batches(size, producers=size)
    for sequence in itertools.count(1):
        yield [bed.produce(sequence, producerId=0, producerEpoch=0)]


def _fetch(bed: GrowthBed, topic: str, partition: int, offset: int, wait_ms: int) -> Document:
    wanted = {"partition": partition, "fetchOffset": offset, "partitionMaxBytes": 1000}
    body = {
        "maxWaitMs": wait_ms,
        "minBytes": 1,
        "maxBytes": 10_000,
        "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }
    return bed.event(1, 12, body)


def wait(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Waiting fetches, each for its own partition; one more arrives and is completed."""
    bed.topic("many", 3, size)
    for partition in range(size):
        bed.cell.handle(_fetch(bed, "many", partition, 0, 10**9), Position(0, 0))
    for offset in itertools.count():
        yield [_fetch(bed, "t", 0, offset, 10**9), bed.produce()]


def fetch(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Many partitions; one is fetched at its log end."""
    for number in range(max(size // 100, 1)):
        bed.topic(f"many{number}", 10 + number, 100)
    while True:
        yield [_fetch(bed, "t", 0, 0, 0)]


def commit(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Committed offsets of 100 groups; another group commits."""
    for at in range(size):
        bed.put(OffsetCommitted(f"g{at % 100}", "t", at // 100, at, -1, "", START))
    for offset in itertools.count():
        partition = {"partitionIndex": 0, "committedOffset": offset}
        topics = [{"name": "t", "partitions": [partition]}]
        body = {"groupId": "own", "generationIdOrMemberEpoch": -1, "topics": topics}
        yield [bed.event(8, 8, body)]


def transaction(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Many transactional ids; another one begins and commits a transaction."""
    for at in range(size):
        metadata = TransactionMetadata(at + 1000, 0, transaction_timeout_ms=60_000)
        bed.put(TransactionMetadataWritten(f"id{at}", metadata))
    name = "own"
    for _ in range(2):  # # 51 CONCURRENT_TRANSACTIONS first: an id block is being fetched
        body = {"transactionalId": name, "transactionTimeoutMs": 60_000}
        bed.cell.handle(bed.event(22, 3, body, producerId=7), Position(0, 0))
    for sequence in itertools.count():
        holder = {"transactionalId": name, "producerId": 7, "producerEpoch": 0}
        add = {
            "v3AndBelowTransactionalId": name,
            "v3AndBelowProducerId": 7,
            "v3AndBelowProducerEpoch": 0,
            "v3AndBelowTopics": [{"name": "t", "partitions": [0]}],
        }
        fields = {"producerId": 7, "producerEpoch": 0, "isTransactional": True}
        yield [
            bed.event(24, 3, add),
            bed.produce(sequence, transactionalId=name, **fields),
            bed.event(26, 3, {**holder, "committed": True}),
        ]


def group(bed: GrowthBed, name: str, members: int) -> None:
    """Write a stable group; its timeouts start at its first request."""
    there = [
        MemberMetadata(f"m{at}", None, "b", "/", 60_000, 45_000, bytes(6)) for at in range(members)
    ]
    metadata = GroupMetadataValue("consumer", 1, "range", "m0", START, there)
    bed.put(GroupRecord(GroupMetadataKey(name), metadata))
    bed.cell.handle(_heartbeat(bed, name), Position(0, 0))


def _heartbeat(bed: GrowthBed, name: str) -> Document:
    return bed.event(12, 4, {"groupId": name, "generationId": 1, "memberId": "m0"})


def heartbeat(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """Many groups of one member; one of them sends heartbeats."""
    for at in range(size):
        group(bed, f"g{at}", 1)
    while True:
        yield [_heartbeat(bed, "g0")]


def member(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """One group; one of its members sends heartbeats."""
    group(bed, "g", size)
    while True:
        yield [_heartbeat(bed, "g")]


def _join(bed: GrowthBed, member_id: str, **choices: Any) -> Document:
    body = {
        "groupId": "g",
        "sessionTimeoutMs": 45_000,
        "rebalanceTimeoutMs": 60_000,
        "memberId": member_id,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": EMPTY_SUBSCRIPTION}],
    }
    return bed.event(11, 3, body, **choices)


def join(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """A rebalancing group; a new member joins and leaves."""
    group(bed, "g", size)
    leave = {"groupId": "g", "memberId": "new"}
    while True:
        yield [_join(bed, "", memberId="new"), bed.event(13, 2, leave)]


def rejoin(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """A stable group; a follower rejoins and receives the current generation."""
    group(bed, "g", size)
    while True:
        yield [_join(bed, "m1")]


def offset(bed: GrowthBed, size: int) -> Iterator[list[Document]]:
    """One group; one of its members commits."""
    group(bed, "g", size)
    for at in itertools.count():
        partition = {"partitionIndex": 0, "committedOffset": at}
        body = {
            "groupId": "g",
            "generationIdOrMemberEpoch": 1,
            "memberId": "m0",
            "topics": [{"name": "t", "partitions": [partition]}],
        }
        yield [bed.event(8, 8, body)]


IN_GROUPS: tuple[Kind, ...] = (heartbeat, member, join, rejoin, offset)
KINDS: dict[str, Kind] = {
    kind.__name__: kind for kind in (append, produce, wait, fetch, commit, transaction, *IN_GROUPS)
}


class GrowthCost(NamedTuple):
    """Processor time per step in µs, and the events in a step."""

    microseconds: float
    events: int


def measure(kind: Kind, sizes: list[int], events: int) -> list[GrowthCost]:
    """Return the median over rounds for each size.

    The sizes take turns, so that other load affects all equally. Raises `GrowthMismatch` if a
    response has an error.
    """
    beds = [GrowthBed() for _ in sizes]
    steps = [kind(bed, size) for bed, size in zip(beds, sizes, strict=True)]
    for bed, documents in zip(beds, steps, strict=True):
        _run(bed, list(itertools.islice(documents, ROUND)))  # # decodes the initial state once
    gc.collect()
    times: list[list[float]] = [[] for _ in sizes]
    for _ in range(max(events // ROUND, 3)):
        for bed, documents, taken in zip(beds, steps, times, strict=True):
            taken.append(_round(bed, list(itertools.islice(documents, ROUND))))
    return [
        GrowthCost(statistics.median(taken) * 1e6, len(next(s)))
        for s, taken in zip(steps, times, strict=True)
    ]


def _round(bed: GrowthBed, documents: list[list[Document]]) -> float:
    begun = time.process_time()
    rows = _run(bed, documents)
    taken = (time.process_time() - begun) / ROUND
    check(rows)
    return taken


def _run(bed: GrowthBed, steps: list[list[Document]]) -> list[Output]:
    return [
        row
        for documents in steps
        for document in documents
        for row in bed.cell.handle(document, Position(0, 0))
    ]


def check(rows: list[Output]) -> None:
    """Raise `GrowthMismatch` for a dead letter or a response with an error."""
    for row in rows:
        if row.topic == DEAD_LETTERS:
            raise GrowthMismatch(row.value)
        if row.topic == RESPONSES and set(_ERRORS.findall(row.value or b"")) - ANSWERED:
            raise GrowthMismatch(row.value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--events", type=int, default=5000)
    given = parser.parse_args()
    print(f"{'kind':12}" + "".join(f"{size:>12,}" for size in given.sizes) + "     ratio")
    for name in given.kind:
        costs = measure(KINDS[name], given.sizes, given.events)
        figures = "".join(f"{cost.microseconds:>9.0f} µs" for cost in costs)
        ratio = costs[-1].microseconds / costs[0].microseconds
        print(f"{name:12}{figures}{ratio:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
