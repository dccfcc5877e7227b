"""Events without a request in a generated history: time passes, leaders move, brokers stop."""

from itertools import product
from typing import Any

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.logs.log import Log, batches_from, log_key
from tests.support.machine import header
from tests.support.request_generator import TOPICS, RequestGenerator

GROWN = 8
"""Offsets after which a log is cleaned again."""


def pass_time(t: RequestGenerator) -> None:
    t.clients.now += t.choice.of([100, 1000, 3000, 10_000])
    t.clients.intervene("tick")
    clean_a_log(t)


def clean_a_log(t: RequestGenerator) -> None:
    """The first log that has grown enough loses every second batch, as to a cleaner."""
    tables = t.clients.cell.tables
    for broker, topic in product(t.clients.brokers, map(t.clients.topic, TOPICS)):
        partitions = topic.partitions if topic is not None else ()
        for number in range(len(partitions)):
            assert topic is not None
            log = tables.logs.get(log_key(broker, topic.topic_id, number), Log)
            if log is None or log.segments or log.last_stable_offset < log.cleaned_to + GROWN:
                continue
            batches = list(batches_from(tables.of(broker), log, log.log_start_offset))
            below = [b.header() for b in batches if b.last_offset < log.last_stable_offset]
            aborted = [b.last_offset for b in below if b.is_control][::2]
            place = (topic.topic_id, number, log.last_stable_offset)
            left = LogCleaned(*place, below[::-2][::-1], aborted)
            t.clients.intervene("clean-log", broker=broker, cleaned=left)
            return


def intervene(t: RequestGenerator) -> None:
    """A leader moves, a broker is cut off, sessions are dropped, members count as silent."""
    kind = t.choice.of(
        [
            *("move-leader", "move-leader", "drop-sessions", "expire-members"),
            *("isolate-broker", "sever-broker", "rejoin-broker", "rejoin-broker"),
        ]
    )
    event: dict[str, Any] = {"broker": t.any_broker()}
    if kind == "move-leader":
        name = t.choice.of([*TOPICS, GROUP_TOPIC, TRANSACTION_TOPIC])
        topic = t.clients.topic(name)
        partition = t.choice.below(len(topic.partitions)) if topic is not None else 0
        others = [b for b in t.clients.brokers if b != t.clients.leader(name, partition)]
        if topic is None or not others:
            return
        move = {"topic": name, "partition": partition, "leader": t.choice.of(others)}
        event["move"] = move
    elif kind in ("isolate-broker", "sever-broker", "rejoin-broker"):
        pass
    elif kind == "drop-sessions":
        if not t.clients.sessions:
            return
        session = t.choice.of(t.clients.sessions)
        event = {"broker": session.broker, "sessions": [session.session_id]}
    else:
        member = t.member()
        event = {"group": member.group, "members": [member.member_id]}
        event["broker"] = t.clients.coordinator(member.group)
    t.clients.intervene(kind, **event)


def lose_a_broker(t: RequestGenerator) -> None:
    """A leader stops with unreplicated data, or a follower misses deletions or sealed segments."""
    topics = [topic for topic in map(t.clients.topic, TOPICS) if topic is not None]
    copied = [
        (topic.name, number, partition)
        for topic in topics
        for number, partition in enumerate(topic.partitions)
        if len(partition.replicas) > 1 and partition.leader >= 0
    ]
    if not copied or not t.clients.may_intervene:
        return
    name, partition, found = t.choice.of(copied)
    leader = found.leader
    followers = [broker for broker in found.replicas if broker != leader]
    data = [{"index": partition, "batches": [header()]}]
    append = {"acks": 1, "topicData": [{"name": name, "partitionData": data}]}
    what = t.choice.below(3)
    if what == 1:
        t.clients.intervene("isolate-broker", broker=leader)
        t.send(0, leader, append, version=9)
        for kind in ("stop-broker", "rejoin-broker", "start-broker"):
            t.clients.intervene(kind, broker=leader)
        return
    for broker in followers:
        t.clients.intervene("isolate-broker", broker=broker)
    for _ in range(8 if what == 2 else 1):
        t.send(0, leader, append, version=9)
    for _ in range(4):
        t.clients.now += 15_000
        t.clients.intervene("tick")
    if what == 0:
        partitions = [{"partitionIndex": partition, "offset": -1}]
        t.send(21, leader, {"topics": [{"name": name, "partitions": partitions}], "timeoutMs": 100})
    for broker in followers:
        t.clients.intervene("rejoin-broker", broker=broker)
