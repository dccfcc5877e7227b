"""Fetch sessions of followers at their leaders: one for each fetcher thread (KIP-227).

Source: seed 000; `RemoteLeaderEndPoint`, `FetchSessionHandler` in Kafka. A follower's requests are
messages of the cell (`ReplicaFetch`), which name only the partitions whose offset or epoch has
changed. The leader keeps the session: privileged, in a slot of its cache.

    first fetch of a thread          full: the session has each partition that the thread follows
    later fetches                    incremental: the epoch advances, named partitions change
    the broker leads no more         the partition leaves the session
    the session was evicted, or      a full fetch creates another one
    the follower has registered again

Messages between brokers arrive once and in order, so no request has a wrong epoch. A fetch without
news is pending instead of repeated, so a follower's session is never idle.

    <broker>/follower/<follower>/<fetcher>    FollowerSession, in the table `fetch_sessions`
"""

from collections.abc import Iterable

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import ReplicaFetch, ReplicaFetchPartition
from brokertwin.state.fetch.fetch_session import (
    TOPIC_ID_VERSION,
    NewSession,
    SessionCache,
    SessionResponse,
    next_epoch,
    note_use,
)
from brokertwin.state.fetch.session_items import (
    CachedFetchPartition,
    FetchPartition,
    FetchSession,
    partition_key,
    session_key,
)
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.replication import fetchers


class FollowerSession(msgspec.Struct, array_like=True):
    """The session of a follower's thread, and the follower's broker epoch."""

    session_id: int
    broker_epoch: int


def client_id(follower: int, fetcher: int) -> str:
    """Kafka's client id of a fetcher thread."""
    return f"broker-{follower}-fetcher-{fetcher}"


def note_request(broker: Broker, fetch: ReplicaFetch, nonce: str) -> None:
    table = broker.tables.fetch_sessions
    follower_session = table.get(_key(broker, fetch.sender, fetch.fetcher), FollowerSession)
    epoch = broker.registration(fetch.sender).epoch
    if (
        follower_session is None
        or follower_session.broker_epoch != epoch
        or session_key(broker.id, follower_session.session_id) not in table
    ):
        _create(broker, fetch, nonce, epoch)
        return
    session_id, new = follower_session.session_id, []
    for each in fetch.partitions:
        key = f"{broker.id}/cached/{session_id}/{each.topic_id}/{each.partition}"
        if key not in table:
            new.append(_requested(broker, each))
            continue
        requested = table.change(key, CachedFetchPartition).requested
        requested.fetch_offset = each.fetch_offset
        requested.log_start_offset = each.log_start_offset
        requested.current_leader_epoch = each.leader_epoch
        requested.last_fetched_epoch = each.last_fetched_epoch
    if new:
        _continue(broker, session_id, new, [])
        return
    session = table.change(session_key(broker.id, session_id), FetchSession)
    session.epoch = next_epoch(session.epoch)
    note_use(session, broker.now)


def altered(broker: Broker, topic_id: Uuid, number: int, former: Partition) -> None:
    """Drop a partition from the sessions of followers that no longer fetch it here."""
    topic = broker.topic_by_id(topic_id)
    if topic is not None and former.leader == broker.id:
        current = topic.partitions[number]
        left = current.replicas if current.leader == broker.id else []
        forget(broker, topic, number, [each for each in former.replicas if each not in left])


def forget(broker: Broker, topic: Topic, number: int, followers: Iterable[int]) -> None:
    table, identity = broker.tables.fetch_sessions, f"{topic.topic_id}/{number}"
    fetcher = fetchers.fetcher_id(topic.name, number, broker.settings.num_replica_fetchers)
    for follower in followers:
        session = table.get(_key(broker, follower, fetcher), FollowerSession)
        if session and partition_key(broker.id, session.session_id, identity) in table:
            _continue(broker, session.session_id, [], [identity])


def _key(broker: Broker, follower: int, fetcher: int) -> str:
    return f"{broker.id}/follower/{follower}/{fetcher}"


def _cache(broker: Broker) -> SessionCache:
    layout = ShardLayout.of(broker.settings)
    return SessionCache(broker.tables.fetch_sessions, broker.id, layout, broker.now)


def _create(broker: Broker, fetch: ReplicaFetch, nonce: str, epoch: int) -> None:
    table, key = broker.tables.fetch_sessions, _key(broker, fetch.sender, fetch.fetcher)
    named = {each.identity: each for each in (_requested(broker, p) for p in fetch.partitions)}
    new = NewSession(
        client_id(fetch.sender, fetch.fetcher),
        is_privileged=True,
        uses_topic_ids=True,
        nonce=f"{nonce}/{fetch.sender}/{fetch.fetcher}",
        chosen_id=None,
    )
    followed = {**_followed(broker, fetch.sender, fetch.fetcher), **named}
    responses = [_response(broker, each) for each in followed.values()]
    session_id = _cache(broker).create(new, responses)
    if session_id:
        table.change(session_key(broker.id, session_id), FetchSession).is_polling = True
        table.put(key, FollowerSession(session_id, epoch))
    elif key in table:
        table.drop(key)


def _continue(
    broker: Broker, session_id: int, new: list[FetchPartition], forgotten: list[str]
) -> None:
    session = broker.tables.fetch_sessions.get(session_key(broker.id, session_id), FetchSession)
    assert session is not None, session_id
    by_identity = {each.identity: each for each in new}
    _cache(broker).open(session_id, session.epoch, TOPIC_ID_VERSION, by_identity, forgotten)


def _followed(broker: Broker, follower: int, fetcher: int) -> dict[str, FetchPartition]:
    """The partitions of a thread, by identity, from the start of their logs' leaders."""
    count, partitions = broker.settings.num_replica_fetchers, {}
    for topic in broker.all_topics():
        for number, partition in enumerate(topic.partitions):
            is_followed = partition.leader == broker.id and follower in partition.replicas
            if is_followed and fetchers.fetcher_id(topic.name, number, count) == fetcher:
                fetch_partition = ReplicaFetchPartition(
                    topic.topic_id, number, 0, 0, partition.leader_epoch, -1
                )
                requested = _requested(broker, fetch_partition)
                partitions[requested.identity] = requested
    return partitions


def _requested(broker: Broker, partition: ReplicaFetchPartition) -> FetchPartition:
    topic = broker.topic_by_id(partition.topic_id)
    return FetchPartition(
        partition.topic_id,
        topic.name if topic is not None else "",
        partition.partition,
        partition.fetch_offset,
        broker.settings.replica_fetch_max_bytes,
        partition.log_start_offset,
        partition.leader_epoch,
        partition.last_fetched_epoch,
    )


def _response(broker: Broker, requested: FetchPartition) -> SessionResponse:
    """Return a partition's part of a response; `copying` reads the logs, so it stays active."""
    log = broker.log(requested.topic_id, requested.partition)
    return SessionResponse(
        identity=requested.identity,
        requested=requested,
        error=0,
        high_watermark=log.high_watermark if log is not None else -1,
        log_start_offset=log.log_start_offset if log is not None else -1,
        size_in_bytes=0,
        is_diverging=False,
        is_at_end=False,
    )
