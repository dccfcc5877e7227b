"""The time of a Produce with acks -1 over three replicas, and over one.

    python bench/replication.py [--rounds 20] [--events 300]

Clusters of three brokers in this process, with a topic of three partitions and one leader on each
broker; Produces of one batch are sent to the leaders in turn:

    one replica           no followers
    three, one cell       appends, followers' fetches and responses within the Produce event
    three, three cells    the same steps as rows between cells, as in the topic `requests`

Rows between cells go in waves, as in micro-batches: the output of one wave is the next one.
`busiest` is the share of the cell with the most work: the time of the Produce if each cell has a
core; `waves` is the number of micro-batches until the response.

Times are medians of processor time in µs for one Produce, including its share of commits, over
rounds in which the clusters take turns; `ratio` is to one replica in the same round. A run is valid
only if every Produce succeeds and all replicas end at the leader's offset.
"""

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.state.cell.cell import COMMIT_EVENTS_MAX, Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.logs.log import Log

START = 1_700_000_000_000
BROKERS = (1, 2, 3)
CREATE_TOPICS, PRODUCE = 19, 0
TOPIC = "orders"

Row = tuple[str, bytes]
"""A row of `requests`: a cell's name and a document."""


class ReplicationMismatch(Exception):
    """A response or offset differs from the expected one."""


class ReplicationCost(NamedTuple):
    """One Produce of a round: µs of all cells, µs of the busiest, waves to its response."""

    total: float
    busiest: float
    waves: float


class ReplicatedCluster:
    """Three brokers in one or several cells with fixed clocks."""

    def __init__(self, name: str, replicas: int, cells: int) -> None:
        self.name = name
        split = {f"c.{n}": list(BROKERS[n::cells]) for n in range(cells)} if cells > 1 else {}
        settings = CellSettings(
            name="c", cluster="c", brokers=list(BROKERS), event_time="recorded", cells=split
        )
        names = list(split) or ["c"]
        self._cells = {n: Cell(msgspec.structs.replace(settings, name=n)) for n in names}
        self._of_broker = {b: n for n, each in split.items() for b in each}
        self._replicas = replicas
        self._numbers = itertools.count()
        self._places = itertools.cycle(range(len(BROKERS)))
        self._spent = dict.fromkeys(names, 0)
        assigned = [
            {"partitionIndex": n, "brokerIds": [BROKERS[(n + k) % 3] for k in range(replicas)]}
            for n in range(len(BROKERS))
        ]
        wanted = {"name": TOPIC, "assignments": assigned, "numPartitions": -1}
        body = {"topics": [{**wanted, "replicationFactor": -1}], "timeoutMs": 30_000}
        self._ask(BROKERS[0], CREATE_TOPICS, 7, body)

    def round(self, events: int) -> ReplicationCost:
        """Send Produces and return their mean cost."""
        self._spent = dict.fromkeys(self._spent, 0)
        gc.collect()
        gc.disable()
        waves = [self._produce() for _ in range(events)]
        for name, cell in self._cells.items():
            began = time.process_time_ns()
            cell.commit()
            self._spent[name] += time.process_time_ns() - began
        gc.enable()
        spent = [each / events / 1000 for each in self._spent.values()]
        return ReplicationCost(sum(spent), max(spent), statistics.mean(waves))

    def check(self) -> None:
        """Check that all replicas end at the same offset and high watermark."""
        ends = [
            (log.log_end_offset, log.high_watermark)
            for cell in self._cells.values()
            for broker in cell.settings.brokers_here
            for _, log in cell.tables.logs.items(f"{broker}/log/", Log)
        ]
        count = len(BROKERS) * self._replicas
        if len(ends) != count or any(end != watermark for end, watermark in ends):
            raise ReplicationMismatch(f"{self.name}: {ends}")

    def _produce(self) -> int:
        number = next(self._places)
        batch = {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1, "sizeInBytes": 100}
        data = [{"name": TOPIC, "partitionData": [{"index": number, "batches": [batch]}]}]
        body = {"acks": -1, "timeoutMs": 30_000, "topicData": data}
        return self._ask(BROKERS[number], PRODUCE, 9, body)

    def _ask(self, broker: int, key: int, version: int, body: dict[str, Any]) -> int:
        """Send a request and run all waves; return the wave of the response."""
        event_id = f"e{next(self._numbers)}-{broker}"
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "bench"}
        event = {"id": event_id, "cluster": "c", "broker": broker, "time": START}
        document = {**event, "nonce": event_id, "requestHeader": header, "request": body}
        rows = [(self._of_broker.get(broker, "c"), msgspec.json.encode(document))]
        answered, wave = 0, 0
        while rows:
            wave += 1
            rows, answer = self._wave(rows)
            if answer is not None:
                answered = wave
                if b'"errorCode":0' not in answer or b'"error":' in answer:
                    raise ReplicationMismatch(f"{self.name}: {answer!r}")
        if not answered:
            raise ReplicationMismatch(f"{self.name}: no answer")
        return answered

    def _wave(self, rows: list[Row]) -> tuple[list[Row], bytes | None]:
        """Handle rows; return the next wave, and the response if it is among the output."""
        told: list[Row] = []
        answer = None
        for name, document in rows:
            began = time.process_time_ns()
            found = self._cells[name].handle(document, Position(0, next(self._numbers)))
            self._spent[name] += time.process_time_ns() - began
            for row in found:
                if row.topic == outputs.REQUESTS:
                    told.append(((row.key or b"").decode(), row.value or b""))
                elif row.topic == outputs.RESPONSES:
                    answer = row.value
                elif row.topic == outputs.DEAD_LETTERS:
                    raise ReplicationMismatch(f"{self.name}: {row.value!r}")
        return told, answer


def measure(
    clusters: list[ReplicatedCluster], rounds: int, events: int
) -> Iterator[list[ReplicationCost]]:
    """Return each cluster's costs by round, without the first round."""
    for number in range(rounds + 1):
        order = clusters if number % 2 else list(reversed(clusters))
        found = {cluster.name: cluster.round(events) for cluster in order}
        if number:
            yield [found[cluster.name] for cluster in clusters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--events", type=int, default=COMMIT_EVENTS_MAX)
    given = parser.parse_args()
    clusters = [
        ReplicatedCluster("one replica", 1, 1),
        ReplicatedCluster("three, one cell", 3, 1),
        ReplicatedCluster("three, three cells", 3, 3),
    ]
    costs = list(measure(clusters, given.rounds, given.events))
    for cluster in clusters:
        cluster.check()
    print(f"{'':20} {'µs':>7} {'ratio':>6} {'busiest':>8} {'ratio':>6} {'waves':>6}")
    for place, cluster in enumerate(clusters):
        mine = [each[place] for each in costs]
        ratio = statistics.median(each[place].total / each[0].total for each in costs)
        busy = statistics.median(each[place].busiest / each[0].busiest for each in costs)
        print(
            f"{cluster.name:20} {statistics.median(c.total for c in mine):7.0f} {ratio:6.2f}"
            f" {statistics.median(c.busiest for c in mine):8.0f} {busy:6.2f}"
            f" {statistics.median(c.waves for c in mine):6.1f}"
        )


if __name__ == "__main__":
    main()
