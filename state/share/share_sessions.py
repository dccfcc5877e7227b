"""Share sessions: the partitions that a member fetches from a broker.

    shares     <broker>/share-session/<group>/<member>   ShareSession

Epoch 0 opens a session, each request has the next epoch, and the last one has epoch -1. Sessions
are volatile. A session ends with the connection that opened it, unless the connection has opened a
newer session or one of its sessions was closed. Kafka keeps one session for each connection and
marks it stale when any is closed.

With `group.share.max.share.sessions` open sessions, new ones are rejected; no session is evicted.
But the end of a connection may be unknown, for example after a gateway crash. So a session idle for
longer than `connections.max.idle.ms`, when Kafka would have closed its connection, is replaced.

Source: `ShareSessionCache`, `ShareSession`, `CachedSharePartition`,
`SharePartitionManager.newContext` in Kafka 4.3.1; KIP-932.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.tables import escape, unescape

KIND = "share-session"
FIRST_EPOCH, FINAL_EPOCH = 0, -1
IDLE_MS = 600_000
"""Kafka's default of connections.max.idle.ms; negative means no limit."""

_LAST_EPOCH = 2**31 - 1

TopicPartitionId = tuple[Uuid, int]
"""Topic id and partition."""


class ShareSessionPartition(msgspec.Struct, array_like=True):
    """A partition, and whether the next response must contain it."""

    topic_id: Uuid
    partition: int
    must_show: bool

    @property
    def place(self) -> TopicPartitionId:
        return self.topic_id, self.partition


class ShareSession(msgspec.Struct):
    """A member's session.

    Attributes:
        partitions: its partitions in reading order.
        connection: the connection that opened it.
        ends_with_it: whether it ends with the connection.
        used_at: time of the last request in ms since 1970.
    """

    epoch: int
    partitions: list[ShareSessionPartition]
    connection: str = ""
    ends_with_it: bool = True
    used_at: int = 0

    def update(
        self, topic_partition_ids: list[TopicPartitionId], forgotten: list[TopicPartitionId]
    ) -> None:
        """Add partitions, which must be in the next response, and remove others."""
        places = {each.place for each in self.partitions}
        self.partitions += [
            ShareSessionPartition(*each, True) for each in topic_partition_ids if each not in places
        ]
        gone = set(forgotten)
        self.partitions = [each for each in self.partitions if each.place not in gone]

    def would_show(self, place: TopicPartitionId, has_records: bool, has_error: bool) -> bool:
        cached = next((each for each in self.partitions if each.place == place), None)
        return cached is None or has_records or has_error or cached.must_show

    def select(self, place: TopicPartitionId, has_records: bool, has_error: bool) -> bool:
        """Like `would_show`; partitions with records move to the end."""
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
    """Return a member's session, read-only."""
    return broker.tables.shares.get(_key(broker, group_id, member_id), ShareSession)


def open_session(
    broker: Broker, group_id: str, member_id: str, places: list[TopicPartitionId], connection: str
) -> bool:
    """Open or replace a member's session; False if there are too many."""
    close(broker, group_id, member_id)
    if len(_keys(broker)) >= group_configs.share_max_sessions(broker):
        return False
    _detach_connection(broker, connection)
    partitions = [ShareSessionPartition(*place, False) for place in dict.fromkeys(places)]
    session = ShareSession(FIRST_EPOCH + 1, partitions, connection, used_at=broker.now)
    broker.tables.shares.put(_key(broker, group_id, member_id), session)
    return True


def continue_session(
    broker: Broker, group_id: str, member_id: str, epoch: int
) -> ShareSession | Error:
    """Return the session for a request, for modification.

    Errors: 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH.
    """
    known = find(broker, group_id, member_id)
    if known is None:
        return Error.SHARE_SESSION_NOT_FOUND
    if epoch not in (known.epoch, FINAL_EPOCH):
        return Error.INVALID_SHARE_SESSION_EPOCH
    session = change_session(broker, group_id, member_id)
    session.used_at = broker.now
    if epoch != FINAL_EPOCH:
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
    return session


def change_session(broker: Broker, group_id: str, member_id: str) -> ShareSession:
    return broker.tables.shares.change(_key(broker, group_id, member_id), ShareSession)


def close(broker: Broker, group_id: str, member_id: str) -> None:
    session = find(broker, group_id, member_id)
    if session is not None:
        broker.tables.shares.drop(_key(broker, group_id, member_id))
        _detach_connection(broker, session.connection)


def has_any(broker: Broker, group_id: str) -> bool:
    return bool(broker.tables.shares.keys(f"{broker.id}/{KIND}/{escape(group_id)}/"))


def session_of_connection(broker: Broker, connection: str) -> tuple[str, str] | None:
    for key in _keys(broker):
        if _ends_with(broker, key, connection):
            return _group_and_member(key)
    return None


def idle_session(broker: Broker) -> tuple[str, str] | None:
    """Return group and member of the longest idle session, if idle too long."""
    idle_ms = int(broker.settings.given.get("connections.max.idle.ms", IDLE_MS))
    used = [
        (session.used_at, key)
        for key, session in broker.tables.shares.items(f"{broker.id}/{KIND}/", ShareSession)
        if session.ends_with_it
    ]
    if idle_ms < 0 or not used or min(used)[0] >= broker.now - idle_ms:
        return None
    return _group_and_member(min(used)[1])


def _group_and_member(key: str) -> tuple[str, str]:
    _, _, group_id, member_id = key.split("/")
    return unescape(group_id), unescape(member_id)


def _detach_connection(broker: Broker, connection: str) -> None:
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
