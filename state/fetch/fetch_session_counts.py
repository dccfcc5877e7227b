"""What a broker's fetch-session cache holds and has evicted: in all, and by client.

Source: the metrics NumIncrementalFetchSessions, NumIncrementalFetchPartitionsCached and
IncrementalFetchSessionEvictionsPerSec of Kafka's `FetchSessionCache`. Kafka has no numbers by
client; here they tell which client's new sessions drive out which client's old ones.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.slices import SHARDS, Shard, shard_key

CLIENTS_MAX = 1000
"""Client ids of which a broker counts evictions; those beyond are counted as `OTHERS`."""

OTHERS = "(others)"


class Evictions(msgspec.Struct, array_like=True):
    """A broker's evictions by client id: whose sessions went, and whose new ones took the room."""

    evicted: dict[str, int]
    evicting: dict[str, int]


class CacheCounts(NamedTuple):
    """What the caches of a cell's brokers hold, and what they have evicted since they began."""

    sessions: int
    partitions_cached: int
    evictions: int


def cache_counts(table: Table, brokers: Iterable[int]) -> CacheCounts:
    """Adds up the caches of some brokers; costs the same however much they hold."""
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
    """Notes that a session of the client `evicted` made room for one of `evicting`."""
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
