"""Shards of a broker's fetch session cache.

Source: seed 000; `FetchSessionCache`, `FetchSessionCacheShard` in Kafka. The cache has eight
shards, each with an eighth of the slots and ids. New sessions go to them in turn. The seed's cache
has one shard (`brokertwin.fetch.session.cache.shards=1`): no session is rejected while there is
room anywhere.

A cache keeps its initial number of shards, because session ids determine the shard.
"""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

SHARDS = 8
"""Kafka's number of shards (`NumFetchSessionCacheShards`)."""


class Shard(msgspec.Struct, array_like=True):
    """Sessions of one shard, and the numbers of evictions and cached partitions."""

    session_ids: list[int]
    evictions: int = 0
    partitions_cached: int = 0


class NextShard(msgspec.Struct, array_like=True):
    number: int
    shards: int = SHARDS


class ShardLayout(NamedTuple):
    """Numbers of session slots and shards of a cache."""

    slots: int
    shards: int = SHARDS

    @staticmethod
    def of(settings: BrokerSettings) -> "ShardLayout":
        slots = settings.max_incremental_fetch_session_cache_slots
        return _layout(slots, settings.brokertwin_fetch_session_cache_shards)

    @property
    def room(self) -> int:
        return self.slots // self.shards

    @property
    def id_range(self) -> int:
        return (2**31 - 1) // self.shards

    def shard_of(self, session_id: int) -> int:
        return session_id // self.id_range

    def may_hold(self, session_id: int) -> bool:
        """True if an id belongs to a shard; a look-up of others fails (`getCacheShard`).

        Division is Java's, so a range of negative ids belongs to the first shard.
        """
        return -self.id_range < session_id < self.id_range * self.shards


@lru_cache
def _layout(slots: int, shards: int) -> ShardLayout:
    return ShardLayout(slots, shards)


def shard_key(broker: int, number: int) -> str:
    """Key of a shard in the table `fetch_sessions`."""
    return f"{broker}/shard/{number}"


def _next_key(broker: int) -> str:
    return f"{broker}/next-shard"


def layout_of(table: Table, broker: int, layout: ShardLayout) -> ShardLayout:
    """Layout of a broker's cache: its own, or `layout` for a new one."""
    existing = table.get(_next_key(broker), NextShard)
    return layout if existing is None else ShardLayout(layout.slots, existing.shards)


def take_turn(table: Table, broker: int, layout: ShardLayout, session_id: int | None) -> int:
    """Shard of a new session: that of its id if the id is chosen, else the next in turn."""
    key = _next_key(broker)
    if key not in table:
        table.put(key, NextShard(0, layout.shards))
    if session_id is not None:
        return layout.shard_of(session_id)
    turn = table.change(key, NextShard)
    turn.number += 1
    return (turn.number - 1) % layout.shards
