"""Counts groups, sessions, transactions and partitions in a state.

It reads the cells' columns of a checkpoint or an engine. Its cost grows with the state, but
handling requests costs nothing extra.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from brokertwin.state.cell import overview
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.core.tables import CellTables, Table
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import Columns, ItemKind

SHOWN_MAX = 20
NOBODY = -1


class Shrunk(msgspec.Struct, frozen=True):
    """An under-replicated partition; `leader` is -1 if there is none."""

    cluster: str
    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


class Census(msgspec.Struct, frozen=True):
    """The content of a state.

    Attributes:
        groups: by state, with Kafka's names.
        producers: producer states in logs, counted for each replica.
        transactions: transactional ids, by state.
        waiting: pending requests.
        partitions: of all topics, each counted once.
        under_replicated: partitions with fewer in-sync replicas than replicas.
        offline: partitions without a leader.
        shrunk: the first of both, by cluster, topic and number; internal topics come last.
        lags: total lag by group id; negative beyond the log end.
        beyond_log_end: offsets committed beyond the log end.
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
    partitions = [
        (cluster, row)
        for cluster in sorted({cluster_of(cell) for cell in cells})
        for row in overview.partitions(
            [CellTables(columns) for cell, columns in cells.items() if cluster_of(cell) == cluster]
        )
    ]
    shrunk = [
        Shrunk(cluster, **{name: row[name] for name in _OF_PARTITION})
        for cluster, row in partitions
        if _lacks_replicas(row) or row["leader"] == NOBODY
    ]
    offsets = state_rows.rows(ItemKind.OFFSETS, cells)
    lags = Counter[str]()
    for row in offsets:
        if row["lag"] is not None:
            lags[row["groupId"]] += row["lag"]
    return Census(
        groups=_by_state(ItemKind.GROUPS, cells),
        sessions=sum(_count(columns, "sessions", "session") for columns in cells.values()),
        producers=sum(_count(columns, "producers", "producer") for columns in cells.values()),
        transactions=_by_state(ItemKind.TRANSACTIONAL_IDS, cells),
        waiting=len(state_rows.rows(ItemKind.WAITING, cells)),
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


def _by_state(kind: ItemKind, cells: Mapping[str, Columns]) -> dict[str, int]:
    return dict(sorted(Counter(str(row["state"]) for row in state_rows.rows(kind, cells)).items()))


def _count(columns: Columns, table: str, part: str) -> int:
    """Count the items under keys `<machine>/<part>/...` without decoding."""
    return sum(key.split("/", 2)[1:2] == [part] for key in Table(columns.get(table, b"")).keys(""))
