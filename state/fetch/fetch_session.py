"""Incremental fetch sessions and their cache (KIP-227), the broker's side.

Source: seed 000; `FetchSession`, `FetchSessionCache`, `FetchManager` in Kafka.

    session id, epoch      what the broker does                        context
    0, -1                  full answer, no session                     SESSIONLESS
    0, 0                   full answer, tries to make a session        FULL
    S, 0                   drops S, then as (0, 0)                     FULL
    S, -1                  drops S, full answer, no session            SESSIONLESS
    S, e                   continues S where e is its epoch            INCREMENTAL or ERROR

A session lives in the slice of the cache that its id is of (`slices.py`). Sessions are not durable:
a broker forgets them when it restarts, so they are written in place and not through records.

An incremental request costs what has changed and not what is cached: a session keeps the set of its
*active* partitions, those that the next answer may show. A partition is active when a request names
it, when its log changes (the session watches the logs of its partitions), and as long as its last
answer had an error or records are left to read. All others would be read in vain.

An answer that is throttled shows nothing and leaves the session as it is; it makes none.
"""

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch import places, slices
from brokertwin.state.fetch.fetch_session_counts import count_eviction
from brokertwin.state.fetch.places import Opened, Place
from brokertwin.state.fetch.session_items import (
    Active,
    CachedPartition,
    FetchPartition,
    Members,
    Session,
    Watchers,
    active_key,
    members_key,
    partition_key,
    session_key,
    watchers_key,
)
from brokertwin.state.fetch.slices import Shard, Slices, shard_key
from brokertwin.state.logs.log import topic_id_of

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

EVICTION_MS = 120_000
"""Idle or living longer than this, a session may be evicted (not a setting)."""

CONSUMER = -1
"""The replica id of who follows nothing."""

TOPIC_ID_VERSION = 13
"""From this version of Fetch on, sessions name topics by id."""


class ContextKind(StrEnum):
    """How a fetch request is answered."""

    ERROR = "error"
    SESSIONLESS = "sessionless"
    FULL = "full"
    INCREMENTAL = "incremental"


INCREMENTAL: Final = ContextKind.INCREMENTAL
"""Asked for by this name as `NONE` is (`state/core/errors.py`)."""


class Context(msgspec.Struct, array_like=True):
    """The context of a fetch request; `request_epoch` is the one that the request named."""

    kind: ContextKind
    session_id: int
    request_epoch: int
    error: int = 0


class NewSession(NamedTuple):
    """Who asks for a session; `chosen_id` takes the place of what `nonce` would give."""

    client_id: str
    is_privileged: bool
    uses_topic_ids: bool
    nonce: str
    chosen_id: int | None
    isolation_level: int = 0


class Answered(msgspec.Struct, gc=False):
    """What the answer says of a partition, as far as the session looks at it."""

    identity: str
    error: int
    high_watermark: int
    log_start_offset: int
    size_in_bytes: int
    is_diverging: bool
    is_at_end: bool
    preferred_replica: int = -1
    may_prefer: bool = False
    """Whether a replica may become the preferred one though the log does not change."""

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to show until the log changes or a request names it."""
        has_news = self.error or self.is_diverging or self.preferred_replica >= 0
        return self.is_at_end and not has_news and not self.may_prefer


def next_epoch(epoch: int) -> int:
    """The epoch after this one: 0 is never come back to (`FetchMetadata.nextEpoch`)."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def log_changed(table: Table, broker: int, log: str) -> list[str]:
    """Tells the sessions that watch a log; gives back their keys.

    Args:
        table: the table `fetch_sessions`.
        broker: the broker of the log and of its sessions.
        log: the key of the log.
    """
    watchers = table.get(watchers_key(log), Watchers)
    if watchers is None:
        return []
    for session_id, identity in watchers.entries:
        places.activate(table, broker, session_id, identity)
    return [session_key(broker, session_id) for session_id, _ in watchers.entries]


class SessionCache:
    """The fetch sessions of one broker at the time `now` (ms since 1970), for one request."""

    def __init__(self, table: Table, broker: int, wanted: Slices, now: int) -> None:
        self._table = table
        self._broker = broker
        self._wanted = wanted
        self._now = now
        self._last: Opened | None = None

    @property
    def _slices(self) -> Slices:
        return slices.kept(self._table, self._broker, self._wanted)

    def session(self, session_id: int) -> Session | None:
        """The session with this id, if there is one."""
        return self._table.get(session_key(self._broker, session_id), Session)

    def partitions(self, session_id: int) -> list[CachedPartition]:
        """A session's partitions in the order in which they are read."""
        members = self._table.get(members_key(self._broker, session_id), Members)
        if members is None:
            return []
        cached = [self._partition(session_id, identity) for identity in members.identities]
        return sorted(cached, key=lambda partition: partition.order)

    def active(self, session_id: int) -> list[Place]:
        """The partitions that the next answer may show, as they are read."""
        found = self._find(session_id)
        return [] if found is None else found.active_places()

    def activate(self, session_id: int, identity: str) -> None:
        """Makes a partition active: the next answer may show it."""
        self._opened(session_id).activate(identity)

    def read_as(self, session_id: int, isolation_level: int) -> list[Place]:
        """The partitions that the next answer may show, as they are read.

        All are looked at where a request reads to another end than the last one.
        """
        found = self._opened(session_id)
        if found.session.isolation_level != isolation_level:
            session = self._table.change(session_key(self._broker, session_id), Session)
            session.isolation_level = isolation_level
            found.activate_all(each.requested.identity for each in self.partitions(session_id))
        return found.active_places()

    def watch(self, session_id: int, identity: str, log: str) -> None:
        """Has the session told of changes of a partition's log from now on."""
        found = self._opened(session_id)
        place = found.place(identity)
        if place.cached.watched_log == log:
            return
        cached = self._table.change(place.key, CachedPartition)
        self._unwatch(session_id, identity, cached.watched_log)
        cached.watched_log = log
        place.lies_in(self._broker, topic_id_of(log))
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
    ) -> Context:
        """The context of a request; an incremental one moves its session's epoch on.

        Partitions that are asked for come by their identity.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                if not self._slices.may_hold(session_id):
                    return _refused(Error.UNKNOWN_SERVER_ERROR, epoch)
                self.remove(session_id)
            kind = ContextKind.FULL if epoch == INITIAL_EPOCH else ContextKind.SESSIONLESS
            return Context(kind, INVALID_SESSION_ID, epoch)
        found = self._find(session_id)
        if found is None:
            if not self._slices.may_hold(session_id):
                return _refused(Error.UNKNOWN_SERVER_ERROR, epoch)
            return _refused(Error.FETCH_SESSION_ID_NOT_FOUND, epoch)
        session = found.session
        if session.epoch != epoch:
            return _refused(Error.INVALID_FETCH_SESSION_EPOCH, epoch)
        if session.uses_topic_ids != (version >= TOPIC_ID_VERSION):
            return _refused(Error.FETCH_SESSION_TOPIC_ID_ERROR, epoch)
        self._update(found, partitions, forgotten)
        if session.size == 0:
            self.remove(session_id)
            return Context(ContextKind.SESSIONLESS, INVALID_SESSION_ID, epoch)
        self.touch(session_id)
        session.epoch = next_epoch(epoch)
        return Context(INCREMENTAL, session_id, epoch)

    def create(self, new: NewSession, answered: list[tuple[FetchPartition, Answered]]) -> int:
        """A session over what was just answered, in that order; 0 where the cache has no room."""
        kept = self._slices
        number = slices.take_turn(self._table, self._broker, kept, new.chosen_id)
        shard = self._shard(number)
        if len(shard.session_ids) >= kept.room and not self._evict(number, new, len(answered)):
            return INVALID_SESSION_ID
        session_id = self._new_id(new, number)
        session = Session(
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
        busy = [answer.identity for _, answer in answered if not answer.is_quiet]
        self._table.put(active_key(self._broker, session_id), Active(busy))
        found = self._opened(session_id)
        for requested, answer in answered:
            cached = self._add(found, answer.identity, requested)
            cached.high_watermark = answer.high_watermark
            cached.log_start_offset = answer.log_start_offset
        self._change_shard(number).session_ids.append(session_id)
        self.touch(session_id)
        return session_id

    def select(
        self, context: Context, answered: Sequence[Answered], quiet: Sequence[str] = ()
    ) -> list[bool] | None:
        """Which partitions an incremental answer shows; None where the session has moved on.

        `answered` are the session's active partitions, but for those that have nothing new, whose
        identities are `quiet`; the others have nothing to show.
        A partition is shown for records, a moved high watermark or log start offset, an error, or
        a diverging epoch. Records send it to the end of the order; an error lets it be shown again.
        """
        found = self._find(context.session_id)
        if found is None:
            return [True] * len(answered)
        session = found.session
        if session.epoch != next_epoch(context.request_epoch):
            return None
        next_order, shown, settled = session.next_order, [], list(quiet)
        change, known = self._table.change, found.places
        for answer in answered:
            place = known.get(answer.identity) or found.place(answer.identity)
            cached, has_records = place.cached, answer.size_in_bytes > 0
            is_shown = has_records or is_news(cached, answer)
            shown.append(is_shown)
            if is_shown:
                high_watermark = -1 if answer.error else answer.high_watermark
                cached = change(place.key, CachedPartition)
                cached.high_watermark = high_watermark
                cached.log_start_offset = answer.log_start_offset
            if has_records:
                cached.order = next_order
                next_order += 1
            if answer.is_at_end and answer.is_quiet:
                settled.append(answer.identity)
        if next_order != session.next_order:
            self._table.change(session_key(self._broker, session.session_id), Session)
            session.next_order = next_order
        found.settle(settled)
        return shown

    def would_show(self, context: Context, answered: Sequence[Answered]) -> list[bool]:
        """What `select` would show now, and changes nothing; nothing where it has moved on."""
        found = self._find(context.session_id)
        if found is None:
            return [True] * len(answered)
        if self.is_superseded(context):
            return [False] * len(answered)
        return [is_news(found.place(answer.identity).cached, answer) for answer in answered]

    def is_superseded(self, context: Context) -> bool:
        """Whether a later request has come in the session before this one was answered."""
        session = self.session(context.session_id)
        return session is not None and session.epoch != next_epoch(context.request_epoch)

    def remove(self, session_id: int) -> None:
        """Closes a session; nothing happens where there is none."""
        members = self._table.get(members_key(self._broker, session_id), Members)
        if members is None:
            return
        found = self._opened(session_id)
        for identity in members.identities:
            self._drop_partition(found, identity)
        cached_size = max(found.session.cached_size, 0)
        self._table.drop(active_key(self._broker, session_id))
        self._table.drop(members_key(self._broker, session_id))
        self._table.drop(session_key(self._broker, session_id))
        places.close(self._table, self._broker, session_id)
        self._last = None
        shard = self._change_shard(self._slices.slice_of(session_id))
        shard.session_ids = [other for other in shard.session_ids if other != session_id]
        shard.partitions_cached -= cached_size

    def touch(self, session_id: int) -> None:
        """Notes the use of a session and whether it may be evicted (`FetchSessionCache.touch`)."""
        session = self._table.change(session_key(self._broker, session_id), Session)
        is_old = self._now - session.creation_ms > EVICTION_MS
        session.last_used_ms = self._now
        if session.size != session.cached_size:
            self._note_size(session)
        session.is_evictable_by_privileged = not session.is_privileged or is_old
        session.is_evictable_by_all = is_old

    def _note_size(self, session: Session) -> None:
        """Takes the number of a session's partitions over into that of its slice."""
        grown = session.size - max(session.cached_size, 0)
        session.cached_size = session.size
        if grown:
            self._change_shard(self._slices.slice_of(session.session_id)).partitions_cached += grown

    def _next_order(self, found: Opened) -> int:
        """The end of the order in which a session's partitions are read."""
        key = session_key(self._broker, found.session.session_id)
        session = self._table.change(key, Session)
        session.next_order += 1
        return session.next_order - 1

    def _update(
        self, found: Opened, partitions: dict[str, FetchPartition], forgotten: list[str]
    ) -> None:
        change, known = self._table.change, found.places
        for identity, requested in partitions.items():
            place = known.get(identity) or found.find(identity)
            if place is None:
                self._add(found, identity, requested)
            else:
                cached = change(place.key, CachedPartition)
                requested.topic = requested.topic or cached.requested.topic
                cached.requested = requested
        found.activate_all(partitions)
        gone = {identity for identity in forgotten if found.find(identity) is not None}
        if gone:
            session_id = found.session.session_id
            members = self._table.change(members_key(self._broker, session_id), Members)
            members.identities = [i for i in members.identities if i not in gone]
            found.settle(list(gone))
            for identity in gone:
                self._drop_partition(found, identity)
            session = self._table.change(session_key(self._broker, session_id), Session)
            session.size -= len(gone)

    def _drop_partition(self, found: Opened, identity: str) -> None:
        session_id = found.session.session_id
        self._unwatch(session_id, identity, self._partition(session_id, identity).watched_log)
        self._table.drop(partition_key(self._broker, session_id, identity))
        found.drop(identity)

    def _unwatch(self, session_id: int, identity: str, log: str) -> None:
        if not log:
            return
        watchers = self._table.change(watchers_key(log), Watchers)
        watchers.entries = [e for e in watchers.entries if e != (session_id, identity)]
        if not watchers.entries:
            self._table.drop(watchers_key(log))

    def _add(self, found: Opened, identity: str, requested: FetchPartition) -> CachedPartition:
        cached = CachedPartition(requested, self._next_order(found))
        session_id = found.session.session_id
        key = partition_key(self._broker, session_id, identity)
        if key not in self._table:
            members = self._table.change(members_key(self._broker, session_id), Members)
            members.identities.append(identity)
            found.session.size += 1
        self._table.put(key, cached)
        found.put(identity, cached, key)
        return cached

    def _evict(self, number: int, new: NewSession, size: int) -> bool:
        sessions = [self._known(session_id) for session_id in self._shard(number).session_ids]
        if not sessions:
            return False
        victim = min(sessions, key=lambda s: (s.last_used_ms, s.session_id))
        if self._now - victim.last_used_ms <= EVICTION_MS:
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
        id_range = self._slices.id_range
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

    def _partition(self, session_id: int, identity: str) -> CachedPartition:
        key = partition_key(self._broker, session_id, identity)
        cached = self._table.get(key, CachedPartition)
        assert cached is not None, key
        return cached

    def _opened(self, session_id: int) -> Opened:
        found = self._find(session_id)
        assert found is not None, session_id
        return found

    def _find(self, session_id: int) -> Opened | None:
        """The session with its partitions; a request has to do with one, again and again."""
        found = self._last
        if found is None or found.session.session_id != session_id:
            found = self._last = places.opened(self._table, self._broker, session_id)
        return found

    def _known(self, session_id: int) -> Session:
        session = self.session(session_id)
        assert session is not None, session_id
        return session


def is_news(cached: CachedPartition, answer: Answered) -> bool:
    """Whether an incremental answer shows a partition."""
    if cached.high_watermark != answer.high_watermark:
        return True
    if answer.size_in_bytes > 0 or cached.log_start_offset != answer.log_start_offset:
        return True
    leads_elsewhere = answer.is_diverging or answer.preferred_replica >= 0
    return answer.error != 0 or leads_elsewhere


def _eviction_key(session: Session) -> tuple[bool, int, int]:
    return (session.is_privileged, session.cached_size, session.session_id)


def _refused(error: Error, epoch: int) -> Context:
    return Context(ContextKind.ERROR, INVALID_SESSION_ID, epoch, int(error))
