"""Share sessions: what a member of a share group fetches from a broker.

    sessions   <broker>/share-session/<group>/<member>   ShareSession

A session is opened with epoch 0, each request in it has the next epoch, and -1 closes it. It is not
durable. It ends with the connection that has opened it, if that has opened none since and none of
its sessions was closed since: Kafka keeps one session of each connection, and marks that one stale
whichever is closed. Where `group.share.max.share.sessions` are open nobody gets another one; none
is evicted, however long it was silent. But a connection's end may never be told (a gateway that is
killed): one that was silent for longer than `connections.max.idle.ms`, after which Kafka would have
closed its connection, goes where another needs its place. Source: `ShareSessionCache`,
`ShareSession`, `CachedSharePartition`, `SharePartitionManager.newContext` in Kafka 4.3.1; KIP-932.
"""

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import escape, unescape

KIND = "share-session"
FIRST_EPOCH, FINAL_EPOCH = 0, -1
IDLE_MS = 600_000
"""Kafka's default of connections.max.idle.ms; below 0 connections may be silent for ever."""

_LAST_EPOCH = 2**31 - 1

Place = tuple[Uuid, int]
"""A topic's id and a partition."""


class CachedPartition(msgspec.Struct, array_like=True):
    """A partition of a session, and whether the next answer has to show it."""

    topic_id: Uuid
    partition: int
    must_show: bool

    @property
    def place(self) -> Place:
        """Which one it is."""
        return self.topic_id, self.partition


class ShareSession(msgspec.Struct):
    """A member's session: the epoch that comes next, and its partitions in their order.

    `connection` has opened it; the session ends with it where `ends_with_it`. `used_at` is when it
    was last asked, in ms since 1970.
    """

    epoch: int
    partitions: list[CachedPartition]
    connection: str = ""
    ends_with_it: bool = True
    used_at: int = 0

    def update(self, wanted: list[Place], forgotten: list[Place]) -> None:
        """Takes partitions in, to be shown, and others out."""
        known = {each.place for each in self.partitions}
        self.partitions += [CachedPartition(*each, True) for each in wanted if each not in known]
        gone = set(forgotten)
        self.partitions = [each for each in self.partitions if each.place not in gone]

    def would_show(self, place: Place, has_records: bool, has_error: bool) -> bool:
        """Whether an answer would show a partition."""
        cached = next((each for each in self.partitions if each.place == place), None)
        return cached is None or has_records or has_error or cached.must_show

    def select(self, place: Place, has_records: bool, has_error: bool) -> bool:
        """Whether an answer shows a partition; who got records is asked last next time."""
        cached = next((each for each in self.partitions if each.place == place), None)
        if cached is None:
            return True
        is_shown = has_records or has_error or cached.must_show
        cached.must_show = has_error
        if has_records:
            self.partitions.remove(cached)
            self.partitions.append(cached)
        return is_shown


def find(broker: Broker, group_id: str, member_id: str) -> ShareSession | None:
    """A member's session, to be read only."""
    return broker.tables.shares.get(_key(broker, group_id, member_id), ShareSession)


def open_session(
    broker: Broker, group_id: str, member_id: str, places: list[Place], connection: str
) -> bool:
    """Opens a session in the place of the member's last one; False where there are too many."""
    close(broker, group_id, member_id)
    if len(_keys(broker)) >= group_configs.share_max_sessions(broker):
        return False
    _outlive(broker, connection)
    partitions = [CachedPartition(*place, False) for place in dict.fromkeys(places)]
    session = ShareSession(FIRST_EPOCH + 1, partitions, connection, used_at=broker.now)
    broker.tables.shares.put(_key(broker, group_id, member_id), session)
    return True


def take_up(broker: Broker, group_id: str, member_id: str, epoch: int) -> ShareSession | Error:
    """The session for a request in this epoch, to be changed: or 122, 123."""
    known = find(broker, group_id, member_id)
    if known is None:
        return Error.SHARE_SESSION_NOT_FOUND
    if epoch not in (known.epoch, FINAL_EPOCH):
        return Error.INVALID_SHARE_SESSION_EPOCH
    session = change(broker, group_id, member_id)
    session.used_at = broker.now
    if epoch != FINAL_EPOCH:
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
    return session


def change(broker: Broker, group_id: str, member_id: str) -> ShareSession:
    """A session that there is, to be changed."""
    return broker.tables.shares.change(_key(broker, group_id, member_id), ShareSession)


def close(broker: Broker, group_id: str, member_id: str) -> None:
    """Forgets a session, if there is one."""
    session = find(broker, group_id, member_id)
    if session is not None:
        broker.tables.shares.drop(_key(broker, group_id, member_id))
        _outlive(broker, session.connection)


def has_any(broker: Broker, group_id: str) -> bool:
    """Whether a group has a session with this broker."""
    return bool(broker.tables.shares.keys(f"{broker.id}/{KIND}/{escape(group_id)}/"))


def of_connection(broker: Broker, connection: str) -> tuple[str, str] | None:
    """The group and the member of the session that ends with a connection."""
    for key in _keys(broker):
        if _ends_with(broker, key, connection):
            return _whose(key)
    return None


def forsaken(broker: Broker) -> tuple[str, str] | None:
    """The group and the member of the session that was silent for longest, if that is too long."""
    idle_ms = int(broker.settings.given.get("connections.max.idle.ms", IDLE_MS))
    used = [
        (session.used_at, key)
        for key, session in broker.tables.shares.items(f"{broker.id}/{KIND}/", ShareSession)
        if session.ends_with_it
    ]
    if idle_ms < 0 or not used or min(used)[0] >= broker.now - idle_ms:
        return None
    return _whose(min(used)[1])


def _whose(key: str) -> tuple[str, str]:
    """The group and the member whose session an item is."""
    _, _, group_id, member_id = key.split("/")
    return unescape(group_id), unescape(member_id)


def _outlive(broker: Broker, connection: str) -> None:
    """No session that there is ends with a connection, if that is told of at all."""
    for key in _keys(broker) if connection else ():
        if _ends_with(broker, key, connection):
            broker.tables.shares.change(key, ShareSession).ends_with_it = False


def _ends_with(broker: Broker, key: str, connection: str) -> bool:
    session = broker.tables.shares.get(key, ShareSession)
    assert session is not None, key
    return session.ends_with_it and session.connection == connection


def _keys(broker: Broker) -> list[str]:
    return broker.tables.shares.keys(f"{broker.id}/{KIND}/")


def _key(broker: Broker, group_id: str, member_id: str) -> str:
    return f"{broker.id}/{KIND}/{escape(group_id)}/{escape(member_id)}"
