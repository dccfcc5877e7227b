"""Requests of share groups in a generated history: of members, and of brokers about them."""

from typing import Any

from tests.support.generated_clients import Consumer
from tests.support.generated_consumers import topics
from tests.support.generated_requests import (
    TOPICS,
    Generate,
    RequestGenerator,
    create_topic,
    find_coordinators,
)
from tests.support.machine import header
from tests.support.request_generator import CONSUMER_GROUP, GROUPS, SHARE_GROUP


def join(t: RequestGenerator) -> None:
    group = t.choice.of([SHARE_GROUP] * 5 + [CONSUMER_GROUP, *GROUPS])
    member = t.choice.of(["s1", "s2", "s3", "s4"])
    _beat(t, Consumer(group, member, None), subscribedTopicNames=topics(t))


def _beat(t: RequestGenerator, member: Consumer, **fields: Any) -> None:
    given = {"groupId": member.group, "memberId": member.member_id, "memberEpoch": member.epoch}
    t.send(76, t.clients.coordinator(member.group), {**given, **fields})


def share(t: RequestGenerator) -> None:
    """A member of a share group joins, sends a heartbeat, or leaves."""
    sharers = t.clients.sharers
    if not sharers or t.choice.one_in(4):
        join(t)
        return
    member = t.choice.of(sharers[::-1])
    if t.choice.one_in(12):
        epoch = member.epoch + t.choice.of([-1, 1])
        member = Consumer(member.group, t.choice.of([member.member_id, "x"]), None, epoch)
    act = t.choice.of(["beat"] * 8 + ["topics", "leave"])
    if act == "leave":
        _beat(t, Consumer(member.group, member.member_id, None, -1))
    elif act == "topics":
        _beat(t, member, subscribedTopicNames=topics(t))
    else:
        _beat(t, member)


def administer(t: RequestGenerator) -> None:
    """Somebody looks at a share group, deletes it, or speaks to its share coordinators."""
    group = SHARE_GROUP
    topic_id, partition = t.clients.topic_id(t.choice.of(TOPICS)), t.choice.below(3)
    begun = {"partition": partition, "stateEpoch": t.choice.below(9), "startOffset": -1}
    bodies: dict[int, dict[str, Any]] = {
        77: {"groupIds": [group], "includeAuthorizedOperations": True},
        42: {"groupsNames": [group]},
        83: {"groupId": group, "topics": [{"topicId": topic_id, "partitions": [begun]}]},
        86: {
            "groupId": group,
            "topics": [{"topicId": topic_id, "partitions": [{"partition": partition}]}],
        },
        10: {"keyType": 2, "coordinatorKeys": [f"{group}:{topic_id}:{partition}"]},
        16: {"typesFilter": ["share"]},
    }
    key = t.choice.of([77, 77, 42, 83, 86, 10, 16])
    t.send(key, t.clients.coordinator(group), bodies[key])


def deliver(t: RequestGenerator) -> None:
    """A leader writes or reads delivery states at a share coordinator."""
    first = t.choice.below(9)
    batch = {"firstOffset": first, "lastOffset": first + t.choice.below(4)}
    batch |= {"deliveryState": t.choice.of([0, 2, 4]), "deliveryCount": t.choice.below(3) + 1}
    epochs = {"leaderEpoch": t.choice.of([-1, 0, 0, 1]), "stateEpoch": t.choice.of([-1, 2, 3, 9])}
    fields = {"partition": t.choice.below(3), **epochs, "startOffset": t.choice.below(6) - 1}
    fields |= {"deliveryCompleteCount": t.choice.below(3) - 1, "stateBatches": [batch]}
    topic_id, key = t.clients.topic_id(t.choice.of(TOPICS)), t.choice.of([84, 85, 85, 87])
    if key != 85:
        fields = {name: fields[name] for name in ("partition", "leaderEpoch")}
    body = {"groupId": SHARE_GROUP, "topics": [{"topicId": topic_id, "partitions": [fields]}]}
    t.send(key, t.clients.coordinator(SHARE_GROUP), body)


def consume(t: RequestGenerator) -> None:
    """A member fetches from a partition's leader, says what became of records, or leaves it."""
    name, partition = t.choice.of(TOPICS), t.choice.below(2)
    broker = t.clients.leader(name, partition)
    session = broker, t.choice.of(["s1", "s2"])
    epoch = t.clients.share_epochs.get(session, 0)
    if t.choice.one_in(12):
        epoch = t.choice.of([-1, 0, 5])
    place = {"partitionIndex": partition, "acknowledgementBatches": []}
    topic = {"topicId": t.clients.topic_id(name), "partitions": [place]}
    whose = t.choice.of([session, session, (broker, "s1")])
    got = t.clients.acquired.get(whose, [])
    if got and epoch and t.choice.one_in(2):
        topic["topicId"], place["partitionIndex"], first, last = t.choice.of(got)
        fields = {"acknowledgeTypes": [t.choice.of([1, 1, 1, 2, 3])]}
        place["acknowledgementBatches"] = [{"firstOffset": first, "lastOffset": last, **fields}]
    body = {"groupId": SHARE_GROUP, "memberId": session[1], "shareSessionEpoch": epoch}
    body["topics"] = [topic]
    if epoch and t.choice.one_in(3):
        t.send(79, broker, body)
        return
    wait_ms, mode = t.choice.of([0, 500]), t.choice.below(2)
    fetch = {**body, **_sizes(wait_ms), "shareAcquireMode": mode}
    t.send(78, broker, fetch, connection=session[1])


def lose_connection(t: RequestGenerator) -> None:
    session = t.choice.of(sorted(t.clients.share_epochs) or [(t.any_broker(), "s1")])
    t.clients.intervene("disconnect", broker=session[0], connection=session[1])
    t.clients.share_epochs.pop(session, None)


def _sizes(wait_ms: int) -> dict[str, Any]:
    sizes = {"maxWaitMs": wait_ms, "minBytes": 1, "maxRecords": 500, "batchSize": 5}
    return {**sizes, "forgottenTopicsData": []}


def share_records(t: RequestGenerator) -> None:
    """`s1` gets a record, and `s2` says what became of it."""
    place: dict[str, Any] = {"partitionIndex": 0, "acknowledgementBatches": []}
    topic = {"topicId": t.clients.topic_id("orders"), "partitions": [place]}
    broker = t.clients.leader("orders", 0)

    def requested(member: str, epoch: int) -> dict[str, Any]:
        fields = {"groupId": SHARE_GROUP, "memberId": member, "shareSessionEpoch": epoch}
        return {**fields, "topics": [topic]}

    t.send(78, broker, {**requested("s1", 0), **_sizes(0)})
    data = {"index": 0, "batches": [header(1, size=70)]}
    written = {"name": "orders", "topicId": topic["topicId"], "partitionData": [data]}
    t.send(0, broker, {"acks": 1, "timeoutMs": 500, "topicData": [written]})
    t.send(78, broker, {**requested("s1", 1), **_sizes(0)})
    t.send(78, broker, {**requested("s2", 0), **_sizes(0)})
    place["acknowledgementBatches"] = [{"firstOffset": 0, "lastOffset": 0, "acknowledgeTypes": [1]}]
    t.send(79, broker, requested("s2", 1))
    t.send(79, broker, requested("s1", 2))


def set_offsets(t: RequestGenerator) -> None:
    """A client reads, resets or deletes the offsets of a share group."""
    name = t.choice.of([*TOPICS, "nope"])
    topic = {"topicName": name, "partitions": [0, 1]}
    at = {"partitionIndex": t.choice.below(3), "startOffset": t.choice.below(9) - 1}
    group = t.choice.of([SHARE_GROUP] * 5 + GROUPS)
    bodies: dict[int, dict[str, Any]] = {
        90: {"groups": [{"groupId": group, "topics": t.choice.of([None, [topic]])}]},
        91: {"groupId": group, "topics": [{"topicName": name, "partitions": [at]}]},
        92: {"groupId": group, "topics": [{"topicName": name}]},
    }
    key = t.choice.of([90, 90, 91, 92])
    t.send(key, t.clients.coordinator(group), bodies[key])


def form_share_group(t: RequestGenerator) -> None:
    """Two members of `s` join and get their partitions with a later heartbeat."""
    find_coordinators(t)
    for name in ("s1", "s2"):
        _beat(t, Consumer(SHARE_GROUP, name, None), subscribedTopicNames=["orders"])
        t.clients.now += 1_000
    for member in list(t.clients.sharers):
        _beat(t, member)


SHARE_OPENINGS: list[list[Generate]] = [
    [create_topic, form_share_group],
    [create_topic, form_share_group, share_records],
]
"""Initial events of a history of share groups."""

SHARE_REQUESTS: list[tuple[int, Generate]] = [
    (5, share),
    (2, administer),
    (2, deliver),
    (2, set_offsets),
    (6, consume),
    (1, lose_connection),
]
"""How often each kind of event comes, among those of `generated_requests.py`."""
