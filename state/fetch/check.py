"""What must hold of fetch sessions: a session, its partitions, its slice and its watches agree."""

from collections.abc import Sequence

from brokertwin.state.core.check import ALL, Touched, Violations
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.fetch.fetch_session_counts import CLIENTS_MAX, Evictions
from brokertwin.state.fetch.session_items import (
    Active,
    CachedPartition,
    Members,
    Session,
    Watchers,
)
from brokertwin.state.fetch.slices import Shard, Slices, kept, shard_key

KINDS = (
    *("session", "members", "active", "cached", "watchers"),
    *("shard", "next-shard", "evictions"),
)
"""The kinds of items that are about fetch sessions."""


def check(
    table: Table, brokers: Sequence[int], wanted: Slices, touched: Touched = ALL
) -> Violations:
    """The caches of some brokers, each in these slices unless it has begun with others."""
    watching: set[tuple[str, int, str]] = set()
    watched: set[tuple[str, int, str]] = set()
    is_any = touched.has("fetch_sessions", *KINDS)
    for broker in touched.brokers("fetch_sessions", brokers) if is_any else ():
        keys = {
            kind: table.keys(f"{broker}/{kind}/")
            for kind in ("session", "members", "active", "cached")
        }
        for violation in _cache(table, broker, keys, wanted, watching):
            yield f"broker {broker}: {violation}"
        for key, watchers in table.items(f"{broker}/watchers/", Watchers):
            log = key.replace("/watchers/", "/", 1)
            entries = set(watchers.entries)
            watched |= {(log, session_id, identity) for session_id, identity in entries}
            if not entries or len(entries) != len(watchers.entries):
                yield f"{log} is watched by {watchers.entries}"
    for log, session_id, identity in sorted(watching - watched):
        yield f"session {session_id} is not told of changes of {log}, its {identity}"
    for log, session_id, identity in sorted(watched - watching):
        yield f"session {session_id} is told of changes of {log}, which is not its {identity}"


def _cache(
    table: Table,
    broker: int,
    keys: dict[str, list[str]],
    wanted: Slices,
    watching: set[tuple[str, int, str]],
) -> Violations:
    cache, slices = SessionCache(table, broker, wanted, 0), kept(table, broker, wanted)
    ids = [int(key.split("/")[2]) for key in keys["session"]]
    for kind in ("members", "active"):
        if sorted(ids) != sorted(int(key.split("/")[2]) for key in keys[kind]):
            yield f"the sessions {ids} are not those that have `{kind}`"
    cached = {tuple(key.split("/", 3)[2:]) for key in keys["cached"]}
    counted = dict.fromkeys(range(slices.shards), 0)
    for session_id in ids:
        session = table.get(f"{broker}/session/{session_id}", Session)
        members = table.get(f"{broker}/members/{session_id}", Members)
        active = table.get(f"{broker}/active/{session_id}", Active)
        if session is None or members is None or active is None:
            continue
        places = {(str(session_id), identity) for identity in members.identities}
        if not places <= cached:
            yield f"session {session_id} names partitions that are not cached"
            continue
        cached -= places
        partitions = cache.partitions(session_id)
        yield from _session(session, members, active, partitions)
        counted[slices.slice_of(session_id)] += max(session.cached_size, 0)
        for partition in partitions:
            if partition.watched_log:
                identity = partition.requested.identity
                watching.add((partition.watched_log, session_id, identity))
    for session, identity in sorted(cached):  # type: ignore[assignment]
        yield f"partition {identity} is cached for session {session}, which does not name it"
    yield from _slices(table, broker, ids, counted, slices)


def _session(
    session: Session, members: Members, active: Active, partitions: list[CachedPartition]
) -> Violations:
    name, identities = f"session {session.session_id}", members.identities
    if session.size != len(identities) or len(set(identities)) != len(identities):
        yield f"{name} counts {session.size} partitions and has {identities}"
    if not set(active.identities) <= set(identities):
        yield f"{name} is active in {active.identities}, of which it has {identities}"
    if len(set(active.identities)) != len(active.identities):
        yield f"{name} is active twice in one of {active.identities}"
    orders = [partition.order for partition in partitions]
    if len(set(orders)) != len(orders) or any(order >= session.next_order for order in orders):
        yield f"{name} has the orders {orders}, the next one is {session.next_order}"
    if session.epoch < 1 or not session.creation_ms <= session.last_used_ms:
        yield f"{name} is in epoch {session.epoch}, and was used before it was made"


def _slices(
    table: Table, broker: int, ids: list[int], counted: dict[int, int], slices: Slices
) -> Violations:
    in_slices: dict[int, list[int]] = {}
    for session_id in ids:
        in_slices.setdefault(slices.slice_of(session_id), []).append(session_id)
    for number in range(slices.shards):
        shard = table.get(shard_key(broker, number), Shard)
        if shard is None and number not in in_slices:
            continue  # no session has ever been there
        shard = shard or Shard([])
        expected = sorted(in_slices.get(number, []))
        if sorted(shard.session_ids) != expected:
            yield f"slice {number} has the sessions {shard.session_ids}, there are {expected}"
        if len(shard.session_ids) > max(slices.room, 0):
            yield f"slice {number} has {len(shard.session_ids)} sessions; all have {slices.slots}"
        if shard.partitions_cached != counted[number]:
            yield (
                f"slice {number} counts {shard.partitions_cached} partitions,"
                f" its sessions {counted[number]}"
            )
    evictions = table.get(f"{broker}/evictions", Evictions)
    for by_client in (evictions.evicted, evictions.evicting) if evictions is not None else ():
        if len(by_client) > CLIENTS_MAX + 1:
            yield f"evictions are counted for {len(by_client)} clients"
