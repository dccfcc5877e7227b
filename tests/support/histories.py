"""Strategies for histories: sequences of events that a cluster could see, good and bad ones mixed.

Names, ids and offsets come from small sets, so that events meet: producers repeat and skip
sequences, sessions are continued and superseded, topics are deleted under waiting fetches.
"""

from typing import Any

import msgspec
from hypothesis import strategies as st

CLUSTER = "bench"
START = 1_700_000_000_000

TOPICS = st.sampled_from(["orders", "payments"])
GROUPS = st.sampled_from(["g", "a/b"])
TRANSACTIONAL_IDS = st.sampled_from(["t", "a/b"])
PARTITIONS = st.integers(0, 2)
SESSIONS = st.sampled_from([11, 12])
OFFSETS = st.integers(0, 12)
PAUSES = st.sampled_from([0, 1, 20, 300] * 4 + [11 * 60_000, 86_399_000, 8 * 86_400_000])
"""Time between two events in ms: mostly little, at times enough for something to expire."""


def _request(key: int, version: int, body: dict[str, Any], **event: Any) -> dict[str, Any]:
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "client"}
    return {"requestHeader": header, "request": body, **event}


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    """The header of a batch of a plain or an idempotent producer."""
    count = draw(st.integers(1, 3))
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": count - 1,
        "recordCount": count,
        "sizeInBytes": 60 + 10 * count,
        "baseTimestamp": START,
        "maxTimestamp": START + draw(st.integers(0, 5)),
        "magic": 2,
    }
    if draw(st.booleans()):
        batch["producerId"] = draw(st.integers(0, 1))
        batch["producerEpoch"] = draw(st.integers(0, 1))
        batch["baseSequence"] = draw(st.sampled_from([0, 1, 2, 3, 2**31 - 1]))
    return batch


@st.composite
def produces(draw: st.DrawFn) -> dict[str, Any]:
    batch = draw(batches())
    batch["isTransactional"] = draw(st.booleans())
    partition = {"index": draw(PARTITIONS), "batches": [batch]}
    topic = {"name": draw(TOPICS), "partitionData": [partition]}
    body = {
        "transactionalId": draw(TRANSACTIONAL_IDS),
        "acks": draw(st.sampled_from([-1, 0, 1])),
        "topicData": [topic],
    }
    return _request(0, draw(st.sampled_from([10, 11, 12])), body)


@st.composite
def fetches(draw: st.DrawFn) -> dict[str, Any]:
    wanted = [
        {"partition": p, "fetchOffset": draw(OFFSETS), "partitionMaxBytes": 100}
        for p in draw(st.lists(PARTITIONS, max_size=2, unique=True))
    ]
    session = draw(SESSIONS)
    epoch = draw(st.integers(-1, 3))
    body = {
        "maxWaitMs": draw(st.sampled_from([0, 50, 500])),
        "minBytes": draw(st.sampled_from([0, 1, 200])),
        "maxBytes": draw(st.sampled_from([50, 10_000])),
        "isolationLevel": draw(st.sampled_from([0, 1])),
        "sessionId": session if epoch > 0 else 0,
        "sessionEpoch": epoch,
        "topics": [{"topic": draw(TOPICS), "partitions": wanted}],
        "forgottenTopicsData": draw(
            st.lists(st.builds(lambda t, p: {"topic": t, "partitions": [p]}, TOPICS, PARTITIONS))
        ),
    }
    return _request(1, 12, body, choices={"sessionId": session})


def _topic_requests() -> st.SearchStrategy[dict[str, Any]]:
    create = st.builds(
        lambda name, n: _request(
            19, 7, {"topics": [{"name": name, "numPartitions": n, "replicationFactor": 1}]}
        ),
        TOPICS,
        st.integers(1, 3),
    )
    delete = st.builds(lambda name: _request(20, 6, {"topics": [{"name": name}]}), TOPICS)
    more = st.builds(
        lambda name, n: _request(37, 3, {"topics": [{"name": name, "count": n}]}),
        TOPICS,
        st.integers(1, 4),
    )
    metadata = st.just(_request(3, 12, {"topics": None}))
    records = st.builds(
        lambda name, p, offset: _request(
            21,
            2,
            {"topics": [{"name": name, "partitions": [{"partitionIndex": p, "offset": offset}]}]},
        ),
        TOPICS,
        PARTITIONS,
        st.integers(-1, 4),
    )
    alter = st.builds(
        lambda name, setting, change: _request(
            44,
            1,
            {
                "resources": [
                    {
                        "resourceType": 2,
                        "resourceName": name,
                        "configs": [{**setting, "configOperation": change}],
                    }
                ]
            },
        ),
        TOPICS,
        st.sampled_from(
            [
                {"name": "message.timestamp.type", "value": "LogAppendTime"},
                {"name": "max.message.bytes", "value": "70"},
                {"name": "cleanup.policy", "value": "compact"},
            ]
        ),
        st.integers(0, 3),
    )
    return st.one_of(create, create, create, delete, more, metadata, records, alter)


def _offset_requests() -> st.SearchStrategy[dict[str, Any]]:
    commit = st.builds(
        lambda group, name, p, offset: _request(
            8,
            8,
            {
                "groupId": group,
                "generationIdOrMemberEpoch": -1,
                "memberId": "",
                "topics": [
                    {
                        "name": name,
                        "partitions": [{"partitionIndex": p, "committedOffset": offset}],
                    }
                ],
            },
        ),
        GROUPS,
        TOPICS,
        PARTITIONS,
        OFFSETS,
    )
    fetch = st.builds(
        lambda group: _request(9, 8, {"groups": [{"groupId": group, "topics": None}]}), GROUPS
    )
    listed = st.builds(
        lambda name, p, timestamp: _request(
            2,
            7,
            {
                "replicaId": -1,
                "topics": [
                    {
                        "name": name,
                        "partitions": [{"partitionIndex": p, "timestamp": timestamp}],
                    }
                ],
            },
        ),
        TOPICS,
        PARTITIONS,
        st.sampled_from([-3, -2, -1, START + 2]),
    )
    return st.one_of(commit, fetch, listed)


@st.composite
def _group_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Members that join, sync, show signs of life, leave; ids meet, also wrong ones."""
    group = draw(GROUPS)
    member = draw(st.sampled_from(["", "m1", "m2", "m3"]))
    instance = draw(st.sampled_from([None, None, "i"]))
    generation = draw(st.integers(0, 3))
    here = {"groupId": group, "generationId": generation, "memberId": member}
    key = draw(st.sampled_from([11, 11, 11, 12, 13, 14, 14, 15, 16, 42, 47]))
    bodies: dict[int, dict[str, Any]] = {
        11: {
            "groupId": group,
            "sessionTimeoutMs": draw(st.sampled_from([6000, 30_000])),
            "rebalanceTimeoutMs": draw(st.sampled_from([100, 60_000])),
            "memberId": member,
            "groupInstanceId": instance,
            "protocolType": "consumer",
            "protocols": [{"name": draw(st.sampled_from(["range", "sticky"])), "metadata": ""}],
        },
        12: {**here, "groupInstanceId": instance},
        13: {"groupId": group, "members": [{"memberId": member, "groupInstanceId": instance}]},
        14: {**here, "assignments": [{"memberId": "m1", "assignment": "QQ=="}]},
        15: {"groups": [group]},
        16: {},
        42: {"groupsNames": [group]},
        47: {"groupId": group, "topics": [{"name": "orders", "partitions": []}]},
    }
    version = {11: draw(st.sampled_from([3, 9])), 12: 4, 13: 5, 14: 4, 15: 5, 16: 5, 42: 2, 47: 0}
    chosen = {"memberId": draw(st.sampled_from(["m1", "m2", "m3"]))}
    return _request(key, version[key], bodies[key], choices=chosen)


@st.composite
def _transaction_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Partitions and offsets that join transactions, ends, and markers from nowhere."""
    name, group, topic = draw(TRANSACTIONAL_IDS), draw(GROUPS), draw(TOPICS)
    producer_id, epoch = draw(st.integers(0, 1)), draw(st.integers(0, 3))
    holder = {"transactionalId": name, "producerId": producer_id, "producerEpoch": epoch}
    partitions = draw(st.lists(PARTITIONS, min_size=1, max_size=2, unique=True))
    offset = {"partitionIndex": partitions[0], "committedOffset": draw(OFFSETS)}
    marker = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "transactionResult": draw(st.booleans()),
        "topics": [{"name": topic, "partitionIndexes": partitions}],
        "coordinatorEpoch": draw(st.integers(0, 1)),
        "transactionVersion": draw(st.sampled_from([0, 2])),
    }
    bodies: dict[int, dict[str, Any]] = {
        24: {
            "v3AndBelowTransactionalId": name,
            "v3AndBelowProducerId": producer_id,
            "v3AndBelowProducerEpoch": epoch,
            "v3AndBelowTopics": [{"name": topic, "partitions": partitions}],
        },
        25: {**holder, "groupId": group},
        26: {**holder, "committed": draw(st.booleans())},
        27: {"markers": [marker]},
        28: {**holder, "groupId": group, "topics": [{"name": topic, "partitions": [offset]}]},
    }
    key = draw(st.sampled_from([24, 24, 25, 26, 26, 27, 28]))
    version = {24: 3, 25: 3, 26: draw(st.sampled_from([3, 5])), 27: 2, 28: 3}
    return _request(key, version[key], bodies[key])


def _open_transaction() -> list[dict[str, Any]]:
    """The requests of producer 0, which has written in a transaction of `t`."""
    named = {"transactionalId": "t"}
    take = _request(22, 4, {**named, "transactionTimeoutMs": 1000})
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": 0,
        "recordCount": 1,
        "sizeInBytes": 70,
        "producerId": 0,
        "producerEpoch": 0,
        "baseSequence": 0,
        "isTransactional": True,
    }
    topic = {"name": "orders", "partitionData": [{"index": 0, "batches": [batch]}]}
    return [
        _request(10, 4, {"keyType": 1, "coordinatorKeys": ["t"]}),
        take,
        take,
        _request(0, 12, {**named, "acks": -1, "topicData": [topic]}),
    ]


def _other_events() -> st.SearchStrategy[dict[str, Any]]:
    producer_id = st.just(_request(22, 4, {"transactionalId": None, "transactionTimeoutMs": 1000}))
    transactional = st.builds(
        lambda name, held: _request(
            22,
            4,
            {
                "transactionalId": name,
                "transactionTimeoutMs": 1000,
                "producerId": held[0],
                "producerEpoch": held[1],
            },
        ),
        TRANSACTIONAL_IDS,
        st.sampled_from([(-1, -1), (0, 0), (0, 1), (1, 0)]),
    )
    coordinator = st.builds(
        lambda kind, g: _request(10, 4, {"keyType": kind, "coordinatorKeys": [g]}),
        st.sampled_from([0, 1]),
        GROUPS,
    )
    not_built = st.just(_request(68, 0, {"groupId": "g"}))
    wrong = st.just(_request(0, 12, {"topicData": "many"}))
    tick = st.just({"kind": "tick"})
    return st.one_of(producer_id, transactional, coordinator, not_built, wrong, tick)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 40) -> list[bytes]:
    """Documents of events in order, their times rising."""
    events = draw(
        st.lists(
            st.one_of(
                produces(),
                produces(),
                fetches(),
                fetches(),
                _topic_requests(),
                _offset_requests(),
                _group_requests(),
                _group_requests(),
                _transaction_requests(),
                _transaction_requests(),
                _other_events(),
            ),
            min_size=1,
            max_size=max_size,
        )
    )
    create = _request(
        19, 7, {"topics": [{"name": "orders", "numPartitions": 3, "replicationFactor": 1}]}
    )
    opening = draw(st.sampled_from([[create], [create, *_open_transaction()]]))
    now = START
    documents = []
    for number, event in enumerate([*opening, *events]):
        now += draw(PAUSES)
        envelope = {
            "id": f"e{number}",
            "cluster": CLUSTER,
            "broker": 1,
            "time": now,
            "nonce": f"n{number}",
        }
        documents.append(msgspec.json.encode({**envelope, **event}))
    return documents
