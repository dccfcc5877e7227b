"""Incremental fetch sessions and their cache (KIP-227), the broker's side.

Source: seed 000; `FetchSession`, `FetchSessionCache`, `FetchManager` in Kafka.

    session id, epoch      broker                                            context
    0, -1                  full response, no session                         SESSIONLESS
    0, 0                   full response, tries to create a session          FULL
    S, 0                   closes S, then like (0, 0)                        FULL
    S, -1                  closes S, full response, no session               SESSIONLESS
    S, e                   continues S if e is its session epoch             INCREMENTAL
                           another epoch: 71 INVALID_FETCH_SESSION_EPOCH     ERROR
                           no session S: 70 FETCH_SESSION_ID_NOT_FOUND       ERROR

The id of a session determines its shard of the cache (`shards.py`). Sessions are volatile, so they
are changed in place, without records.

The cost of an incremental request depends on what changed, not on the cached partitions. A session
keeps its *active* partitions, those that the next response may show. A partition becomes active if
a request names it, or if its log changes, which the session watches. It stays active while its last
response had an error or there are records left to read.

A waiting request is *superseded* if a later one uses its session meanwhile. `state/apis/fetch.py`
then answers 71, too.

A throttled response shows nothing, leaves the session unchanged and creates none.
"""

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch import places, shards
from brokertwin.state.fetch.fetch_session_counts import count_eviction
from brokertwin.state.fetch.places import FetchPlace, OpenedSession
from brokertwin.state.fetch.session_items import (
    Active,
    CachedFetchPartition,
    FetchPartition,
    FetchSession,
    Members,
    Watchers,
    active_key,
    members_key,
    partition_key,
    session_key,
    watchers_key,
)
from brokertwin.state.fetch.shards import Shard, ShardLayout, shard_key
from brokertwin.state.logs.log import topic_id_of

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

EVICTION_MS = 120_000
"""How long a session is idle, or how old it is, before it can be evicted. Kafka has no setting."""

NO_REPLICA = -1

CONSUMER = -1
"""Replica id of a consumer."""

TOPIC_ID_VERSION = 13
"""First version of Fetch with topic ids in sessions."""


class ContextKind(StrEnum):
    ERROR = "error"
    SESSIONLESS = "sessionless"
    FULL = "full"
    INCREMENTAL = "incremental"


INCREMENTAL: Final = ContextKind.INCREMENTAL
"""A global name for hot paths, like `NONE` in `brokertwin/protocol/errors.py`."""


class FetchContext(msgspec.Struct, array_like=True):
    kind: ContextKind
    session_id: int
    request_epoch: int
    error: int = 0


class NewSession(NamedTuple):
    """Request for a session; `chosen_id` is used in place of an id derived from `nonce`."""

    client_id: str
    is_privileged: bool
    uses_topic_ids: bool
    nonce: str
    chosen_id: int | None
    isolation_level: int = 0


class SessionResponse(msgspec.Struct, gc=False):
    """A partition's response, as far as its session needs it."""

    identity: str
    requested: FetchPartition
    error: int
    high_watermark: int
    log_start_offset: int
    size_in_bytes: int
    is_diverging: bool
    is_at_end: bool
    preferred_replica: int = NO_REPLICA
    may_prefer: bool = False
    """True if a preferred replica may appear without a change of the log."""

    @property
    def is_quiet(self) -> bool:
        """True if there is nothing to show until the log changes or a request names it."""
        has_news = self.error or self.is_diverging or self.preferred_replica >= 0
        return self.is_at_end and not has_news and not self.may_prefer


def next_epoch(epoch: int) -> int:
    """The next epoch; 0 is never reused (`FetchMetadata.nextEpoch`)."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def log_changed(table: Table, broker: int, watchers: Watchers) -> list[str]:
    """Activate a log's partition in the sessions that watch it; returns their keys.

    Args:
        table: the table `fetch_sessions`.
        broker: the broker of the log and its sessions.
        watchers: of the log.
    """
    for session_id, identity in watchers.entries:
        places.activate(table, broker, session_id, identity)
    return [session_key(broker, session_id) for session_id, _ in watchers.entries]


def note_use(session: FetchSession, now: int) -> None:
    """Note the time of use of a session whose size has not changed."""
    is_old = now - session.creation_ms > EVICTION_MS
    session.last_used_ms = now
    session.is_evictable_by_privileged = not session.is_privileged or is_old
    session.is_evictable_by_all = is_old


class SessionCache:
    """The fetch sessions of one broker at the time `now` (ms since 1970), for one request."""

    def __init__(self, table: Table, broker: int, layout: ShardLayout, now: int) -> None:
        self._table = table
        self._broker = broker
        self._wanted = layout
        self._now = now
        self._last: OpenedSession | None = None

    @property
    def _layout(self) -> ShardLayout:
        return shards.layout_of(self._table, self._broker, self._wanted)

    def session(self, session_id: int) -> FetchSession | None:
        return self._table.get(session_key(self._broker, session_id), FetchSession)

    def partitions(self, session_id: int) -> list[CachedFetchPartition]:
        members = self._table.get(members_key(self._broker, session_id), Members)
        if members is None:
            return []
        cached = [self._partition(session_id, identity) for identity in members.identities]
        return sorted(cached, key=lambda partition: partition.order)

    def active(self, session_id: int) -> list[FetchPlace]:
        opened = self._find(session_id)
        return [] if opened is None else opened.active_places()

    def activate(self, session_id: int, identity: str) -> None:
        self._opened(session_id).activate(identity)

    def active_for(self, session_id: int, isolation_level: int) -> list[FetchPlace]:
        """Active partitions in reading order, for a request with this isolation level.

        If the level differs from that of the last request, all partitions become active.
        """
        opened = self._opened(session_id)
        if opened.session.isolation_level != isolation_level:
            session = self._table.change(session_key(self._broker, session_id), FetchSession)
            session.isolation_level = isolation_level
            opened.activate_all(each.requested.identity for each in self.partitions(session_id))
        return opened.active_places()

    def watch(self, session_id: int, identity: str, log: str) -> None:
        opened = self._opened(session_id)
        place = opened.place(identity)
        if place.cached.watched_log == log:
            return
        cached = self._table.change(place.key, CachedFetchPartition)
        self._unwatch(session_id, identity, cached.watched_log)
        cached.watched_log = log
        place.set_topic(self._broker, topic_id_of(log))
        if watchers_key(log) not in self._table:
            self._table.put(watchers_key(log), Watchers([]))
        watchers = self._table.change(watchers_key(log), Watchers)
        watchers.entries.append((session_id, identity))

    def open(
        self,
        session_id: int,
        epoch: int,
        version: int,
        partitions: dict[str, FetchPartition],
        forgotten: list[str],
    ) -> FetchContext:
        """Open the context of a request; an incremental one advances its session's epoch.

        `partitions` are the requested ones by identity.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                if not self._layout.may_hold(session_id):
                    return _refused(Error.UNKNOWN_SERVER_ERROR, epoch)
                self.remove(session_id)
            kind = ContextKind.FULL if epoch == INITIAL_EPOCH else ContextKind.SESSIONLESS
            return FetchContext(kind, INVALID_SESSION_ID, epoch)
        opened = self._find(session_id)
        if opened is None:
            if not self._layout.may_hold(session_id):
                return _refused(Error.UNKNOWN_SERVER_ERROR, epoch)
            return _refused(Error.FETCH_SESSION_ID_NOT_FOUND, epoch)
        session = opened.session
        if session.epoch != epoch:
            return _refused(Error.INVALID_FETCH_SESSION_EPOCH, epoch)
        if session.uses_topic_ids != (version >= TOPIC_ID_VERSION):
            return _refused(Error.FETCH_SESSION_TOPIC_ID_ERROR, epoch)
        self._update(opened, partitions, forgotten)
        if session.size == 0:
            self.remove(session_id)
            return FetchContext(ContextKind.SESSIONLESS, INVALID_SESSION_ID, epoch)
        self.touch(session_id)
        session.epoch = next_epoch(epoch)
        return FetchContext(INCREMENTAL, session_id, epoch)

    def create(self, new: NewSession, responses: Sequence[SessionResponse]) -> int:
        """Create a session with these partitions, in order; 0 if the cache has no room."""
        kept = self._layout
        number = shards.take_turn(self._table, self._broker, kept, new.chosen_id)
        shard = self._shard(number)
        if len(shard.session_ids) >= kept.room and not self._evict(number, new, len(responses)):
            return INVALID_SESSION_ID
        session_id = self._new_id(new, number)
        session = FetchSession(
            session_id,
            new.client_id,
            new.is_privileged,
            new.uses_topic_ids,
            self._now,
            self._now,
            next_epoch(INITIAL_EPOCH),
            isolation_level=new.isolation_level,
        )
        self._table.put(session_key(self._broker, session_id), session)
        self._table.put(members_key(self._broker, session_id), Members([]))
        busy = [response.identity for response in responses if not response.is_quiet]
        self._table.put(active_key(self._broker, session_id), Active(busy))
        opened = self._opened(session_id)
        for response in responses:
            cached = self._add(opened, response.identity, response.requested)
            cached.high_watermark = response.high_watermark
            cached.log_start_offset = response.log_start_offset
        self._change_shard(number).session_ids.append(session_id)
        self.touch(session_id)
        return session_id

    def select(
        self, context: FetchContext, responses: Sequence[SessionResponse], quiet: Sequence[str] = ()
    ) -> list[bool] | None:
        """Decide which partitions an incremental response shows; None if it is superseded.

        `responses` are active partitions; `quiet` are the identities of active ones without news.
        Records, a moved high watermark or log start, an error or a diverging epoch are shown.
        Records move a partition to the end of the order. After an error it is shown again.
        """
        opened = self._find(context.session_id)
        if opened is None:
            return [True] * len(responses)
        session = opened.session
        if session.epoch != next_epoch(context.request_epoch):
            return None
        next_order, shown, settled = session.next_order, [], list(quiet)
        change, known = self._table.change, opened.places
        for response in responses:
            place = known.get(response.identity) or opened.place(response.identity)
            cached, has_records = place.cached, response.size_in_bytes > 0
            is_shown = has_records or is_news(cached, response)
            shown.append(is_shown)
            if is_shown:
                high_watermark = -1 if response.error else response.high_watermark
                cached = change(place.key, CachedFetchPartition)
                cached.high_watermark = high_watermark
                cached.log_start_offset = response.log_start_offset
            if has_records:
                cached.order = next_order
                next_order += 1
            if response.is_at_end and response.is_quiet:
                settled.append(response.identity)
        if next_order != session.next_order:
            self._table.change(session_key(self._broker, session.session_id), FetchSession)
            session.next_order = next_order
        opened.settle(settled)
        return shown

    def would_show(self, context: FetchContext, responses: Sequence[SessionResponse]) -> list[bool]:
        """What `select` would show, without a change; nothing if the request is superseded."""
        opened = self._find(context.session_id)
        if opened is None:
            return [True] * len(responses)
        if self.is_superseded(context):
            return [False] * len(responses)
        return [is_news(opened.place(response.identity).cached, response) for response in responses]

    def is_superseded(self, context: FetchContext) -> bool:
        session = self.session(context.session_id)
        return session is not None and session.epoch != next_epoch(context.request_epoch)

    def remove(self, session_id: int) -> None:
        members = self._table.get(members_key(self._broker, session_id), Members)
        if members is None:
            return
        opened = self._opened(session_id)
        for identity in members.identities:
            self._drop_partition(opened, identity)
        cached_size = max(opened.session.cached_size, 0)
        self._table.drop(active_key(self._broker, session_id))
        self._table.drop(members_key(self._broker, session_id))
        self._table.drop(session_key(self._broker, session_id))
        places.close(self._table, self._broker, session_id)
        self._last = None
        shard = self._change_shard(self._layout.shard_of(session_id))
        shard.session_ids = [other for other in shard.session_ids if other != session_id]
        shard.partitions_cached -= cached_size

    def touch(self, session_id: int) -> None:
        """Note the use of a session, and if it can be evicted (`FetchSessionCache.touch`)."""
        session = self._table.change(session_key(self._broker, session_id), FetchSession)
        if session.size != session.cached_size:
            self._note_size(session)
        note_use(session, self._now)

    def _note_size(self, session: FetchSession) -> None:
        """Update the number of cached partitions of a session's shard."""
        added = session.size - max(session.cached_size, 0)
        session.cached_size = session.size
        if added:
            self._change_shard(self._layout.shard_of(session.session_id)).partitions_cached += added

    def _next_order(self, opened: OpenedSession) -> int:
        """Take the next position at the end of a session's order."""
        key = session_key(self._broker, opened.session.session_id)
        session = self._table.change(key, FetchSession)
        session.next_order += 1
        return session.next_order - 1

    def _update(
        self, opened: OpenedSession, partitions: dict[str, FetchPartition], forgotten: list[str]
    ) -> None:
        change, known = self._table.change, opened.places
        for identity, requested in partitions.items():
            place = known.get(identity) or opened.find(identity)
            if place is None:
                self._add(opened, identity, requested)
            else:
                cached = change(place.key, CachedFetchPartition)
                requested.topic = requested.topic or cached.requested.topic
                cached.requested = requested
        opened.activate_all(partitions)
        removed = {identity for identity in forgotten if opened.find(identity) is not None}
        if removed:
            session_id = opened.session.session_id
            members = self._table.change(members_key(self._broker, session_id), Members)
            members.identities = [i for i in members.identities if i not in removed]
            opened.settle(list(removed))
            for identity in removed:
                self._drop_partition(opened, identity)
            session = self._table.change(session_key(self._broker, session_id), FetchSession)
            session.size -= len(removed)

    def _drop_partition(self, opened: OpenedSession, identity: str) -> None:
        session_id = opened.session.session_id
        self._unwatch(session_id, identity, self._partition(session_id, identity).watched_log)
        self._table.drop(partition_key(self._broker, session_id, identity))
        opened.drop(identity)

    def _unwatch(self, session_id: int, identity: str, log: str) -> None:
        if not log:
            return
        watchers = self._table.change(watchers_key(log), Watchers)
        watchers.entries = [e for e in watchers.entries if e != (session_id, identity)]
        if not watchers.entries:
            self._table.drop(watchers_key(log))

    def _add(
        self, opened: OpenedSession, identity: str, requested: FetchPartition
    ) -> CachedFetchPartition:
        cached = CachedFetchPartition(requested, self._next_order(opened))
        session_id = opened.session.session_id
        key = partition_key(self._broker, session_id, identity)
        if key not in self._table:
            members = self._table.change(members_key(self._broker, session_id), Members)
            members.identities.append(identity)
            opened.session.size += 1
        self._table.put(key, cached)
        opened.put(identity, cached, key)
        return cached

    def _evict(self, number: int, new: NewSession, size: int) -> bool:
        sessions = [self._known(session_id) for session_id in self._shard(number).session_ids]
        if not sessions:
            return False
        victim = min(sessions, key=lambda s: (s.is_polling, s.last_used_ms, s.session_id))
        if victim.is_polling or self._now - victim.last_used_ms <= EVICTION_MS:
            candidates = [
                session
                for session in sessions
                if (session.is_evictable_by_privileged and new.is_privileged)
                or session.is_evictable_by_all
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_eviction_key)
            if (new.is_privileged, size, 0) < _eviction_key(victim):
                return False
        self.remove(victim.session_id)
        self._change_shard(number).evictions += 1
        count_eviction(self._table, self._broker, victim.client_id, new.client_id)
        return True

    def _new_id(self, new: NewSession, number: int) -> int:
        if new.chosen_id is not None and self.session(new.chosen_id) is None:
            return new.chosen_id
        id_range = self._layout.id_range
        first = max(1, number * id_range)
        width = (number + 1) * id_range - first
        attempt = 0
        while True:
            digest = hashlib.sha256(f"{new.nonce}/session/{attempt}".encode()).digest()
            session_id = first + int.from_bytes(digest[:8], "big") % width
            if self.session(session_id) is None:
                return session_id
            attempt += 1

    def _shard(self, number: int) -> Shard:
        return self._table.get(shard_key(self._broker, number), Shard) or Shard([])

    def _change_shard(self, number: int) -> Shard:
        key = shard_key(self._broker, number)
        if key not in self._table:
            self._table.put(key, Shard([]))
        return self._table.change(key, Shard)

    def _partition(self, session_id: int, identity: str) -> CachedFetchPartition:
        key = partition_key(self._broker, session_id, identity)
        cached = self._table.get(key, CachedFetchPartition)
        assert cached is not None, key
        return cached

    def _opened(self, session_id: int) -> OpenedSession:
        opened = self._find(session_id)
        assert opened is not None, session_id
        return opened

    def _find(self, session_id: int) -> OpenedSession | None:
        """The session with its partitions; the last one is cached for the request."""
        opened = self._last
        if opened is None or opened.session.session_id != session_id:
            opened = self._last = places.opened(self._table, self._broker, session_id)
        return opened

    def _known(self, session_id: int) -> FetchSession:
        session = self.session(session_id)
        assert session is not None, session_id
        return session


def is_news(cached: CachedFetchPartition, response: SessionResponse) -> bool:
    """True if an incremental response shows a partition."""
    if cached.high_watermark != response.high_watermark:
        return True
    if response.size_in_bytes > 0 or cached.log_start_offset != response.log_start_offset:
        return True
    leads_elsewhere = response.is_diverging or response.preferred_replica >= 0
    return response.error != 0 or leads_elsewhere


def _eviction_key(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_privileged, session.cached_size, session.session_id)


def _refused(error: Error, epoch: int) -> FetchContext:
    return FetchContext(ContextKind.ERROR, INVALID_SESSION_ID, epoch, int(error))
