"""Throttles of replication: how fast replicas that are not in sync may be copied (KIP-73).

Source: `ReplicationQuotaManager`, `RemoteLeaderEndPoint.shouldFollowerThrottle`,
`ReplicaManager.shouldLeaderThrottle`, `SimpleRate` in Kafka. A broker has two throttles, one for
what it copies as a follower and one for what it gives as a leader. Of each:

    <side>.replication.throttled.rate       a broker's setting, bytes a second
    <side>.replication.throttled.replicas   a topic's setting: `*`, or `partition:broker,...`

What a throttled replica copies counts, in sync or not; who waits is only who is not in sync, while
the rate of the last seconds is above the limit. The rate is taken over
`replication.quota.window.num` samples of `replication.quota.window.size.seconds`, over one of them
at least. What is let through counts afterwards, whole: one large answer is followed by a pause.

A follower leaves such partitions out of its fetch, a leader answers for them without records, and
only where it has moved its high watermark or its log's start. Both look again by a timer, at the
first time at which the rate is low enough: Kafka looks again after `replica.fetch.backoff.ms` at
most. A client that fetches as a replica waits as long as it asks to (`state/apis/fetch.py`).

Items of the tables `replication` and `quotas`; a broker that restarts has forgotten them:

    <broker>/held/<side>                    Held: the partitions that wait
    <broker>/rate/<side>.replication        Rate

While a broker has no limit nothing of this is looked at, and nothing counts. Counted are the bytes
of records, with the part of a batch that did not fit, as Kafka sends it; a Kafka leader counts the
frame of its answer, too.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.quota_rates import Rate, Windows
from brokertwin.state.core import pending
from brokertwin.state.core.decision import FollowedPartition
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.settings import UNLIMITED

THROTTLE_TIMER = "replica-throttle"
"""The kind of the timers of brokers that hold partitions back."""

Place = tuple[Uuid, int]
"""A topic's id and a partition."""


class Side(StrEnum):
    """What a broker is to a partition that is copied."""

    LEADER = "leader"
    FOLLOWER = "follower"


SETTINGS = frozenset(
    f"{side}.replication.throttled.{what}" for side in Side for what in ("rate", "replicas")
)
"""The settings of brokers and topics that throttle."""

_ALL = None


class Held(msgspec.Struct):
    """The partitions that a broker has held back, in that order."""

    places: list[Place]


def limit(broker: Broker, side: Side) -> int:
    """The broker's limit in bytes a second; UNLIMITED where it has none."""
    settings = broker.settings
    if side is Side.LEADER:
        return settings.leader_replication_throttled_rate
    return settings.follower_replication_throttled_rate


def is_throttled(broker: Broker, side: Side, place: Place) -> bool:
    """Whether the broker is named as a throttled replica of a partition."""
    topic = broker.topic_by_id(place[0])
    text = topic.configs.get(f"{side}.replication.throttled.replicas") if topic else None
    if not text:
        return False
    replicas = _replicas(text)
    return replicas is _ALL or (place[1], broker.id) in replicas


@lru_cache(maxsize=64)
def _replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """The partitions and brokers that a list has."""
    if text.strip() == "*":
        return _ALL
    pairs = [each.strip().split(":") for each in text.split(",") if each.strip()]
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)


def let_through(
    broker: Broker, places: Iterable[Place], in_sync: Collection[Place]
) -> Iterable[Place]:
    """Those of a follower's partitions that it may fetch now; it holds the others back."""
    if limit(broker, Side.FOLLOWER) == UNLIMITED or not _is_exceeded(broker, Side.FOLLOWER):
        return places
    allowed: list[Place] = []
    held: list[Place] = []
    for place in places:
        waits = place not in in_sync and is_throttled(broker, Side.FOLLOWER, place)
        (held if waits else allowed).append(place)
    _hold(broker, Side.FOLLOWER, held)
    return allowed


def holds_back(broker: Broker, place: Place) -> bool:
    """Whether a leader holds back what a replica outside of the in-sync set wants to read."""
    if not is_too_fast(broker, place):
        return False
    _hold(broker, Side.LEADER, [place])
    return True


def is_too_fast(broker: Broker, place: Place) -> bool:
    """Whether a leader gives nothing now of what it is named for as a throttled replica."""
    if limit(broker, Side.LEADER) == UNLIMITED or not is_throttled(broker, Side.LEADER, place):
        return False
    return _is_exceeded(broker, Side.LEADER)


def count(broker: Broker, side: Side, answers: Iterable[FollowedPartition]) -> None:
    """Counts what goes through a throttle, in sync or not."""
    if limit(broker, side) != UNLIMITED:
        sizes = [((each.topic_id, each.partition), each.size_in_bytes) for each in answers]
        count_bytes(broker, side, sizes)


def count_bytes(broker: Broker, side: Side, sizes: Iterable[tuple[Place, int]]) -> None:
    """Counts bytes of partitions, of those that are throttled."""
    if limit(broker, side) == UNLIMITED:
        return
    size = sum(size for place, size in sizes if is_throttled(broker, side, place))
    if size:
        table, key = broker.tables.quotas, _rate_key(broker, side)
        if key not in table:
            table.put(key, Rate([]))
        table.change(key, Rate).record(broker.now, size, _windows(broker))


def release(broker: Broker, side: Side) -> list[Place]:
    """The partitions that were held back; they are not any more."""
    table, key = broker.tables.replication, f"{broker.id}/held/{side}"
    held = table.get(key, Held)
    if held is None:
        return []
    table.drop(key)
    pending.set_timer(broker.tables.pending, _timer(broker, side), None)
    return held.places


def _hold(broker: Broker, side: Side, places: list[Place]) -> None:
    """Holds partitions back until the rate is low enough."""
    if not places:
        return
    table, key = broker.tables.replication, f"{broker.id}/held/{side}"
    if key not in table:
        table.put(key, Held([]))
    held = table.change(key, Held)
    held.places = list(dict.fromkeys((*held.places, *places)))
    pending.set_timer(broker.tables.pending, _timer(broker, side), _allowed_at(broker, side))


def _is_exceeded(broker: Broker, side: Side) -> bool:
    """Whether the rate of the last seconds is above the limit."""
    rate = broker.tables.quotas.get(_rate_key(broker, side), Rate)
    return rate is not None and _per_second(rate, broker.now, broker) > limit(broker, side)


def _per_second(rate: Rate, now: int, broker: Broker) -> float:
    """A simple rate: over the time since the oldest sample, and over one sample at least."""
    windows = _windows(broker)
    samples = [each for each in rate.samples if now - each.last_event < windows.age_ms]
    if not samples:
        return 0.0
    elapsed = max(now - samples[0].start, windows.size_ms)
    return sum(each.value for each in samples) * 1000 / elapsed


def _allowed_at(broker: Broker, side: Side) -> int:
    """The first time, in ms since 1970, at which a rate that is too high is not any more.

    That is when what was counted is spread over enough time, or when the oldest sample goes.
    """
    rate = broker.tables.quotas.get(_rate_key(broker, side), Rate)
    assert rate is not None, "what is exceeded was counted"
    windows, most = _windows(broker), limit(broker, side)
    samples = [each for each in rate.samples if broker.now - each.last_event < windows.age_ms]
    now = broker.now
    while samples:
        goes = samples[0].last_event + windows.age_ms
        total = int(sum(each.value for each in samples))
        spread = samples[0].start - (-total * 1000 // most) if most else goes
        if spread < goes:
            return max(spread, now)
        del samples[0]
        now = goes
        if samples and _per_second(Rate(samples), now, broker) <= most:
            return now
    return now


def _windows(broker: Broker) -> Windows:
    settings = broker.settings
    size_ms = settings.replication_quota_window_size_seconds * 1000
    return Windows(settings.replication_quota_window_num, size_ms)


def _rate_key(broker: Broker, side: Side) -> str:
    return f"{broker.id}/rate/{side}.replication"


def _timer(broker: Broker, side: Side) -> str:
    return f"{THROTTLE_TIMER}/{broker.id}/{side}"
