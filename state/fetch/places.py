"""Partitions of a Fetch and of its session, in memory.

Both are derived from items and never stored. Those of a session are kept while its items are in
memory (`Table.derived`), so that a request finds a partition with one look-up and skips the others.
"""

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.state.cluster import image
from brokertwin.state.cluster.image import Topic
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.session_items import (
    Active,
    CachedFetchPartition,
    FetchPartition,
    FetchSession,
    active_key,
    partition_key,
    session_key,
)
from brokertwin.state.logs import log as logs

OPENED_MAX = 10_000
"""Sessions kept in memory; beyond this number all are dropped, and built again on use."""

_DERIVED = "fetch sessions"


class ReadNotes(msgspec.Struct, frozen=True):
    """Notes about a partition for one request.

    Attributes:
        preferred_replica: the preferred read replica, or -1.
        may_prefer: it may change although the log does not.
        is_held: a throttle holds back the partition.
    """

    preferred_replica: int = -1
    may_prefer: bool = False
    is_held: bool = False


NO_NOTES = ReadNotes()


class FetchPlace:
    """A partition that a Fetch reads.

    Attributes:
        identity: its name in a session.
        cached: its item in the session; without a session only the request.
        key: key of that item; empty without a session.
        topic_id: of its topic, if known.
        topic_key: key of its topic in the broker's metadata image.
        log: key of its log.
        topic: as found by the last request; None if deleted or not readable.
        notes: of the current request.
    """

    __slots__ = ("cached", "identity", "key", "log", "notes", "topic", "topic_id", "topic_key")

    def __init__(
        self, broker: int, identity: str, cached: CachedFetchPartition, key: str, topic_id: Uuid
    ) -> None:
        self.identity = identity
        self.cached = cached
        self.key = key
        self.topic: Topic | None = None
        self.notes = NO_NOTES
        self.set_topic(broker, topic_id)

    def set_topic(self, broker: int, topic_id: Uuid) -> None:
        """Set the topic; a name can belong to different topics over time."""
        self.topic_id = topic_id
        self.topic_key = image.topic_key(broker, topic_id)
        self.log = logs.log_key(broker, topic_id, self.cached.requested.partition)


def of_request(broker: int, identity: str, requested: FetchPartition, topic_id: Uuid) -> FetchPlace:
    return FetchPlace(broker, identity, CachedFetchPartition(requested, 0), "", topic_id)


class OpenedSession:
    """A session with the partitions that were used so far.

    Attributes:
        session: its item.
        places: its partitions by identity.
        active: the active ones, as in the item `Active`; None if not used so far.
    """

    def __init__(self, table: Table, broker: int, session: FetchSession) -> None:
        self._table = table
        self._broker = broker
        self._active_key = active_key(broker, session.session_id)
        self.session = session
        self.places: dict[str, FetchPlace] = {}
        active = table.get(self._active_key, Active)
        assert active is not None, self._active_key
        self.active: dict[str, FetchPlace | None] = dict.fromkeys(active.identities)

    def find(self, identity: str) -> FetchPlace | None:
        place = self.places.get(identity)
        if place is not None:
            return place
        key = partition_key(self._broker, self.session.session_id, identity)
        cached = self._table.get(key, CachedFetchPartition)
        return None if cached is None else self.put(identity, cached, key)

    def put(self, identity: str, cached: CachedFetchPartition, key: str) -> FetchPlace:
        """Keep a partition's item; without a topic id, its watched log shows the topic."""
        topic_id = cached.requested.topic_id
        if topic_id == ZERO_UUID and cached.watched_log:
            topic_id = logs.topic_id_of(cached.watched_log)
        place = self.places[identity] = FetchPlace(self._broker, identity, cached, key, topic_id)
        return place

    def place(self, identity: str) -> FetchPlace:
        place = self.places.get(identity) or self.find(identity)
        assert place is not None, identity
        return place

    def drop(self, identity: str) -> None:
        self.places.pop(identity, None)

    def activate(self, identity: str) -> None:
        if identity not in self.active:
            self._table.change(self._active_key, Active).identities.append(identity)
            self.active[identity] = self.places.get(identity)

    def activate_all(self, identities: Iterable[str]) -> None:
        """Make distinct partitions active."""
        active, places = self.active, self.places
        new = [identity for identity in identities if identity not in active]
        if new:
            self._table.change(self._active_key, Active).identities.extend(new)
            for identity in new:
                active[identity] = places.get(identity)

    def settle(self, identities: list[str]) -> None:
        """Make partitions inactive."""
        active = self.active
        if not active.keys().isdisjoint(identities):
            item = self._table.change(self._active_key, Active)
            for identity in identities:
                active.pop(identity, None)
            item.identities = list(active)

    def active_places(self) -> list[FetchPlace]:
        """Active partitions in reading order."""
        places = [place for place in self.active.values() if place is not None]
        if len(places) < len(self.active):
            places = [self.place(identity) for identity in self.active]
            self.active = {place.identity: place for place in places}
        places.sort(key=_order)
        return places


_order = attrgetter("cached.order")


def opened(table: Table, broker: int, session_id: int) -> OpenedSession | None:
    """The session with this id, if it exists.

    The kept one is used while the session's item is the same; after a restart it is another one.
    """
    key = session_key(broker, session_id)
    session = table.get(key, FetchSession)
    if session is None:
        return None
    kept: dict[str, OpenedSession] | None = table.derived.get(_DERIVED)
    if kept is None or len(kept) > OPENED_MAX:
        kept = table.derived[_DERIVED] = {}
    result = kept.get(key)
    if result is None or result.session is not session:
        result = kept[key] = OpenedSession(table, broker, session)
    return result


def close(table: Table, broker: int, session_id: int) -> None:
    table.derived.get(_DERIVED, {}).pop(session_key(broker, session_id), None)


def activate(table: Table, broker: int, session_id: int, identity: str) -> None:
    """Make a partition of a session active, without building the session for it."""
    key = session_key(broker, session_id)
    session: OpenedSession | None = table.derived.get(_DERIVED, {}).get(key)
    if session is not None and session.session is table.get(key, FetchSession):
        session.activate(identity)
        return
    active = table.get(active_key(broker, session_id), Active)
    assert active is not None, key
    if identity not in active.identities:
        table.change(active_key(broker, session_id), Active).identities.append(identity)
