"""Invariants of fetch sessions: partitions, shard and watches agree."""

from collections.abc import Sequence

from brokertwin.state.core.check import ALL, Touched, Violations
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.fetch.fetch_session_counts import CLIENTS_MAX, Evictions
from brokertwin.state.fetch.session_items import (
    Active,
    CachedFetchPartition,
    FetchSession,
    Members,
    Watchers,
)
from brokertwin.state.fetch.shards import Shard, ShardLayout, layout_of, shard_key

KINDS = (
    *("session", "members", "active", "cached", "watchers"),
    *("shard", "next-shard", "evictions", "follower"),
)
"""Kinds of items of fetch sessions."""


def check(
    table: Table, brokers: Sequence[int], layout: ShardLayout, touched: Touched = ALL
) -> Violations:
    """Check the caches of brokers; `layout` is the layout of a cache without sessions."""
    watching: set[tuple[str, int, str]] = set()
    watched: set[tuple[str, int, str]] = set()
    is_any = touched.has("fetch_sessions", *KINDS)
    for broker in touched.brokers("fetch_sessions", brokers) if is_any else ():
        keys = {
            kind: table.keys(f"{broker}/{kind}/")
            for kind in ("session", "members", "active", "cached")
        }
        for violation in _cache(table, broker, keys, layout, watching):
            yield f"broker {broker}: {violation}"
        for key, watchers in table.items(f"{broker}/watchers/", Watchers):
            log = key.replace("/watchers/", "/", 1)
            entries = set(watchers.entries)
            watched |= {(log, session_id, identity) for session_id, identity in entries}
            if not entries or len(entries) != len(watchers.entries):
                yield f"{log} is watched by {watchers.entries}"
    for log, session_id, identity in sorted(watching - watched):
        yield f"session {session_id} does not watch {log}, the log of its {identity}"
    for log, session_id, identity in sorted(watched - watching):
        yield f"session {session_id} watches {log}, which is not the log of its {identity}"


def _cache(
    table: Table,
    broker: int,
    keys: dict[str, list[str]],
    shard_layout: ShardLayout,
    watching: set[tuple[str, int, str]],
) -> Violations:
    cache, layout = (
        SessionCache(table, broker, shard_layout, 0),
        layout_of(table, broker, shard_layout),
    )
    ids = [int(key.split("/")[2]) for key in keys["session"]]
    for kind in ("members", "active"):
        if sorted(ids) != sorted(int(key.split("/")[2]) for key in keys[kind]):
            yield f"the sessions {ids} do not equal those with `{kind}`"
    cached = {tuple(key.split("/", 3)[2:]) for key in keys["cached"]}
    counted = dict.fromkeys(range(layout.shards), 0)
    for session_id in ids:
        session = table.get(f"{broker}/session/{session_id}", FetchSession)
        members = table.get(f"{broker}/members/{session_id}", Members)
        active = table.get(f"{broker}/active/{session_id}", Active)
        if session is None or members is None or active is None:
            continue
        places = {(str(session_id), identity) for identity in members.identities}
        if not places <= cached:
            yield f"session {session_id} has partitions that are not cached"
            continue
        cached -= places
        partitions = cache.partitions(session_id)
        yield from _session(session, members, active, partitions)
        counted[layout.shard_of(session_id)] += max(session.cached_size, 0)
        for partition in partitions:
            if partition.watched_log:
                identity = partition.requested.identity
                watching.add((partition.watched_log, session_id, identity))
    for session, identity in sorted(cached):  # type: ignore[assignment]
        yield f"partition {identity} is cached for session {session}, which does not have it"
    yield from _shards(table, broker, ids, counted, layout)


def _session(
    session: FetchSession, members: Members, active: Active, partitions: list[CachedFetchPartition]
) -> Violations:
    name, identities = f"session {session.session_id}", members.identities
    if session.size != len(identities) or len(set(identities)) != len(identities):
        yield f"{name} counts {session.size} partitions and has {identities}"
    if not set(active.identities) <= set(identities):
        yield f"{name} is active in {active.identities}, and has only {identities}"
    if len(set(active.identities)) != len(active.identities):
        yield f"{name} has a repeated active partition: {active.identities}"
    orders = [partition.order for partition in partitions]
    if len(set(orders)) != len(orders) or any(order >= session.next_order for order in orders):
        yield f"{name} has the orders {orders}, but the next one is {session.next_order}"
    if session.epoch < 1 or not session.creation_ms <= session.last_used_ms:
        yield f"{name} is in epoch {session.epoch}, or was used before it was created"


def _shards(
    table: Table, broker: int, ids: list[int], counted: dict[int, int], layout: ShardLayout
) -> Violations:
    by_shard: dict[int, list[int]] = {}
    for session_id in ids:
        by_shard.setdefault(layout.shard_of(session_id), []).append(session_id)
    for number in range(layout.shards):
        shard = table.get(shard_key(broker, number), Shard)
        if shard is None and number not in by_shard:
            continue  # it never had a session
        shard = shard or Shard([])
        expected = sorted(by_shard.get(number, []))
        if sorted(shard.session_ids) != expected:
            yield f"shard {number} has the sessions {shard.session_ids} instead of {expected}"
        if len(shard.session_ids) > max(layout.room, 0):
            yield f"shard {number} has {len(shard.session_ids)} sessions; the cache {layout.slots}"
        if shard.partitions_cached != counted[number]:
            yield (
                f"shard {number} counts {shard.partitions_cached} partitions,"
                f" its sessions {counted[number]}"
            )
    evictions = table.get(f"{broker}/evictions", Evictions)
    for by_client in (evictions.evicted, evictions.evicting) if evictions is not None else ():
        if len(by_client) > CLIENTS_MAX + 1:
            yield f"evictions are counted for {len(by_client)} clients"
