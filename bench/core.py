"""The core's time for an event, as a multiple of the time for its bytes.

    python bench/core.py [--kind produce ...] [--rounds 15] [--plot core.svg]

One cell in this process handles the requests of a warm client:

    produce      a Produce by one of 16 idempotent producers, each to its own partition
    transaction  a Produce (version 12) in an open transaction
    fetch        an incremental Fetch over 1,000 partitions, 5 with new batches
    commit       an OffsetCommit by a member for one partition
    heartbeat    a Heartbeat by a member

`floor` is msgspec's time to decode the event (header, then body) and to encode its rows: the lower
bound for Python code over these documents. Floor and cell take turns in each round; both are
processor time. Figures and ratios are medians over the rounds. The cell's time includes commits,
which encode changed items. A run is valid only if no response has an error. `rows` is a hash of all
rows, to compare two versions of the code.
"""

import argparse
import gc
import hashlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from growth import ROUND, START, GrowthBed, check, group

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.events import Event
from brokertwin.state.core.outputs import RECORDS, RESPONSES, Output, Position

Steps = Iterator[tuple[list[bytes], bytes]]
"""Unmeasured events before, and the measured event."""

PARTITIONS = 16
SESSION_PARTITIONS = 1000
CHANGED = 5

_event_decoder = msgspec.json.Decoder(Event)
_body_decoders = {key: api.decoder() for key, api in BUILT.items()}
_encoder = msgspec.json.Encoder()


class CoreMeasured(NamedTuple):
    """Medians of processor time per event in µs, their ratio, a hash of all rows."""

    kind: str
    floor: float
    cell: float
    ratio: float
    rows: str


def _produced(bed: GrowthBed, partition: int, sequence: int, version: int, **fields: Any) -> bytes:
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": 0,
        "recordCount": 1,
        "sizeInBytes": 100,
        "producerEpoch": 0,
        "baseSequence": sequence,
        "maxTimestamp": START,
        **fields,
    }
    data = [{"name": "orders", "partitionData": [{"index": partition, "batches": [batch]}]}]
    name = "own" if "isTransactional" in fields else None
    return bed.event(0, version, {"acks": -1, "transactionalId": name, "topicData": data})


def produce(bed: GrowthBed) -> Steps:
    bed.topic("orders", 3, PARTITIONS)
    for number in itertools.count():
        partition = number % PARTITIONS
        sequence = number // PARTITIONS
        yield [], _produced(bed, partition, sequence, 11, producerId=partition)


def transaction(bed: GrowthBed) -> Steps:
    """One open transaction; its first batches have added the partitions."""
    bed.topic("orders", 3, PARTITIONS)
    body = {"transactionalId": "own", "transactionTimeoutMs": 60_000}
    for _ in range(2):  # # 51 CONCURRENT_TRANSACTIONS first: an id block is being fetched
        bed.cell.handle(bed.event(22, 3, body, producerId=7), Position(0, 0))
    for number in itertools.count():
        partition, sequence = number % PARTITIONS, number // PARTITIONS
        yield [], _produced(bed, partition, sequence, 12, producerId=7, isTransactional=True)


def fetch(bed: GrowthBed) -> Steps:
    """An incremental session; each request follows the previous one's appends."""
    topics = [bed.topic(f"t{at}", 10 + at, 100) for at in range(SESSION_PARTITIONS // 100)]
    places = [(at, partition) for partition in range(100) for at in range(len(topics))]
    ends = dict.fromkeys(places, 0)

    def request(named: list[tuple[int, int]], session_id: int, epoch: int) -> bytes:
        wanted = [
            {
                "topicId": topics[at],
                "partitions": [
                    {
                        "partition": partition,
                        "fetchOffset": ends[at, partition],
                        "partitionMaxBytes": 1 << 20,
                    }
                ],
            }
            for at, partition in named
        ]
        body = {"minBytes": 1, "maxBytes": 1 << 25, "sessionId": session_id, "topics": wanted}
        return bed.event(1, 17, {**body, "maxWaitMs": 0, "sessionEpoch": epoch})

    rows = bed.cell.handle(request(places, 0, 0), Position(0, 0))
    response = next(row.value for row in rows if row.topic == RESPONSES)
    session_id = msgspec.json.decode(response or b"")["response"]["sessionId"]
    assert session_id, "no session"
    named: list[tuple[int, int]] = []
    for epoch in itertools.count(1):
        at = epoch * CHANGED % len(places)
        changed = places[at : at + CHANGED]
        batch = {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1, "sizeInBytes": 100}
        data = [
            {"name": f"t{topic}", "partitionData": [{"index": partition, "batches": [batch]}]}
            for topic, partition in changed
        ]
        yield [bed.event(0, 11, {"acks": 1, "topicData": data})], request(named, session_id, epoch)
        for place in changed:
            ends[place] += 1
        named = changed


def commit(bed: GrowthBed) -> Steps:
    """OffsetCommits by a member of a group of ten."""
    group(bed, "g", 10)
    for offset in itertools.count():
        partition = {"partitionIndex": 0, "committedOffset": offset}
        body = {"groupId": "g", "generationIdOrMemberEpoch": 1, "memberId": "m0"}
        yield [], bed.event(8, 8, {**body, "topics": [{"name": "t", "partitions": [partition]}]})


def heartbeat(bed: GrowthBed) -> Steps:
    """Heartbeats by a member of a group of ten."""
    group(bed, "g", 10)
    while True:
        yield [], bed.event(12, 4, {"groupId": "g", "generationId": 1, "memberId": "m0"})


KINDS: dict[str, Callable[[GrowthBed], Steps]] = {
    kind.__name__: kind for kind in (produce, transaction, fetch, commit, heartbeat)
}


def _floor(document: bytes, values: list[Any]) -> None:
    event = _event_decoder.decode(document)
    header = event.request_header
    assert header is not None
    _body_decoders[header.request_api_key].decode(event.request)
    for value in values:
        _encoder.encode(value)


class BenchKind:
    """One kind of event with its own cell, and its times."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bed = GrowthBed()
        self.steps = KINDS[name](self.bed)
        self.hash = hashlib.sha256()
        self.floors: list[float] = []
        self.cells: list[float] = []

    def round(self) -> None:
        """Measure as many events as one round of commits has."""
        steps = list(itertools.islice(self.steps, ROUND))
        handle, position = self.bed.cell.handle, Position(0, 0)
        taken, rows = 0, []
        begun = time.process_time_ns()
        for before, document in steps:
            if before:
                taken += time.process_time_ns() - begun
                for each in before:
                    check(handle(each, position))
                begun = time.process_time_ns()
            rows.append(handle(document, position))
        taken += time.process_time_ns() - begun
        self.cells.append(taken / ROUND / 1e3)
        self.floors.append(time_of_floor([document for _, document in steps], rows))
        for found in rows:
            check(found)
            self.hash.update(repr(found).encode())

    def measured(self) -> CoreMeasured:
        """Return medians over the rounds without the first, which warms up."""
        floors, cells = self.floors[1:], self.cells[1:]
        ratio = statistics.median(c / f for c, f in zip(cells, floors, strict=True))
        digest = self.hash.hexdigest()[:8]
        return CoreMeasured(
            self.name, statistics.median(floors), statistics.median(cells), ratio, digest
        )


def values_of(rows: list[list[Output]]) -> list[list[Any]]:
    """Return what the rows of each event contain; rows in Kafka's binary form are excluded."""
    return [
        [msgspec.json.decode(row.value or b"") for row in each if row.topic in (RECORDS, RESPONSES)]
        for each in rows
    ]


def take_floor(documents: list[bytes], values: list[list[Any]]) -> None:
    """Decode all events, and encode the content of their rows."""
    for document, held in zip(documents, values, strict=True):
        _floor(document, held)


def time_of_floor(documents: list[bytes], rows: list[list[Output]]) -> float:
    """Return msgspec's time per event in µs."""
    values = values_of(rows)
    begun = time.process_time_ns()
    take_floor(documents, values)
    return (time.process_time_ns() - begun) / len(documents) / 1e3


def measure(names: list[str], rounds: int) -> list[CoreMeasured]:
    """Measure the kinds in turn, so that other load affects all equally."""
    kinds = [BenchKind(name) for name in names]
    gc.collect()
    gc.freeze()
    for _ in range(rounds + 1):
        for kind in kinds:
            kind.round()
    return [kind.measured() for kind in kinds]


def plot(measured: list[CoreMeasured], path: Path) -> None:
    import altair

    rows = [{"event": each.kind, "times the floor": round(each.ratio, 1)} for each in measured]
    order = [each.kind for each in measured]
    base = altair.Chart(altair.InlineData(values=rows), title="An event in the core").encode(
        y=altair.Y("event:N", sort=order, title=None), x="times the floor:Q"
    )
    labels = base.mark_text(align="left", dx=4).encode(text="times the floor:Q")
    (base.mark_bar() + labels).properties(width=420).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plot", type=Path, help="a file for the plot: .svg, .png or .html")
    given = parser.parse_args()
    found = measure(given.kind, given.rounds)
    print(f"{'event':12}{'floor':>10}{'cell':>10}{'ratio':>9}  rows")
    for each in found:
        floor, cell = f"{each.floor:.1f} µs", f"{each.cell:.1f} µs"
        print(f"{each.kind:12}{floor:>10}{cell:>10}{each.ratio:>9.1f}  {each.rows}")
    if given.plot is not None:
        plot(found, given.plot)
        print(f"the plot is in {given.plot}")


if __name__ == "__main__":
    main()
