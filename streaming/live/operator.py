"""The functions that Spark calls in its Python workers: read, route, and the stateful operator.

In the mode `entity` a Spark group is an entity. In the mode `bucket` it is a bucket of entities,
and its state is one binary column.
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.replication import REPLICATION
from brokertwin.streaming.live import findings, tables
from brokertwin.streaming.live.entity import ALARM_MS, EntityArrival, LiveEntity
from brokertwin.streaming.live.fact_topic import FactStore, fact_topic
from brokertwin.streaming.live.facts import ClusterFacts, FactRow, learned
from brokertwin.streaming.live.halves import CONNECTION, Connection
from brokertwin.streaming.live.halves import KEPT_MS as HALVES_KEPT_MS
from brokertwin.streaming.live.kinds import PartsOf, is_settled, parts_for_replicas, routes
from brokertwin.streaming.live.reading import HalfExchange, ReadExchange, TopicLine, read_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming.state import GroupState

    Batches = Iterable[pa.RecordBatch]
    Frames = Iterable[pd.DataFrame]

LINE_COLUMNS = ("source", "offset", "value", "cluster", "broker")
ROUTED_SCHEMA = "cluster STRING, kind STRING, id STRING, value BINARY"
ROUTED_COLUMNS = ("cluster", "kind", "id", "value")
OUTPUT_SCHEMA = "topic STRING, key BINARY, value BINARY, cluster STRING, broker INT"
ENTITY_KEYS = ("cluster", "kind", "id")
BUCKET_KEYS = ("cluster", "bucket")
BUCKET_SCHEMA = "entities BINARY"
UNROUTED = ""
"""The kind of exchanges whose entities depend on facts that may be in other partitions."""

FINDINGS, EXCHANGES = "findings", "exchanges"
ROWS_MAX = 5_000
"""Maximum number of rows of a record batch."""

PACKED_MAX = 50_000
"""Maximum number of parts of exchanges that wait in a task to be packed."""

Count = Callable[[Mapping[str, int]], None]
PackedKey = tuple[str, str, str]
"""Cluster, kind and id of an entity; the id of an `UNROUTED` exchange is its connection."""

RoutedRow = tuple[str, str, str, bytes]


class OutputRow(NamedTuple):
    """An output row: topic without prefix, key, value, and the headers of an exchange."""

    topic: str
    key: bytes
    value: bytes | None
    cluster: str
    broker: int = -1


@dataclass(frozen=True)
class LiveFunctions:
    """The functions of a query.

    Attributes:
        client: the connection to Kafka.
        fact_topic: full name of the topic of facts.
        zone: time zone of lines that name none.
        count: called with numbers: those of `ReadRows.counts`, findings, and of the exchanges
            those that are `repeated`, `late`, or `without_entity`.
    """

    client: ClientProperties
    fact_topic: str
    zone: tzinfo = UTC
    count: Count = lambda _: None

    @property
    def _facts(self) -> FactStore:
        return fact_topic(self.client, self.fact_topic)

    def read(self, batches: "Batches") -> "Iterator[pa.RecordBatch]":
        """Stage 1: rows of topics to the parts that entities use; writes new facts."""
        by_partition: dict[str, list[TopicLine]] = defaultdict(list)
        times = [0]
        for batch in batches:
            for source, offset, value, cluster, broker in _rows(batch.select(LINE_COLUMNS)):
                number = int(broker) if broker else None
                by_partition[source].append(TopicLine(source, offset, value, cluster, number))
            times += batch.column("now").to_pylist()
        now = max(times)
        for lines in by_partition.values():
            lines.sort(key=lambda each: each.offset)
            yield from _batches(read(lines, now, self._facts, self.zone, self.count))

    def route(self, batches: "Batches") -> "Iterator[pa.RecordBatch]":
        """Stage 2: the same for exchanges that had to wait for facts of the micro-batch."""
        import pyarrow.compute as pc

        unrouted: list[RoutedRow] = []
        for batch in batches:
            is_unrouted = pc.equal(batch.column("kind"), UNROUTED)
            yield batch.filter(pc.invert(is_unrouted))
            unrouted += _rows(batch.filter(is_unrouted))
        yield from _batches(route(unrouted, self._facts.read(), self.count))

    def entity(
        self, key: tuple[Any, ...], frames: "Frames", state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        """Stage 3: the stateful operator for an entity."""
        cluster, kind, name = key
        values = [each for frame in frames for each in frame["value"].tolist()]
        stored = state.get[0] if state.exists else None
        now = state.getCurrentProcessingTimeMs()
        handled = handle(
            cluster,
            EntityKey(kind, name),
            None if stored is None else bytes(stored),
            values,
            self._facts.read(now),
            now,
        )
        if handled.stored is None:
            state.remove()
        else:
            state.update(tables.state_of(handled.stored, handled.row))
            state.setTimeoutDuration(handled.alarm_ms)
        self.count(handled.counts)
        yield from _frames(handled.outputs)

    def bucket(
        self, key: tuple[Any, ...], frames: "Frames", state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        """Stage 3: the stateful operator for a bucket of entities."""
        cluster, _ = key
        by_key: dict[EntityKey, list[bytes]] = defaultdict(list)
        for frame in frames:
            columns = (frame[name].tolist() for name in ("kind", "id", "value"))
            for kind, name, value in zip(*columns, strict=True):
                by_key[EntityKey(kind, name)].append(value)
        now = state.getCurrentProcessingTimeMs()
        bucket = Bucket(bytes(state.get[0]) if state.exists else None)
        outputs = bucket.handle(cluster, by_key, self._facts.read(now), now)
        if bucket.entities:
            state.update((bucket.stored(),))
            state.setTimeoutDuration(max(ALARM_MS, bucket.next_alarm - now))
        else:
            state.remove()
        self.count(bucket.counts)
        yield from _frames(outputs)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection, which visits all bodies again and again: a third of the time.

    The stages make no cycles of references. Their bodies are freed inside, as the first collection
    after it visits all objects that are new.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def read(
    lines: Sequence[TopicLine], now: int, store: FactStore, zone: tzinfo, count: Count
) -> Iterator[RoutedRow]:
    """Read the rows of a partition, write their new facts; yield rows of `ROUTED_SCHEMA`.

    Args:
        lines: the rows, in their order.
        now: time of the micro-batch, in ms since 1970.
        store: of facts.
        zone: time zone of lines that name none.
        count: called with numbers of lines, exchanges, damaged lines, and `without_entity`.
    """
    with _uncollected():
        yield from _packed(_read(lines, now, store, zone, count), count)


def _read(
    lines: Sequence[TopicLine], now: int, store: FactStore, zone: tzinfo, count: Count
) -> Iterator[tuple[PackedKey, EntityArrival | ReadExchange | HalfExchange]]:
    facts = store.read()
    found = read_rows(lines, facts, zone)
    count(found.counts)
    parts: list[Iterable[tuple[PackedKey, EntityArrival | ReadExchange]]] = []
    for cluster, exchanges in found.exchanges.items():
        known = facts.get(cluster, ClusterFacts())
        for_replicas = parts_for_replicas(known, {e.exchange.line.broker for e in exchanges}, now)
        is_partial = for_replicas is not REPLICATION.parts_of
        of_cluster = (each.exchange for each in exchanges)
        rows = list(learned(cluster, lines[0].source, of_cluster, known, now, is_partial))
        rows += [
            FactRow(cluster, "address", address, broker)
            for address, broker in found.addresses[cluster].items()
            if known.addresses.get(address) != broker
        ]
        new = found.listeners[cluster] - known.listeners.keys()
        rows += [FactRow(cluster, "listener", each, True) for each in sorted(new)]
        store.write(rows)
        parts.append(_parts_of(cluster, exchanges, known, count, for_replicas))
    halves = (((cluster, CONNECTION, half.session), half) for cluster, half in found.halves)
    yield from chain(*parts, halves)


def route(
    rows: Iterable[RoutedRow], facts: Mapping[str, ClusterFacts], count: Count
) -> Iterator[RoutedRow]:
    """Route exchanges that are `UNROUTED`; yield rows of `ROUTED_SCHEMA`.

    Args:
        rows: of `ROUTED_SCHEMA`.
        facts: by cluster.
        count: called with the number of exchanges `without_entity`.
    """
    with _uncollected():
        parts = (
            part
            for cluster, _, _, value in rows
            for part in _parts_of(
                cluster,
                _exchanges_decoder.decode(value),
                facts.get(cluster, ClusterFacts()),
                count,
                is_last=True,
            )
        )
        yield from _packed(parts, count)


def _parts_of(
    cluster: str,
    exchanges: Iterable[ReadExchange],
    facts: ClusterFacts,
    count: Count,
    for_replicas: PartsOf = REPLICATION.parts_of,
    is_last: bool = False,
) -> Iterator[tuple[PackedKey, EntityArrival | ReadExchange]]:
    """The entities of exchanges with their parts; with `is_last` none is `UNROUTED`."""
    unused = 0
    for each in exchanges:
        exchange = each.exchange
        if not is_last and not is_settled(exchange, facts.known):
            yield (cluster, UNROUTED, exchange.line.connection), each
            continue
        has_entity = False
        for kind, name, part in routes(exchange, facts, for_replicas):
            has_entity = True
            yield (cluster, kind, name), EntityArrival(each.number, part)
        unused += not has_entity
    if unused:
        count({"without_entity": unused})


def _packed(items: Iterable[tuple[PackedKey, Any]], count: Count) -> Iterator[RoutedRow]:
    """Encode items of the same key together, because a row of Spark costs more than an item.

    Leaves out exchanges with a number that no field of Kafka has, and counts them as damaged.
    """
    by_key: dict[PackedKey, list[Any]] = defaultdict(list)
    waiting = 0
    damaged: set[int] = set()
    for key, item in items:
        by_key[key].append(item)
        waiting += 1
        if waiting == PACKED_MAX:
            yield from _rows_of(by_key, damaged)
            by_key, waiting = defaultdict(list), 0
    yield from _rows_of(by_key, damaged)
    if damaged:
        count({"damaged": len(damaged)})


def _rows_of(by_key: Mapping[PackedKey, list[Any]], damaged: set[int]) -> Iterator[RoutedRow]:
    for key, own in by_key.items():
        try:
            encoded = _encoder.encode(own)
        except OverflowError:
            found = {each.number for each in own if not _is_encodable(each)}
            damaged |= found
            encoded = _encoder.encode([each for each in own if each.number not in found])
        yield (*key, encoded)


def _is_encodable(item: Any) -> bool:
    try:
        _encoder.encode(item)
    except OverflowError:
        return False
    return True


class Handled(NamedTuple):
    """The result of an entity's micro-batch.

    Attributes:
        stored: its state; None if it is over.
        row: its row in a table.
        alarm_ms: in how many ms it has to be called if no exchange comes.
        counts: number of findings; of a client also of ignored exchanges, `late` and `repeated`.
    """

    outputs: list[OutputRow]
    stored: bytes | None
    row: tables.Row | None
    alarm_ms: int
    counts: Mapping[str, int] = {}


def handle(
    cluster: str,
    key: EntityKey,
    stored: bytes | None,
    values: Sequence[bytes],
    facts: Mapping[str, ClusterFacts],
    now: int,
) -> Handled:
    """Run an entity over the exchanges of a micro-batch.

    Args:
        cluster: its cluster.
        key: its kind and id.
        stored: its state; None for a new one.
        values: lists of arrivals or halves, encoded; none if it is called by its alarm.
        facts: by cluster.
        now: time of the micro-batch, in ms since 1970.
    """
    known = facts.get(cluster, ClusterFacts())
    event_time = known.event_time(now)
    if key.kind == CONNECTION:
        return _connection(cluster, key, stored, values, event_time or now)
    entity = LiveEntity(key, stored)
    before = tables.row_of(key, entity.machine) if stored is not None else None
    arrivals = [each for value in values for each in _arrivals_decoder.decode(value)]
    handled = entity.handle(arrivals, known, now, event_time)
    outputs = [
        OutputRow(FINDINGS, each.id.encode(), each.value, cluster)
        for each in findings.rows_of(cluster, entity.together(handled))
    ]
    # Each exchange has one client, but several other entities.
    counts = {"findings": len(outputs)} if outputs else {}
    if key.kind == CLIENTS.name:
        counts |= entity.counts
    is_over = not values and not entity.is_waiting and entity.is_over(event_time)
    after = None if is_over else tables.row_of(key, entity.machine)
    outputs += [OutputRow(*each, cluster) for each in tables.changes(cluster, before, after)]
    alarm_ms = entity.alarm_ms(known.is_behind(now, event_time))
    return Handled(outputs, None if is_over else entity.stored(), after, alarm_ms, counts)


def _connection(
    cluster: str, key: EntityKey, stored: bytes | None, values: Sequence[bytes], event_time: int
) -> Handled:
    """Pair the halves of a connection; it is over when none of them waits any longer."""
    entity = Connection(stored)
    if not values and entity.is_over(event_time):
        return Handled([], None, None, HALVES_KEPT_MS)
    outputs = [
        OutputRow(EXCHANGES, key.id.encode(), document, cluster, broker)
        for broker, document in entity.handle(
            half for value in values for half in _halves_decoder.decode(value)
        )
    ]
    return Handled(outputs, entity.stored(), None, HALVES_KEPT_MS)


class Bucket:
    """The entities of a bucket. An entity is decoded when it is handled.

    Args:
        stored: from `stored`; None for a new bucket.

    Attributes:
        entities: kind and id to the state, and the time of the alarm in ms since 1970.
        counts: see `Handled`.
    """

    def __init__(self, stored: bytes | None) -> None:
        self.counts: Counter[str] = Counter()
        self.entities: dict[EntityKey, tuple[bytes, int]] = {}
        if stored is not None:
            self.entities = {
                EntityKey(kind, name): (entity, alarm)
                for kind, name, entity, alarm in _bucket_decoder.decode(stored)
            }

    def handle(
        self,
        cluster: str,
        values: Mapping[EntityKey, Sequence[bytes]],
        facts: Mapping[str, ClusterFacts],
        now: int,
    ) -> list[OutputRow]:
        """Run the entities with exchanges, and those with an alarm; as `handle`."""
        outputs = []
        due = {key: () for key, (_, alarm) in self.entities.items() if alarm <= now}
        with _uncollected():
            for key, own in {**due, **values}.items():
                stored, _ = self.entities.get(key, (None, 0))
                handled = handle(cluster, key, stored, own, facts, now)
                outputs += handled.outputs
                if handled.counts:
                    self.counts.update(handled.counts)
                if handled.stored is None:
                    del self.entities[key]
                else:
                    self.entities[key] = handled.stored, now + handled.alarm_ms
        return outputs

    def rows(self) -> Iterator[tuple[EntityKey, tables.Row | None]]:
        for key, (stored, _) in self.entities.items():
            if key.kind != CONNECTION:
                yield key, tables.row_of(key, LiveEntity(key, stored).machine)

    @property
    def next_alarm(self) -> int:
        """The time of the first alarm, in ms since 1970."""
        return min(alarm for _, alarm in self.entities.values())

    def stored(self) -> bytes:
        return _encoder.encode([(*key, *state) for key, state in self.entities.items()])


_encoder = msgspec.msgpack.Encoder()
_exchanges_decoder = msgspec.msgpack.Decoder(list[ReadExchange])
_halves_decoder = msgspec.msgpack.Decoder(list[HalfExchange])
_arrivals_decoder = msgspec.msgpack.Decoder(list[EntityArrival])
_bucket_decoder = msgspec.msgpack.Decoder(list[tuple[str, str, bytes, int]])


def _rows(batch: "pa.RecordBatch") -> Iterator[Any]:
    return zip(*(each.to_pylist() for each in batch.columns), strict=True)


def _batches(rows: Iterator[RoutedRow]) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    types = [pa.string(), pa.string(), pa.string(), pa.binary()]
    while some := list(islice(rows, ROWS_MAX)):
        columns = list(map(pa.array, zip(*some, strict=True), types))
        yield pa.RecordBatch.from_arrays(columns, ROUTED_COLUMNS)


def _frames(rows: Sequence[OutputRow]) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    if rows:
        yield pd.DataFrame(rows, columns=OutputRow._fields)
