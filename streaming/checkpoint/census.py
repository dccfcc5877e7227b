"""How many groups, sessions, transactions and partitions a state holds, and which lack replicas.

It is read from the columns of the cells, as a checkpoint or an engine in this process has them: it
costs as long as all of the state is large, and the pass that decides requests pays nothing for it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from brokertwin.kafka_io.placement import cluster_of
from brokertwin.sinks import state_rows
from brokertwin.sinks.state_rows import Columns, Kind
from brokertwin.state.cell import overview
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.core.tables import Table, Tables

SHOWN_MAX = 20
NOBODY = -1


class Shrunk(msgspec.Struct, frozen=True):
    """A partition with fewer replicas in sync than it has; `leader` is -1 where there is none."""

    cluster: str
    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


class Census(msgspec.Struct, frozen=True):
    """What a state holds.

    Attributes:
        groups: by state, in Kafka's words.
        sessions: fetch sessions.
        producers: states of producers in logs; a replica has its own.
        transactions: transactional ids, by state.
        waiting: requests that wait for what time will bring, or other requests.
        partitions: of all topics, each once however many replicas it has.
        under_replicated: those with fewer replicas in sync than they have.
        offline: those without a leader.
        shrunk: the first of both, by cluster, topic and number; internal topics come last.
        lags: the sum of a group's lags, by group id; negative beyond the log end.
        beyond_log_end: offsets that are committed beyond the log end.
    """

    groups: dict[str, int]
    sessions: int
    producers: int
    transactions: dict[str, int]
    waiting: int
    partitions: int
    under_replicated: int
    offline: int
    shrunk: list[Shrunk]
    lags: dict[str, int] = {}
    beyond_log_end: int = 0


def census(cells: Mapping[str, Columns]) -> Census:
    """Count what the cells of one cluster, or of several, hold."""
    partitions = [
        (cluster, row)
        for cluster in sorted({cluster_of(cell) for cell in cells})
        for row in overview.partitions(
            [Tables(columns) for cell, columns in cells.items() if cluster_of(cell) == cluster]
        )
    ]
    shrunk = [
        Shrunk(cluster, **{name: row[name] for name in _OF_PARTITION})
        for cluster, row in partitions
        if _lacks_replicas(row) or row["leader"] == NOBODY
    ]
    offsets = state_rows.rows(Kind.OFFSETS, cells)
    lags = Counter[str]()
    for row in offsets:
        if row["lag"] is not None:
            lags[row["groupId"]] += row["lag"]
    return Census(
        groups=_by_state(Kind.GROUPS, cells),
        sessions=sum(_count(columns, "sessions", "session") for columns in cells.values()),
        producers=sum(_count(columns, "producers", "producer") for columns in cells.values()),
        transactions=_by_state(Kind.TRANSACTIONAL_IDS, cells),
        waiting=len(state_rows.rows(Kind.WAITING, cells)),
        partitions=len(partitions),
        under_replicated=sum(_lacks_replicas(row) for _, row in partitions),
        offline=sum(row["leader"] == NOBODY for _, row in partitions),
        shrunk=sorted(shrunk, key=lambda each: each.topic in INTERNAL_TOPICS)[:SHOWN_MAX],
        lags=dict(sorted(lags.items())),
        beyond_log_end=sum(row["lag"] is not None and row["lag"] < 0 for row in offsets),
    )


_OF_PARTITION = ("topic", "partition", "leader", "replicas", "isr")


def _lacks_replicas(row: Mapping[str, Any]) -> bool:
    return len(row["isr"]) < len(row["replicas"])


def _by_state(kind: Kind, cells: Mapping[str, Columns]) -> dict[str, int]:
    return dict(sorted(Counter(str(row["state"]) for row in state_rows.rows(kind, cells)).items()))


def _count(columns: Columns, table: str, part: str) -> int:
    """Items under keys `<machine>/<part>/...`; they are not decoded."""
    return sum(key.split("/", 2)[1:2] == [part] for key in Table(columns.get(table, b"")).keys(""))
