"""Replication quotas (KIP-73): limits for replicas that are not in sync.

Source: `ReplicationQuotaManager`, `RemoteLeaderEndPoint.shouldFollowerThrottle`,
`ReplicaManager.shouldLeaderThrottle`, `SimpleRate` in Kafka. A broker has one quota as a follower
and one as a leader, each with two settings:

    <side>.replication.throttled.rate       of brokers, bytes per second
    <side>.replication.throttled.replicas   of topics: `*`, or `partition:broker,...`

All bytes of throttled replicas count. Replicas that are not in sync wait while the rate exceeds the
limit. The rate covers `replication.quota.window.num` samples of
`replication.quota.window.size.seconds`, at least one. Bytes are counted after they are sent, so a
large response is followed by a pause.

A follower leaves throttled partitions out of its fetch. A leader responds for them without records,
and only if the high watermark or the log start has moved. Both continue by a timer once the rate is
low enough; Kafka checks again after at most `replica.fetch.backoff.ms`. A client that fetches as a
replica waits for its maxWaitMs (`state/apis/fetch.py`).

Volatile items:

    <broker>/held/<side>                    HeldPartitions, in the table `replication`
    <broker>/rate/<side>.replication        QuotaRate, in the table `quotas`

Without a limit nothing is counted. Counted are record bytes, with the part of a batch that did not
fit; a leader in Kafka also counts the frame of its response.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.quota_rates import QuotaRate, QuotaWindows
from brokertwin.state.core import pending
from brokertwin.state.core.decision import FollowedPartition
from brokertwin.state.core.settings import UNLIMITED

THROTTLE_TIMER = "replica-throttle"
"""Kind of the timers that continue throttled partitions."""

Place = tuple[Uuid, int]
"""A topic id and a partition."""


class Side(StrEnum):
    """A broker's role in replication."""

    LEADER = "leader"
    FOLLOWER = "follower"


SETTINGS = frozenset(
    f"{side}.replication.throttled.{what}" for side in Side for what in ("rate", "replicas")
)
"""Settings of brokers and topics for replication quotas."""

_ALL = None


class HeldPartitions(msgspec.Struct):
    """Partitions that a broker holds back, in order."""

    places: list[Place]


def limit(broker: Broker, side: Side) -> int:
    """The broker's limit in bytes per second, or UNLIMITED."""
    settings = broker.settings
    if side is Side.LEADER:
        return settings.leader_replication_throttled_rate
    return settings.follower_replication_throttled_rate


def is_throttled(broker: Broker, side: Side, place: Place) -> bool:
    """True if the broker is listed as a throttled replica of a partition."""
    topic = broker.topic_by_id(place[0])
    text = topic.configs.get(f"{side}.replication.throttled.replicas") if topic else None
    if not text:
        return False
    replicas = _replicas(text)
    return replicas is _ALL or (place[1], broker.id) in replicas


@lru_cache(maxsize=64)
def _replicas(text: str) -> frozenset[tuple[int, int]] | None:
    if text.strip() == "*":
        return _ALL
    pairs = [each.strip().split(":") for each in text.split(",") if each.strip()]
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)


def admitted(
    broker: Broker, places: Iterable[Place], in_sync: Collection[Place]
) -> Iterable[Place]:
    """Partitions that a follower may fetch now; the others are held back."""
    if limit(broker, Side.FOLLOWER) == UNLIMITED or not _is_exceeded(broker, Side.FOLLOWER):
        return places
    allowed: list[Place] = []
    held: list[Place] = []
    for place in places:
        is_held = place not in in_sync and is_throttled(broker, Side.FOLLOWER, place)
        (held if is_held else allowed).append(place)
    _hold(broker, Side.FOLLOWER, held)
    return allowed


def holds_back(broker: Broker, place: Place) -> bool:
    """Hold back a replica outside the in-sync set, if the leader's quota is exceeded."""
    if not is_too_fast(broker, place):
        return False
    _hold(broker, Side.LEADER, [place])
    return True


def is_too_fast(broker: Broker, place: Place) -> bool:
    """True if the leader's quota is exceeded and covers this partition."""
    if limit(broker, Side.LEADER) == UNLIMITED or not is_throttled(broker, Side.LEADER, place):
        return False
    return _is_exceeded(broker, Side.LEADER)


def count(broker: Broker, side: Side, responses: Iterable[FollowedPartition]) -> None:
    if limit(broker, side) != UNLIMITED:
        sizes = [((each.topic_id, each.partition), each.size_in_bytes) for each in responses]
        count_bytes(broker, side, sizes)


def count_bytes(broker: Broker, side: Side, sizes: Iterable[tuple[Place, int]]) -> None:
    if limit(broker, side) == UNLIMITED:
        return
    size = sum(size for place, size in sizes if is_throttled(broker, side, place))
    if size:
        table, key = broker.tables.quotas, _rate_key(broker, side)
        if key not in table:
            table.put(key, QuotaRate([]))
        table.change(key, QuotaRate).record(broker.now, size, _windows(broker))


def release(broker: Broker, side: Side) -> list[Place]:
    """Stop holding partitions back; returns them."""
    table, key = broker.tables.replication, f"{broker.id}/held/{side}"
    held = table.get(key, HeldPartitions)
    if held is None:
        return []
    table.drop(key)
    pending.set_timer(broker.tables.pending, _timer(broker, side), None)
    return held.places


def _hold(broker: Broker, side: Side, places: list[Place]) -> None:
    """Hold partitions back until the rate is low enough."""
    if not places:
        return
    table, key = broker.tables.replication, f"{broker.id}/held/{side}"
    if key not in table:
        table.put(key, HeldPartitions([]))
    held = table.change(key, HeldPartitions)
    held.places = list(dict.fromkeys((*held.places, *places)))
    pending.set_timer(broker.tables.pending, _timer(broker, side), _allowed_at(broker, side))


def _is_exceeded(broker: Broker, side: Side) -> bool:
    rate = broker.tables.quotas.get(_rate_key(broker, side), QuotaRate)
    return rate is not None and _per_second(rate, broker.now, broker) > limit(broker, side)


def _per_second(rate: QuotaRate, now: int, broker: Broker) -> float:
    """Rate over the time since the oldest sample, at least over one sample."""
    windows = _windows(broker)
    samples = [each for each in rate.samples if now - each.last_event < windows.age_ms]
    if not samples:
        return 0.0
    elapsed = max(now - samples[0].start, windows.size_ms)
    return sum(each.value for each in samples) * 1000 / elapsed


def _allowed_at(broker: Broker, side: Side) -> int:
    """First time in ms since 1970 at which the rate does not exceed the limit.

    That is when the bytes are spread over enough time, or when the oldest sample expires.
    """
    rate = broker.tables.quotas.get(_rate_key(broker, side), QuotaRate)
    assert rate is not None, "an exceeded quota has samples"
    windows, most = _windows(broker), limit(broker, side)
    samples = [each for each in rate.samples if broker.now - each.last_event < windows.age_ms]
    now = broker.now
    while samples:
        expires = samples[0].last_event + windows.age_ms
        total = int(sum(each.value for each in samples))
        spread = samples[0].start - (-total * 1000 // most) if most else expires
        if spread < expires:
            return max(spread, now)
        del samples[0]
        now = expires
        if samples and _per_second(QuotaRate(samples), now, broker) <= most:
            return now
    return now


def _windows(broker: Broker) -> QuotaWindows:
    settings = broker.settings
    size_ms = settings.replication_quota_window_size_seconds * 1000
    return QuotaWindows(settings.replication_quota_window_num, size_ms)


def _rate_key(broker: Broker, side: Side) -> str:
    return f"{broker.id}/rate/{side}.replication"


def _timer(broker: Broker, side: Side) -> str:
    return f"{THROTTLE_TIMER}/{broker.id}/{side}"
