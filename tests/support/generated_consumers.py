"""Requests of consumer groups in a generated history, and events that affect them.

`consume` is one event; `form_consumer_group` an opening. Mistakes are mixed in: stale epochs,
foreign instance ids, fields that do not fit.
"""

from typing import Any

from tests.support.generated_clients import Consumer
from tests.support.generated_requests import (
    CONSUMER_GROUP,
    GROUPS,
    TOPICS,
    Generate,
    RequestGenerator,
    create_topic,
    find_coordinators,
)

REGEXES = ["o.*", "o.*|payments", "absent", "", "("]


def topics(t: RequestGenerator) -> list[str]:
    return t.choice.of([["orders"], ["orders", "payments"], ["payments"], ["absent"], []])


def join(t: RequestGenerator, group: str | None = None) -> None:
    """Somebody joins a consumer group, or comes back to it."""
    if group is None:
        group = t.choice.of([CONSUMER_GROUP, CONSUMER_GROUP, CONSUMER_GROUP, *GROUPS])
    version = 0 if t.choice.one_in(6) else 1
    instance = t.choice.of([None, None, None, "i"])
    # an unknown id, the id of a current or former member, or none
    drawn = t.choice.of(["", "u1"]) if version == 0 else t.choice.of(["u1", "u2", "u3", "u4"])
    body = {
        **_identity(Consumer(group, drawn, instance)),
        "rebalanceTimeoutMs": t.choice.of([60_000, 500]),
        "subscribedTopicNames": topics(t),
        "serverAssignor": t.choice.of([None, None, "uniform", "range"]),
        "topicPartitions": [],
    }
    if version and t.choice.one_in(4):
        body["subscribedTopicRegex"] = t.choice.of(REGEXES)
    if t.choice.one_in(16):
        body |= t.choice.of(
            [
                {"serverAssignor": "sticky"},
                {"rebalanceTimeoutMs": -1},
                {"memberId": ""},
            ]
        )
    t.send(68, t.clients.coordinator(group), body, version=version)


def _identity(member: Consumer) -> dict[str, Any]:
    return {
        "groupId": member.group,
        "memberId": member.member_id,
        "memberEpoch": member.epoch,
        "instanceId": member.instance,
    }


def _member(t: RequestGenerator) -> Consumer:
    """Return a known member, or a stranger; sometimes with a wrong epoch or a wrong name."""
    consumers = t.clients.consumers
    if not consumers or t.choice.one_in(20):
        return Consumer(CONSUMER_GROUP, "stranger", t.choice.of([None, "i", "j"]), 1)
    member = t.choice.of(consumers[::-1])
    if t.choice.one_in(10):
        epoch = member.epoch + t.choice.of([-1, 1])
        instance = t.choice.of([member.instance, "i"])
        return Consumer(member.group, member.member_id, instance, epoch, member.owned)
    return member


def consume(t: RequestGenerator) -> None:
    """A member of a consumer group joins, sends a heartbeat, commits, looks, or leaves."""
    if not t.clients.consumers or t.choice.one_in(4):
        join(t)
        return
    member = _member(t)
    coordinator = t.clients.coordinator(member.group)
    body = _identity(member)
    act = t.choice.of(["beat"] * 6 + ["owned"] * 5 + ["commit", "fetch", "topics", "leave", "away"])
    if act == "commit":
        commit(t, member)
        return
    if act == "fetch":
        request = {"memberId": member.member_id, "memberEpoch": member.epoch, "topics": None}
        t.send(9, coordinator, {"groups": [{"groupId": member.group, **request}]}, version=9)
        return
    if act == "owned":
        body["topicPartitions"] = member.owned
    elif act == "topics":
        body["subscribedTopicNames"] = topics(t)
        body["subscribedTopicRegex"] = t.choice.of([None, *REGEXES])
    elif act in ("leave", "away"):
        body["memberEpoch"] = -1 if act == "leave" else -2
    t.send(68, coordinator, body, version=1)


def commit(t: RequestGenerator, member: Consumer) -> None:
    name = t.choice.of(TOPICS)
    offset = {"partitionIndex": t.choice.below(3), "committedOffset": t.choice.below(13)}
    body = {
        "groupId": member.group,
        "generationIdOrMemberEpoch": member.epoch,
        "memberId": member.member_id,
        "topics": [{"name": name, "topicId": t.clients.topic_id(name), "partitions": [offset]}],
    }
    t.send(8, t.clients.coordinator(member.group), body)


def administer(t: RequestGenerator) -> None:
    """Somebody looks at a consumer group, sends members away, deletes it or offsets of it."""
    group = CONSUMER_GROUP
    member = _member(t)
    identity = {"memberId": member.member_id, "groupInstanceId": member.instance}
    place = {"name": t.choice.of(TOPICS), "partitions": [{"partitionIndex": 0}]}
    bodies: dict[int, dict[str, Any]] = {
        69: {"groupIds": [group], "includeAuthorizedOperations": True},
        42: {"groupsNames": [group]},
        13: {"groupId": group, "memberId": member.member_id, "members": [identity]},
        12: {"groupId": group, "generationId": member.epoch, **identity},
        14: {"groupId": group, "generationId": member.epoch, **identity, "assignments": []},
        15: {"groups": [group]},
        16: {"typesFilter": ["consumer"]},
        47: {"groupId": group, "topics": [place]},
    }
    key = t.choice.of([69, 42, 69, 42, 13, 12, 14, 15, 16, 47])
    t.send(key, t.clients.coordinator(group), bodies[key])


def form_consumer_group(t: RequestGenerator) -> None:
    """Two members of `c` join, a second apart."""
    find_coordinators(t)
    for _ in range(2):
        join(t, CONSUMER_GROUP)
        t.clients.now += 1_000


CONSUMER_OPENINGS: list[list[Generate]] = [
    [create_topic, form_consumer_group],
    [create_topic, form_consumer_group],
]
"""Initial events of a history of consumers."""

CONSUMER_REQUESTS: list[tuple[int, Generate]] = [
    (14, consume),
    (3, administer),
]
"""How often each kind of event comes, among those of `generated_requests.py`."""
