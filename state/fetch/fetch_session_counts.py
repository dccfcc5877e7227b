"""Counts of a broker's fetch session cache: sessions, partitions, evictions by client.

Source: the metrics NumIncrementalFetchSessions, NumIncrementalFetchPartitionsCached and
IncrementalFetchSessionEvictionsPerSec of Kafka's `FetchSessionCache`. Counts by client, which Kafka
does not have, show whose new sessions evict whose old ones.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.shards import SHARDS, Shard, shard_key

CLIENTS_MAX = 1000
"""Client ids with own counts; further ones are counted as `OTHERS`."""

OTHERS = "(others)"


class Evictions(msgspec.Struct, array_like=True):
    """Evictions by client id: of the evicted sessions, and of the new ones."""

    evicted: dict[str, int]
    evicting: dict[str, int]


class CacheCounts(NamedTuple):
    """Sums over the caches of a cell's brokers."""

    sessions: int
    partitions_cached: int
    evictions: int


def cache_counts(table: Table, brokers: Iterable[int]) -> CacheCounts:
    """Sum up the caches of brokers; the cost does not depend on their size."""
    shards = list(_shards(table, brokers))
    return CacheCounts(
        sum(len(shard.session_ids) for shard in shards),
        sum(shard.partitions_cached for shard in shards),
        sum(shard.evictions for shard in shards),
    )


def _shards(table: Table, brokers: Iterable[int]) -> Iterator[Shard]:
    for broker in brokers:
        for number in range(SHARDS):
            shard = table.get(shard_key(broker, number), Shard)
            if shard is not None:
                yield shard


def count_eviction(table: Table, broker: int, evicted: str, evicting: str) -> None:
    key = f"{broker}/evictions"
    if key not in table:
        table.put(key, Evictions({}, {}))
    counted = table.change(key, Evictions)
    _count(counted.evicted, evicted)
    _count(counted.evicting, evicting)


def _count(by_client: dict[str, int], client_id: str) -> None:
    if client_id not in by_client and len(by_client) >= CLIENTS_MAX:
        client_id = OTHERS
    by_client[client_id] = by_client.get(client_id, 0) + 1
