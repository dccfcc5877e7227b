"""The requests of a generated history: how often each comes, and how it comes to be right or wrong.

Each function tells one request, or the few of an opening, by the choices that it is given. The
names and ids come from small sets, so that events meet.
"""

import base64
import struct
from collections.abc import Callable
from typing import Any

from brokertwin.state.cluster.coordinators import COORDINATED, GROUP_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.groups.consumer_protocol import assignment_bytes
from tests.support.generated_clients import START, Holder, Member
from tests.support.generated_interventions import intervene, lose_a_broker, pass_time
from tests.support.machine import header
from tests.support.request_generator import (
    CONSUMER_GROUP,
    GROUPS,
    TOPICS,
    TRANSACTIONAL_IDS,
    RequestGenerator,
)

INT32_MAX = 2**31 - 1


def _subscription(topic: str) -> str:
    name = topic.encode()
    body = struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", -1)
    return base64.b64encode(body).decode()


def _assignment(topic: str, partition: int) -> str:
    return base64.b64encode(assignment_bytes({topic: [partition]}, 0)).decode()


# Records


def produce(t: RequestGenerator) -> None:
    """A batch of a plain, an idempotent or a transactional producer."""
    name, partition = t.place()
    count = t.choice.below(3) + 1
    kind = t.choice.below(4)
    size = 2_000_000 if t.choice.one_in(40) else 60 + 10 * count
    times = {"baseTimestamp": START, "maxTimestamp": START + t.choice.below(6)}
    batch = header(count, size=size, **times)
    holder = Holder(t.choice.of(TRANSACTIONAL_IDS) if t.choice.one_in(8) else None, -1, -1)
    if kind:
        holder = t.holder(is_transactional=kind > 1)
        place = (holder.producer_id, holder.epoch, name, partition)
        sequence = t.clients.sequences.get(place, 0)
        if t.choice.one_in(10):
            sequence = t.choice.of([0, max(sequence - count, 0), sequence + 1, INT32_MAX])
        batch["producerId"], batch["producerEpoch"] = holder.producer_id, holder.epoch
        batch["baseSequence"] = sequence
        batch["isTransactional"] = (kind > 1) != t.choice.one_in(16)
    data: dict[str, Any] = {"index": partition, "batches": [batch]}
    if t.choice.one_in(32):
        data["recordsError"] = t.choice.of([2, 87])
    if t.choice.one_in(8):
        data["recordsSeen"] = {"hasKeyless": True}
    topic = {"name": name, "topicId": t.clients.topic_id(name), "partitionData": [data]}
    acks = 7 if t.choice.one_in(40) else t.choice.of([-1, -1, 1, 0])
    body = {
        "transactionalId": holder.transactional_id,
        "acks": acks,
        "timeoutMs": 1000,
        "topicData": [topic],
    }
    version = t.choice.of([13, 12, 11, 10, 9])
    t.send(0, t.clients.leader(name, partition), body, version=version)


def fetch(t: RequestGenerator) -> None:
    """A fetch without a session, one that makes a session, or one that goes on with it."""
    name, partition = t.place()
    part = {
        "partition": partition,
        "fetchOffset": t.choice.of([0, 0, 1, 2, 3, 5, 8, 40]),
        "partitionMaxBytes": t.choice.of([1000, 50]),
        "currentLeaderEpoch": 4 if t.choice.one_in(16) else -1,
    }
    session_id, epoch, version = 0, t.choice.of([0, 0, -1]), t.choice.of([17, 12, 13])
    broker = t.clients.leader(name, partition)
    topics = [{"topic": name, "topicId": t.clients.topic_id(name), "partitions": [part]}]
    forgotten: list[dict[str, Any]] = []
    if t.clients.sessions and t.choice.below(3) > 0:
        session = t.choice.of(t.clients.sessions[::-1])
        broker, session_id, epoch = session.broker, session.session_id, session.epoch
        version = session.version
        if t.choice.one_in(12):
            session_id, epoch, version = t.choice.of(
                [
                    (77, 1, 17),
                    (session_id, epoch + 1, version),
                    (session_id, 0, version),
                    (session_id, -1, version),
                    (session_id, epoch, 29 - version),
                ]
            )
            version = min(max(version, 4), 17)
        if t.choice.below(2):
            topics = []
        elif t.choice.one_in(4):
            topics, forgotten = [], [{**topics[0], "partitions": [partition]}]
    body = {
        "maxWaitMs": t.choice.of([500, 0, 50]),
        "minBytes": t.choice.of([1, 0, 200]),
        "maxBytes": t.choice.of([10_000, 50]),
        "isolationLevel": t.choice.of([0, 1]),
        "rackId": "west",
        "sessionId": session_id,
        "sessionEpoch": epoch,
        "topics": topics,
        "forgottenTopicsData": forgotten,
    }
    t.send(1, broker, body, version=version)


def look_up_offsets(t: RequestGenerator) -> None:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers of one partition."""
    name, partition = t.place()
    key = t.choice.of([2, 21, 23, 61])
    epoch = 4 if t.choice.one_in(8) else -1
    timestamp = t.choice.of([-1, -2, -3, START + 2, -9])
    listed = {"partitionIndex": partition, "timestamp": timestamp, "currentLeaderEpoch": epoch}
    part = {"partition": partition, "currentLeaderEpoch": epoch, "leaderEpoch": 0}
    deleted = {"partitionIndex": partition, "offset": t.choice.of([-1, 1, 3, 50])}
    topics: dict[int, dict[str, Any]] = {
        2: {"name": name, "partitions": [listed]},
        21: {"name": name, "partitions": [deleted]},
        23: {"topic": name, "partitions": [part]},
        61: {"name": name, "partitionIndexes": [partition]},
    }
    body: dict[str, Any] = {"topics": [topics[key]]}
    if key == 2:
        body |= {"replicaId": -1, "isolationLevel": t.choice.of([0, 1])}
    t.send(key, t.clients.leader(name, partition), body)


# Topics and the cluster


def topics(t: RequestGenerator) -> None:
    """Topics come, go and grow."""
    name = t.choice.of([*TOPICS, *TOPICS, "bad name"])
    count, change = t.choice.of([3, 1, 2, 0]), t.choice.below(8)
    wanted = 9 if t.choice.one_in(8) else t.choice.of([1, len(t.clients.brokers)])
    broker = t.any_broker()
    if change < 5:
        created = {"name": name, "numPartitions": count, "replicationFactor": wanted}
        t.send(19, broker, {"topics": [created]})
    elif change == 5:
        version = t.choice.of([6, 3])
        name = t.choice.of([*COORDINATED]) if t.choice.one_in(3) else name
        body = {"topics": [{"name": name}]} if version == 6 else {"topicNames": [name]}
        t.send(20, broker, body, version=version)
    else:
        t.send(37, broker, {"topics": [{"name": name, "count": count + 1}]})


def look_at_cluster(t: RequestGenerator) -> None:
    """What changes nothing: metadata, coordinators, configurations, groups, transactions."""
    key = t.choice.of([3, 10, 15, 16, 18, 29, 32, 48, 60, 65, 66, 69, 74, 75, 9, 9])
    name, group = t.choice.of([*TOPICS, "absent"]), t.choice.of([*GROUPS, "nobody"])
    named = t.choice.of(["t", "a/b", "nobody"])
    topic = {"name": name, "topicId": t.clients.topic_id(name), "partitionIndexes": [0, 1]}
    kind = t.choice.of([0, 1, 2])
    bodies: dict[int, dict[str, Any]] = {
        3: {"topics": t.choice.of([None, [{"name": name}]]), "allowAutoTopicCreation": False},
        9: {
            "groupId": group,
            "topics": [topic],
            "groups": [{"groupId": group, "topics": t.choice.of([None, [topic]])}],
            "requireStable": t.choice.of([True, False]),
        },
        10: {"key": group, "keyType": kind, "coordinatorKeys": [group]},
        15: {"groups": [group]},
        16: {"statesFilter": t.choice.of([[], ["Stable"]])},
        29: {},
        32: {"resources": [{"resourceType": t.choice.of([2, 4, 16]), "resourceName": name}]},
        48: {"components": [{"entityType": t.choice.of(["user", "x"]), "matchType": 2}]},
        65: {"transactionalIds": [named]},
        66: {"stateFilters": t.choice.of([[], ["Ongoing"]])},
        69: {"groupIds": [group]},
        74: {"resourceTypes": t.choice.of([[], [2], [4, 8], [32], [16], [1]])},
        75: {"topics": [{"name": name}]},
    }
    is_of_group = key in (9, 15, 69)
    broker = t.any_broker()
    if is_of_group or key == 65:
        broker = t.clients.coordinator(named if key == 65 else group, key == 65)
    t.send(key, broker, bodies.get(key, {}))


BROKERS_SETTINGS = (
    ("message.max.bytes", "1000"),
    ("min.insync.replicas", "2"),
    ("leader.replication.throttled.rate", "200"),
    ("follower.replication.throttled.rate", "200"),
    ("log.cleanup.policy", "compact"),
    ("num.partitions", "3"),
)


GROUPS_SETTINGS = [
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("consumer.assignment.interval.ms", "0"),
    ("consumer.session.timeout.ms", "1"),
]


def administer(t: RequestGenerator) -> None:
    key = t.choice.of([44, 33, 49, 30, 31, 44, 49])
    name, value = t.choice.of(
        [
            ("message.timestamp.type", "LogAppendTime"),
            ("max.message.bytes", "70"),
            ("cleanup.policy", "compact"),
            ("no.such.setting", "1"),
            ("leader.replication.throttled.replicas", "*"),
            ("follower.replication.throttled.replicas", "0:1,0:2"),
        ]
    )
    setting = {"name": name, "value": value, "configOperation": t.choice.of([0, 1, 2, 3])}
    resource = {"resourceType": 2, "resourceName": t.choice.of(TOPICS), "configs": [setting]}
    broker = t.any_broker()
    if t.choice.of([False, False, True]):
        setting["name"], setting["value"] = t.choice.of(BROKERS_SETTINGS)
        whose = t.choice.of([str(broker), ""])
        resource = {"resourceType": 4, "resourceName": whose, "configs": [setting]}
    elif t.choice.one_in(4):
        setting["name"], setting["value"] = t.choice.of(GROUPS_SETTINGS)
        group = t.choice.of([*GROUPS, CONSUMER_GROUP])
        resource = {"resourceType": 32, "resourceName": group, "configs": [setting]}
    elif t.choice.one_in(6):
        setting["name"], setting["value"] = t.choice.of(
            [("interval.ms", "1000"), ("match", "client_id=a"), ("match", "a"), ("metrics", "*")]
        )
        resource = {"resourceType": 16, "resourceName": t.choice.of("ab"), "configs": [setting]}
    entity = [{"entityType": "client-id", "entityName": t.choice.of(["client", None])}]
    quota = {"key": "consumer_byte_rate", "value": 100.0, "remove": t.choice.of([False, True])}
    acl = {
        "resourceType": t.choice.of([2, 3]),
        "resourceName": t.choice.of(["orders", "g", "o"]),
        "resourcePatternType": t.choice.of([3, 4]),
        "principal": "User:other",
        "host": "*",
        "operation": t.choice.of([3, 4, 2]),
        "permissionType": t.choice.of([3, 2]),
    }
    bodies: dict[int, dict[str, Any]] = {
        30: {"creations": [acl]},
        31: {"filters": [{"resourceTypeFilter": t.choice.of([2, 1])}]},
        33: {"resources": [{**resource, "configs": [{n: setting[n] for n in ("name", "value")}]}]},
        44: {"resources": [resource]},
        49: {"entries": [{"entity": entity, "ops": [quota]}]},
    }
    t.send(key, broker, bodies[key])


# Groups


def join(t: RequestGenerator, group: str | None = None, version: int | None = None) -> None:
    """Somebody new joins, a member joins again, or one with an id that it was given."""
    if t.clients.topic(GROUP_TOPIC) is None and not t.choice.one_in(4):
        find_coordinators(t)
    member = Member(group or t.choice.of(GROUPS), "", "i" if t.choice.one_in(4) else None)
    if group is None and t.choice.below(3):
        member = t.member()
    if group is None and t.choice.one_in(6):
        member = Member(CONSUMER_GROUP, "", member.instance)
    protocols = [{"name": "range", "metadata": _subscription("orders")}]
    if t.choice.one_in(3):
        protocols.insert(0, {"name": "sticky", "metadata": _subscription("payments")})
    if t.choice.one_in(24):
        protocols = [{"name": "other", "metadata": ""}]
    body = {
        "groupId": "" if t.choice.one_in(40) else member.group,
        "sessionTimeoutMs": 5 if t.choice.one_in(40) else t.choice.of([30_000, 6000]),
        "rebalanceTimeoutMs": t.choice.of([60_000, 100]),
        "memberId": member.member_id,
        "groupInstanceId": member.instance,
        "protocolType": "consumer",
        "protocols": protocols,
    }
    if version is None:
        version = t.choice.of([3, 9, 9, 5, 2])
    t.send(11, t.clients.coordinator(member.group), body, version=version)


def sync(t: RequestGenerator) -> None:
    """A member syncs; the leader assigns. Without a suitable member, a new one joins."""
    if not t.clients.members:
        join(t)
        return
    member = t.member()
    given = _given(t, member)
    body = {
        "groupId": member.group,
        "generationId": member.generation,
        "memberId": member.member_id,
        "groupInstanceId": member.instance,
        "protocolType": "consumer",
        "protocolName": "other" if t.choice.one_in(24) else member.protocol,
        "assignments": given if member.is_leader else [],
    }
    t.send(14, t.clients.coordinator(member.group), body)


def _given(t: RequestGenerator, leader: Member) -> list[dict[str, Any]]:
    """A partition of `orders` for each member; now and then nonsense, or one for two."""
    members = [
        {"memberId": each, "assignment": _assignment("orders", partition)}
        for partition, each in enumerate(leader.others)
    ]
    if members and t.choice.one_in(8):
        members[0]["assignment"] = t.choice.of(["QQ==", "", members[-1]["assignment"]])
    return members


def live_in_group(t: RequestGenerator) -> None:
    """Heartbeats, and at times a member leaves, or a group is deleted."""
    member = t.member()
    key = t.choice.of([12, 12, 12, 13, 42, 47])
    identity = {"memberId": member.member_id, "groupInstanceId": member.instance}
    here = {"groupId": member.group, "generationId": member.generation, **identity}
    offset = {"partitionIndex": t.choice.of([0, 1])}
    bodies: dict[int, dict[str, Any]] = {
        12: here,
        13: {"groupId": member.group, "memberId": member.member_id, "members": [identity]},
        42: {"groupsNames": [member.group]},
        47: {
            "groupId": member.group,
            "topics": [{"name": t.choice.of(TOPICS), "partitions": [offset]}],
        },
    }
    t.send(key, t.clients.coordinator(member.group), bodies[key])


def commit(t: RequestGenerator) -> None:
    name, partition = t.place()
    member = t.member()
    if t.choice.one_in(3):
        member = Member(t.choice.of(GROUPS), "", None)
    offset = {
        "partitionIndex": partition,
        "committedOffset": t.choice.below(13),
        "committedMetadata": "x" * 5000 if t.choice.one_in(10) else "",
    }
    body = {
        "groupId": member.group,
        "generationIdOrMemberEpoch": member.generation,
        "memberId": member.member_id,
        "groupInstanceId": member.instance,
        "topics": [
            {"name": name, "topicId": t.clients.topic_id(name), "partitions": [offset]},
        ],
    }
    t.send(8, t.clients.coordinator(member.group), body)


# Transactions


def take_producer_id(t: RequestGenerator, name: str | None = None) -> None:
    if t.clients.topic(TRANSACTION_TOPIC) is None and not t.choice.one_in(4):
        find_coordinators(t)
    held = Holder(name or t.choice.of(["t", "t", None, "a/b", ""]), -1, -1)
    if name is None and t.choice.one_in(3):
        held = t.holder(is_transactional=True)
    body = {
        "transactionalId": held.transactional_id,
        "transactionTimeoutMs": -1 if t.choice.one_in(24) else t.choice.of([60_000, 1000]),
        "producerId": held.producer_id,
        "producerEpoch": held.epoch,
    }
    broker = t.any_broker()
    if held.transactional_id is not None:
        broker = t.clients.coordinator(held.transactional_id, is_transactional=True)
    t.send(22, broker, body, version=t.choice.of([5, 4, 3, 0]) if name is None else 4)


def add_to_transaction(t: RequestGenerator, holder: Holder | None = None) -> None:
    if holder is None and not t.clients.holders:
        take_producer_id(t, "t")
        return
    holder = holder or t.holder(is_transactional=True)
    name, partition = t.place()
    key = t.choice.of([24, 24, 25])
    request = {
        "transactionalId": holder.transactional_id,
        "producerId": holder.producer_id,
        "producerEpoch": holder.epoch,
    }
    parts = [{"name": name, "partitions": [partition]}]
    group, is_check = t.choice.of(GROUPS), t.choice.of([False, True])
    body = {
        24: {
            "v3AndBelowTransactionalId": holder.transactional_id,
            "v3AndBelowProducerId": holder.producer_id,
            "v3AndBelowProducerEpoch": holder.epoch,
            "v3AndBelowTopics": parts,
            "transactions": [{**request, "topics": parts, "verifyOnly": is_check}],
        },
        25: {**request, "groupId": group},
    }[key]
    broker = t.clients.coordinator(holder.transactional_id or "", is_transactional=True)
    t.send(key, broker, body, version=t.choice.of([3, 3, 4]))


def end_transaction(t: RequestGenerator) -> None:
    """A transaction commits or aborts. Without an open one, a client requests a producer id."""
    if not t.clients.holders:
        take_producer_id(t, "t")
        return
    holder = t.holder(is_transactional=True)
    body = {
        "transactionalId": holder.transactional_id,
        "producerId": holder.producer_id,
        "producerEpoch": holder.epoch,
        "committed": t.choice.of([True, False]),
    }
    broker = t.clients.coordinator(holder.transactional_id or "", is_transactional=True)
    t.send(26, broker, body, version=t.choice.of([5, 4, 3]))


def commit_in_transaction(t: RequestGenerator) -> None:
    holder, member = t.holder(is_transactional=True), t.member()
    if t.choice.below(2):
        member = Member(member.group, "", None)
    name, partition = t.place()
    offset = {"partitionIndex": partition, "committedOffset": t.choice.below(13)}
    body = {
        "transactionalId": holder.transactional_id,
        "groupId": member.group,
        "producerId": holder.producer_id,
        "producerEpoch": holder.epoch,
        "generationId": member.generation,
        "memberId": member.member_id,
        "groupInstanceId": member.instance,
        "topics": [{"name": name, "partitions": [offset]}],
    }
    t.send(28, t.clients.coordinator(member.group), body, version=t.choice.of([5, 3, 3]))


def marker_from_nowhere(t: RequestGenerator) -> None:
    """What no other machine has sent: a marker, a request for producer ids, an in-sync set."""
    holder = t.holder(is_transactional=t.choice.of([True, False]))
    name, partition = t.place()
    if t.choice.one_in(3):
        broker_id = t.choice.of([*t.clients.brokers, 9])
        t.send(67, t.any_broker(), {"brokerId": broker_id, "brokerEpoch": t.choice.of([0, -1])})
        return
    if t.choice.one_in(3):
        topic = t.clients.topic(name)
        states = [{"brokerId": each} for each in t.clients.brokers]
        part = {"partitionIndex": partition, "leaderEpoch": 0, "newIsrWithEpochs": states}
        topic_id = topic.topic_id if topic is not None else "AAAAAAAAAAAAAAAAAAAAAA"
        topics = [{"topicId": topic_id, "partitions": [{**part, "partitionEpoch": 0}]}]
        body = {"brokerId": t.clients.leader(name, partition), "topics": topics}
        body["brokerEpoch"] = 0
        t.send(56, t.any_broker(), body)
        return
    marker = {
        "producerId": holder.producer_id,
        "producerEpoch": holder.epoch,
        "transactionResult": t.choice.of([True, False]),
        "topics": [{"name": name, "partitionIndexes": [partition]}],
        "coordinatorEpoch": t.choice.of([0, 1]),
        "transactionVersion": t.choice.of([0, 2]),
    }
    t.send(27, t.clients.leader(name, partition), {"markers": [marker]})


def refused(t: RequestGenerator) -> None:
    """An API that is not built, or a body that is none."""
    if t.choice.below(2):
        t.clients.send(80, 0, t.any_broker(), {"voterId": 2})
    else:
        t.clients.send(0, 12, t.any_broker(), {"topicData": "many"})


# Openings


def create_topic(t: RequestGenerator) -> None:
    """`orders` with three partitions."""
    topic = {"name": "orders", "numPartitions": 3, "replicationFactor": 1}
    t.clients.send(19, 7, t.clients.brokers[0], {"topics": [topic]})


def find_coordinators(t: RequestGenerator) -> None:
    for kind, name in ((0, "g"), (1, "t")):
        t.clients.send(10, 4, t.clients.brokers[0], {"keyType": kind, "coordinatorKeys": [name]})


def form_group(t: RequestGenerator) -> None:
    """Two members of `g` join with a chosen or a received member id, and sync."""
    find_coordinators(t)
    for _ in range(2):
        join(t, "g", version=3)
    t.clients.now += 3_001
    t.clients.intervene("tick")
    for member in list(t.clients.members):
        given = _given(t, member)
        body = {
            "groupId": "g",
            "generationId": member.generation,
            "memberId": member.member_id,
            "groupInstanceId": member.instance,
            "assignments": given,
        }
        t.clients.send(14, 4, t.clients.coordinator("g"), body)


def begin_transaction(t: RequestGenerator) -> None:
    """`t` has a producer id and an open transaction."""
    find_coordinators(t)
    for _ in range(2):  # the first one asks for a block of ids
        take_producer_id(t, "t")
        t.clients.now += 60
    for holder in list(t.clients.holders):
        add_to_transaction(t, holder)


Generate = Callable[[RequestGenerator], None]

OPENINGS: list[list[Generate]] = [
    [create_topic, form_group, begin_transaction],
    [create_topic, form_group],
    [create_topic, begin_transaction],
    [create_topic, find_coordinators],
    [create_topic, form_group, begin_transaction],
    [create_topic, find_coordinators],
    [create_topic],
    [],
]
"""Initial events of a history."""

REQUESTS: list[tuple[int, Generate]] = [
    (14, produce),
    (14, fetch),
    (6, look_up_offsets),
    (5, topics),
    (8, look_at_cluster),
    (6, administer),
    (9, join),
    (9, sync),
    (6, live_in_group),
    (5, commit),
    (4, take_producer_id),
    (6, add_to_transaction),
    (5, end_transaction),
    (4, commit_in_transaction),
    (2, marker_from_nowhere),
    (5, pass_time),
    (2, intervene),
    (2, lose_a_broker),
    (1, refused),
]
"""How often each kind of event comes."""
