"""What must hold between the replicas of a partition: who leads, and what is committed."""

from collections.abc import Iterator
from functools import lru_cache

from brokertwin.state.cluster import image
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, KEYS_KNOWN, Touched, Violations, by_kind
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs.log import Log, batches_from, log_key
from brokertwin.state.replication.leader import Leadership
from brokertwin.state.replication.throttles import THROTTLE_TIMER

KINDS = ("leading", "held", "checkpointed")


def check(tables: Tables, touched: Touched = ALL) -> Violations:
    """Every partition with several replicas, and what leaders know of them."""
    is_known = not touched.has("metadata", "topic")
    for topic, number in _touched(tables, touched) if is_known else _all(tables):
        if len(topic.partitions[number].replicas) > 1 or topic.partitions[number].directories:
            yield from _replicas(tables, topic, number)
    is_held = touched.has_timer(THROTTLE_TIMER) or touched.is_gone("logs", tables.logs, "log")
    if not is_known or is_held or touched.has("replication", *KINDS):
        yield from _kept(tables)


def _all(tables: Tables) -> Iterator[tuple[Topic, int]]:
    for topic in image.all_topics(tables.metadata, CONTROLLER):
        for number in range(len(topic.partitions)):
            yield topic, number


def _touched(tables: Tables, touched: Touched) -> Iterator[tuple[Topic, int]]:
    """The partitions of which a log was touched; where a cell has no controller it knows none."""
    places = {tuple(key.split("/", 4)[2:4]) for key in touched.keys("logs", tables.logs)}
    for topic_id, number in sorted(places):
        topic = image.topic_by_id(tables.metadata, CONTROLLER, topic_id)
        if topic is not None and int(number) < len(topic.partitions):
            yield topic, int(number)


def _kept(tables: Tables) -> Violations:
    """What brokers keep in mind is of what is there."""
    kinds = by_kind(tables.replication)
    for key in kinds.get("leading", []):
        yield from _leadership(tables, key)
    for key in kinds.get("held", []):
        broker, _, side = key.split("/")
        if pending.timer_of(tables.pending, f"{THROTTLE_TIMER}/{broker}/{side}") is None:
            yield f"{key} waits for no time"
    for key in kinds.get("checkpointed", []):
        broker, _, *place = key.split("/")
        if f"{broker}/log/{'/'.join(place)}" not in tables.logs:
            yield f"{key} is of no log"


def _replicas(tables: Tables, topic: Topic, number: int) -> Violations:
    """What is committed lies on every in-sync replica, and is the same wherever it lies."""
    partition, name = topic.partitions[number], f"{topic.name}-{number}"
    if _is_led_from_lost_dir(tables, partition):
        yield f"{name} is led by {partition.leader}, whose log directory has failed: {partition}"
    if partition.leader >= 0 and partition.leader not in partition.isr:
        yield f"{name} is led by {partition.leader}, which is not in sync: {partition.isr}"
    found = {
        each: tables.logs.get(log_key(each, topic.topic_id, number), Log)
        for each in partition.replicas
    }
    leaders = found.get(partition.leader)
    if set(partition.isr) & set(partition.eligible_leader_replicas):
        yield f"{name} has replicas that are in sync and eligible: {partition}"
    if leaders is None:
        return
    for each, log in found.items():
        if log is None:
            continue  # the room of logs has said so
        may_lead = each in partition.isr or each in partition.eligible_leader_replicas
        if may_lead and log.log_end_offset < leaders.high_watermark:
            yield (
                f"{name} is committed up to {leaders.high_watermark}, but replica {each}, in sync"
                f" or eligible, ends at {log.log_end_offset}"
            )
        if each != partition.leader and log != leaders:
            is_cleaned = any(  # each at its own time
                found.cleaned_chunks or found.has_gaps for found in (log, leaders)
            )
            if not is_cleaned:
                yield from _agree(tables, name, (partition.leader, leaders), (each, log))


def _is_led_from_lost_dir(tables: Tables, partition: Partition) -> bool:
    """Whether a broker of the settings leads though the controller knows that it cannot.

    One that has registered by a request may register anew, or name a directory with the heartbeat
    that unfences it; the controller does not look at what it leads then.
    """
    leader = partition.leader
    if leader < 0 or image.registration(tables.metadata, CONTROLLER, leader).sends_heartbeats:
        return False
    return image.is_replica_offline(tables.metadata, CONTROLLER, partition, leader)


def _agree(tables: Tables, name: str, one: tuple[int, Log], other: tuple[int, Log]) -> Violations:
    """Two replicas have the same batches below both high watermarks."""
    start = max(log.log_start_offset for _, log in (one, other))
    end = min(log.high_watermark for _, log in (one, other))
    found = [
        [
            batch
            for batch in batches_from(tables.logs, broker, log, start)
            if batch.last_offset < end and batch.base_offset >= start
        ]
        for broker, log in (one, other)
    ]
    count = min(len(each) for each in found)  # the older ones may be sealed on one of them
    if count and found[0][-count:] != found[1][-count:]:
        yield f"{name} is not the same on {one[0]} and {other[0]} below {end}"


@lru_cache(KEYS_KNOWN)
def _led(key: str) -> tuple[int, Uuid, int]:
    """The leader, topic and partition that a key names."""
    broker, _, topic_id, number = key.split("/")
    return int(broker), topic_id, int(number)


def _leadership(tables: Tables, key: str) -> Violations:
    """What a leader knows is about a partition that it leads, and its replicas."""
    broker, topic_id, number = _led(key)
    leadership = tables.replication.get(key, Leadership)
    topic = image.topic_by_id(tables.metadata, broker, topic_id)
    if topic is None or leadership is None:
        yield f"{key} is of no topic"
        return
    partition = topic.partitions[number]
    if partition.leader != broker or partition.leader_epoch != leadership.leader_epoch:
        yield f"{key} is of leader epoch {leadership.leader_epoch}, the partition {partition}"
    if {broker, *leadership.replicas} != {*partition.replicas}:
        yield f"{key} knows {sorted(leadership.replicas)} of {partition.replicas}"
    if broker not in leadership.isr:
        yield f"{key}: the leader is not in sync itself: {leadership.isr}"
