"""The slices of a broker's cache of fetch sessions: how many, and which ids lie in each.

Source: seed 000; `FetchSessionCache`, `FetchSessionCacheShard` in Kafka. Today a cache has eight,
each with an eighth of the slots and of the ids, and new sessions go round them. The seed's has one
(`brokertwin.fetch.session.cache.shards=1`): a thousand sessions compete for one room, and none is
turned away while another slice has room.

A cache keeps the slices with which it has begun: ids say in which of them a session lives.
"""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

SHARDS = 8
"""Slices of today's cache (`NumFetchSessionCacheShards`)."""


class Shard(msgspec.Struct, array_like=True):
    """The sessions of one slice of the cache, how many it has evicted, the partitions cached."""

    session_ids: list[int]
    evictions: int = 0
    partitions_cached: int = 0


class NextShard(msgspec.Struct, array_like=True):
    """The round robin over the slices, and how many there are."""

    number: int
    shards: int = SHARDS


class Slices(NamedTuple):
    """The `slots` of a cache, for one session each, in so many `shards`."""

    slots: int
    shards: int = SHARDS

    @staticmethod
    def of(settings: BrokerSettings) -> "Slices":
        """Those of a cache that begins."""
        slots = settings.max_incremental_fetch_session_cache_slots
        return _slices(slots, settings.brokertwin_fetch_session_cache_shards)

    @property
    def room(self) -> int:
        """Sessions in each slice."""
        return self.slots // self.shards

    @property
    def id_range(self) -> int:
        """Session ids in each slice."""
        return (2**31 - 1) // self.shards

    def slice_of(self, session_id: int) -> int:
        """The slice in which an id belongs."""
        return session_id // self.id_range

    def may_hold(self, session_id: int) -> bool:
        """Whether an id belongs in any; to look for another one fails (`getCacheShard`).

        Division there is Java's, so that of the ids below 0 a whole range is in the first slice.
        """
        return -self.id_range < session_id < self.id_range * self.shards


@lru_cache
def _slices(slots: int, shards: int) -> Slices:
    return Slices(slots, shards)


def shard_key(broker: int, number: int) -> str:
    """The key of a slice of a broker's cache in the table `fetch_sessions`."""
    return f"{broker}/shard/{number}"


def _next_key(broker: int) -> str:
    return f"{broker}/next-shard"


def kept(table: Table, broker: int, wanted: Slices) -> Slices:
    """The slices of a broker's cache: with its count, if it has begun, else as wanted."""
    begun = table.get(_next_key(broker), NextShard)
    return wanted if begun is None else Slices(wanted.slots, begun.shards)


def take_turn(table: Table, broker: int, slices: Slices, session_id: int | None) -> int:
    """The slice of a new session: that of its id, if that is chosen, else the next in turn."""
    key = _next_key(broker)
    if key not in table:
        table.put(key, NextShard(0, slices.shards))
    if session_id is not None:
        return slices.slice_of(session_id)
    following = table.change(key, NextShard)
    following.number += 1
    return (following.number - 1) % slices.shards
