"""The live audit in this process: micro-batches of lines or exchanges through its functions."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import Finding
from brokertwin.recordings.history.replication import REPLICATION
from brokertwin.streaming.live import operator
from brokertwin.streaming.live.entity import EntityArrival, LiveEntity
from brokertwin.streaming.live.facts import ClusterFacts, FactRow, learned
from brokertwin.streaming.live.findings import FoundOnly
from brokertwin.streaming.live.kinds import parts_for_replicas, routes
from brokertwin.streaming.live.reading import TopicLine
from brokertwin.streaming.live.tables import EntityTable, row_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "shop"
SOURCE = "requests/0"
TRIGGER_MS = 10_000
START_MS = 1_800_000_000_000
LATER_MS = 60_000


def cut(items: Sequence[Any], seed: int, most: int = 200) -> Iterator[Sequence[Any]]:
    chance, begin = random.Random(seed), 0
    while begin < len(items):
        end = begin + chance.randint(1, most)
        yield items[begin:end]
        begin = end


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in any but always the same order."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def rows_in_state(
    spark: "SparkSession", checkpoint: Path, table: EntityTable
) -> list[dict[str, Any]]:
    """The rows of a table that Spark's own reader shows, with `--key entity`."""
    state = spark.read.format("statestore").load(str(checkpoint))
    column = f"value.groupState.`{table.column}`"
    read = state.where(f"{column} is not null").select("key.cluster", f"{column}.*")
    return sorted_rows(each.asDict(recursive=True) for each in read.collect())


class FactsInMemory:
    def __init__(self) -> None:
        self._facts: dict[str, ClusterFacts] = defaultdict(ClusterFacts)

    def read(self, _now: int | None = None) -> dict[str, ClusterFacts]:
        return self._facts

    def write(self, rows: Iterable[FactRow]) -> None:
        for row in rows:
            self._facts[row.cluster].add(row)


class LiveMachines:
    """The entities of a cluster, which keep their encoded states between micro-batches.

    Attributes:
        found: the findings by id; the last with an id.
        states: the encoded state of each entity.
    """

    def __init__(self) -> None:
        self.found: dict[str, Finding] = {}
        self.states: dict[EntityKey, bytes] = {}
        self.facts = FactsInMemory()
        self.now = START_MS

    def batch(self, exchanges: Sequence[RecordedExchange]) -> None:
        """Run a micro-batch."""
        self.now += TRIGGER_MS
        facts = self.facts.read()
        of_cluster = facts[CLUSTER]
        for_replicas = parts_for_replicas(
            of_cluster, {each.line.broker for each in exchanges}, self.now
        )
        is_partial = for_replicas is not REPLICATION.parts_of
        new = learned(CLUSTER, SOURCE, exchanges, of_cluster, self.now, is_partial)
        self.facts.write(list(new))
        arrivals: dict[EntityKey, list[EntityArrival]] = defaultdict(list)
        for each in exchanges:
            number = abs(hash(each.line.place))
            for kind, name, part in routes(each, of_cluster, for_replicas):
                arrivals[EntityKey(kind, name)].append(EntityArrival(number, part))
        for key, own in arrivals.items():
            self._handle(key, own)

    def end(self) -> None:
        """Let every entity wait no longer."""
        self.now += LATER_MS
        for key in list(self.states):
            self._handle(key, [])

    def _handle(self, key: EntityKey, arrivals: Sequence[EntityArrival]) -> None:
        entity = LiveEntity(key, self.states.get(key))
        facts = self.facts.read()[CLUSTER]
        found = entity.handle(arrivals, facts, self.now, facts.event_time(self.now))
        self.found |= {each.id: each for each in found}
        self.states[key] = entity.stored()

    def audited(self) -> list[AuditFinding]:
        return findings(FoundOnly(self.found.values()))


class LiveTopics:
    """Lines through all functions of the query, without Spark and Kafka.

    Args:
        is_bucket: whether all entities are in one bucket.

    Attributes:
        rows: topic without prefix to key to value; None after a tombstone.
        findings: id and document of every finding, in the order of their rows.
        counts: numbers of lines, exchanges and findings.
        now: the query's time, in ms since 1970.
        idle_calls: number of state rows that were called without lines.
    """

    def __init__(self, is_bucket: bool = False) -> None:
        self.rows: dict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        self.findings: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self._facts = FactsInMemory()
        self._states: dict[tuple[str, EntityKey], bytes] = {}
        self._alarms: dict[tuple[str, EntityKey], int] = {}
        self._buckets: dict[str, bytes] = {}
        self._is_bucket = is_bucket
        self._paired: list[TopicLine] = []
        self.now = START_MS
        self.idle_calls = 0

    def batch(self, lines: Sequence[TopicLine]) -> None:
        """Run a micro-batch, with the exchanges that the one before has paired."""
        self.now += TRIGGER_MS
        lines, self._paired = [*lines, *self._paired], []
        by_source: dict[str, list[TopicLine]] = defaultdict(list)
        for line in lines:
            by_source[line.source].append(line)
        read = [
            row
            for own in by_source.values()
            for row in operator.read(own, self.now, self._facts, UTC, self.counts.update)
        ]
        values: dict[str, dict[EntityKey, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        unrouted = [row for row in read if row[1] == operator.UNROUTED]
        routed = operator.route(unrouted, self._facts.read(), self.counts.update)
        settled = [row for row in read if row[1] != operator.UNROUTED]
        for cluster, kind, name, parts in (*settled, *routed):
            values[cluster][EntityKey(kind, name)].append(parts)
        for (cluster, key), alarm in self._alarms.items():
            if alarm <= self.now:
                values[cluster].setdefault(key, [])
        for cluster, stored in self._buckets.items():
            if operator.Bucket(stored).next_alarm <= self.now:
                values.setdefault(cluster, {})
        for cluster, own_values in values.items():
            self._operate(cluster, own_values)

    def end(self) -> None:
        """Run micro-batches without new lines until no entity waits."""
        self.batch([])
        self.now += LATER_MS
        self.batch([])

    def _operate(self, cluster: str, values: Mapping[EntityKey, list[bytes]]) -> None:
        facts = self._facts.read()
        if self._is_bucket:
            self.idle_calls += not values
            bucket = operator.Bucket(self._buckets.pop(cluster, None))
            self._take(bucket.handle(cluster, values, facts, self.now))
            self.counts.update(bucket.counts)
            if bucket.entities:
                self._buckets[cluster] = bucket.stored()
            return
        for key, own in values.items():
            self.idle_calls += not own
            stored = self._states.pop((cluster, key), None)
            self._alarms.pop((cluster, key), None)
            handled = operator.handle(cluster, key, stored, own, facts, self.now)
            self._take(handled.outputs)
            self.counts.update(handled.counts)
            if handled.stored is not None:
                self._states[cluster, key] = handled.stored
                self._alarms[cluster, key] = self.now + handled.alarm_ms

    def _take(self, outputs: Sequence[operator.OutputRow]) -> None:
        for topic, key, value, cluster, broker in outputs:
            if topic == operator.EXCHANGES:
                assert value is not None
                line = TopicLine("exchanges/0", len(self.rows[topic]), value, cluster, broker)
                self._paired.append(line)
            if topic == operator.FINDINGS:
                assert value is not None
                self.findings.append(msgspec.json.decode(value))
            self.rows[topic][key] = value

    def with_names(self, text: str) -> str:
        """A text with the names of topics, which a finding has by id until a response shows it."""
        for topic_id, name in self._facts.read()[CLUSTER].known.topics.items():
            text = text.replace(topic_id, name)
        return text

    def rows_in_state(self, table: EntityTable) -> list[dict[str, Any]]:
        """The rows of a table in the state; each entity has its own."""
        states = self._states.items()
        rows = [row_of(key, LiveEntity(key, each).machine) for (_, key), each in states]
        return [row.values for row in rows if row is not None and row.table is table]

    def table(self, name: str) -> list[dict[str, Any]]:
        return [msgspec.json.decode(each) for each in self.rows[name].values() if each is not None]
