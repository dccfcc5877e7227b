"""Invariants between the replicas of a partition: leadership and committed records."""

from collections.abc import Iterator
from functools import lru_cache

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster import image
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, KEYS_KNOWN, Touched, Violations, by_kind
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.log import Log, batches_from, log_key
from brokertwin.state.replication.leader import Leadership
from brokertwin.state.replication.throttles import THROTTLE_TIMER

KINDS = ("leading", "held", "checkpointed")


def check(tables: CellTables, touched: Touched = ALL) -> Violations:
    """Check every partition with several replicas, and the state of their leaders."""
    is_known = not touched.has("metadata", "topic")
    for topic, number in _touched(tables, touched) if is_known else _all(tables):
        if len(topic.partitions[number].replicas) > 1 or topic.partitions[number].directories:
            yield from _replicas(tables, topic, number)
    is_held = touched.has_timer(THROTTLE_TIMER) or touched.is_gone("logs", tables.logs, "log")
    if not is_known or is_held or touched.has("replication", *KINDS):
        yield from _kept(tables)


def _all(tables: CellTables) -> Iterator[tuple[Topic, int]]:
    for topic in image.all_topics(tables.of(CONTROLLER)):
        for number in range(len(topic.partitions)):
            yield topic, number


def _touched(tables: CellTables, touched: Touched) -> Iterator[tuple[Topic, int]]:
    """Partitions with a touched log; none in a cell without a controller."""
    places = {tuple(key.split("/", 4)[2:4]) for key in touched.keys("logs", tables.logs)}
    for topic_id, number in sorted(places):
        topic = image.topic_by_id(tables.of(CONTROLLER), topic_id)
        if topic is not None and int(number) < len(topic.partitions):
            yield topic, int(number)


def _kept(tables: CellTables) -> Violations:
    """Volatile items belong to an existing timer, log or topic."""
    kinds = by_kind(tables.replication)
    for key in kinds.get("leading", []):
        yield from _leadership(tables, key)
    for key in kinds.get("held", []):
        broker, _, side = key.split("/")
        if pending.timer_of(tables.pending, f"{THROTTLE_TIMER}/{broker}/{side}") is None:
            yield f"{key} has no timer"
    for key in kinds.get("checkpointed", []):
        broker, _, *place = key.split("/")
        if f"{broker}/log/{'/'.join(place)}" not in tables.logs:
            yield f"{key} belongs to no log"


def _replicas(tables: CellTables, topic: Topic, number: int) -> Violations:
    """Committed records are on every in-sync replica, and are equal on all replicas."""
    partition, name = topic.partitions[number], f"{topic.name}-{number}"
    if _is_led_from_lost_dir(tables, partition):
        yield f"{name} is led by {partition.leader}, whose log directory has failed: {partition}"
    if partition.leader >= 0 and partition.leader not in partition.isr:
        yield f"{name} is led by {partition.leader}, which is not in sync: {partition.isr}"
    found = {
        each: tables.logs.get(log_key(each, topic.topic_id, number), Log)
        for each in partition.replicas
    }
    leader_log = found.get(partition.leader)
    if set(partition.isr) & set(partition.eligible_leader_replicas):
        yield f"{name} has replicas that are in sync and eligible: {partition}"
    if leader_log is None:
        return
    for each, log in found.items():
        if log is None:
            continue  # reported by the check of logs
        may_lead = each in partition.isr or each in partition.eligible_leader_replicas
        if may_lead and log.log_end_offset < leader_log.high_watermark:
            yield (
                f"{name} is committed up to {leader_log.high_watermark}, but replica {each}, in"
                f" sync or eligible, ends at {log.log_end_offset}"
            )
        if each != partition.leader and log != leader_log:
            is_cleaned = any(  # each replica cleans at its own time
                found.cleaned_chunks or found.has_gaps for found in (log, leader_log)
            )
            if not is_cleaned:
                yield from _agree(tables, name, (partition.leader, leader_log), (each, log))


def _is_led_from_lost_dir(tables: CellTables, partition: Partition) -> bool:
    """True if a broker leads although the controller knows that its log directory has failed.

    Brokers that registered by a request are exempt. They may register again, or report a directory
    in the heartbeat that unfences them, and the controller does not check their leadership then.
    """
    leader = partition.leader
    if leader < 0 or image.registration(tables.of(CONTROLLER), leader).sends_heartbeats:
        return False
    return image.is_replica_offline(tables.of(CONTROLLER), partition, leader)


def _agree(
    tables: CellTables, name: str, one: tuple[int, Log], other: tuple[int, Log]
) -> Violations:
    """Both replicas have the same batches below their high watermarks."""
    start = max(log.log_start_offset for _, log in (one, other))
    end = min(log.high_watermark for _, log in (one, other))
    batches = [
        [
            batch
            for batch in batches_from(tables.of(broker), log, start)
            if batch.last_offset < end and batch.base_offset >= start
        ]
        for broker, log in (one, other)
    ]
    count = min(len(each) for each in batches)  # one of them may have sealed older batches
    if count and batches[0][-count:] != batches[1][-count:]:
        yield f"{name} is not the same on {one[0]} and {other[0]} below {end}"


@lru_cache(KEYS_KNOWN)
def _led(key: str) -> tuple[int, Uuid, int]:
    broker, _, topic_id, number = key.split("/")
    return int(broker), topic_id, int(number)


def _leadership(tables: CellTables, key: str) -> Violations:
    """A leader's state belongs to a partition that it leads, and has its replicas."""
    broker, topic_id, number = _led(key)
    leadership = tables.replication.get(key, Leadership)
    topic = image.topic_by_id(tables.of(broker), topic_id)
    if topic is None or leadership is None:
        yield f"{key} belongs to no topic"
        return
    partition = topic.partitions[number]
    if partition.leader != broker or partition.leader_epoch != leadership.leader_epoch:
        yield f"{key} has leader epoch {leadership.leader_epoch}, the partition {partition}"
    if {broker, *leadership.replicas} != {*partition.replicas}:
        yield f"{key} has {sorted(leadership.replicas)}, not {partition.replicas}"
    if broker not in leadership.isr:
        yield f"{key}: the leader is not in its in-sync set: {leadership.isr}"
