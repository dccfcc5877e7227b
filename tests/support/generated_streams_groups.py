"""Requests of streams groups in a generated history, and events that affect them."""

from typing import Any

from tests.support.generated_clients import Consumer
from tests.support.generated_consumers import commit
from tests.support.generated_requests import (
    Generate,
    RequestGenerator,
    create_topic,
    find_coordinators,
)
from tests.support.request_generator import CONSUMER_GROUP, GROUPS, STREAMS_GROUP
from tests.support.streams_groups import NO_TASKS, internal, part, topology

_REPARTITION = "w-repartition"
_COUNTING = topology(
    part("0", "orders", repartitionSinkTopics=[_REPARTITION]),
    part(
        "1",
        repartitionSourceTopics=[internal(_REPARTITION)],
        stateChangelogTopics=[internal("w-changelog")],
    ),
    epoch=1,
)
_MISTAKES = [
    topology(part("0", "absent")),
    topology(part("0", "orders", "payments")),
    topology(part("0", "orders", stateChangelogTopics=[internal("w-changelog", 3)])),
    topology(part("0", "orders"), part("0", "payments")),
]
"""A topic that is not there, an older topology, one that is none, one that contradicts itself."""


def join(t: RequestGenerator, group: str | None = None) -> None:
    """Somebody joins a streams group, or a group of another kind."""
    if group is None:
        group = t.choice.of([STREAMS_GROUP] * 5 + [CONSUMER_GROUP, *GROUPS])
    runs = t.choice.of(_MISTAKES) if t.choice.one_in(6) else _COUNTING
    member = Consumer(group, t.choice.of(["w1", "w2", "w3", "w4"]), None)
    fields = {"rebalanceTimeoutMs": t.choice.of([60_000, 500]), "topology": runs, **NO_TASKS}
    process = t.choice.of(["p1", "p2", "p2"])
    endpoint = {"host": process, "port": 8080} if t.choice.one_in(3) else None
    _beat(t, member, **fields, processId=process, userEndpoint=endpoint, clientTags=[])


def _beat(t: RequestGenerator, member: Consumer, **fields: Any) -> None:
    given = {"groupId": member.group, "memberId": member.member_id, "memberEpoch": member.epoch}
    given["endpointInformationEpoch"] = t.choice.below(3)
    t.send(88, t.clients.coordinator(member.group), {**given, **fields})


def work(t: RequestGenerator) -> None:
    """A member of a streams group joins, sends a heartbeat, commits, or leaves."""
    workers = t.clients.workers
    if not workers or t.choice.one_in(4):
        join(t)
        return
    member = t.choice.of(workers[::-1])
    if t.choice.one_in(12):
        epoch = member.epoch + t.choice.of([-1, 1])
        name = t.choice.of([member.member_id, "x"])
        member = Consumer(member.group, name, None, epoch, member.owned)
    act = t.choice.of(["beat"] * 4 + ["owned"] * 8 + ["commit", "leave", "shutdown"])
    if act == "owned":
        _beat(t, member, **member.owned[0] if member.owned else NO_TASKS)
    elif act == "commit":
        commit(t, member)
    elif act == "leave":
        _beat(t, Consumer(member.group, member.member_id, None, -1))
    else:
        _beat(t, member, shutdownApplication=act == "shutdown")


def administer(t: RequestGenerator) -> None:
    """Somebody looks at a streams group, gives it settings, or deletes it."""
    group = STREAMS_GROUP
    configs = [
        {"name": "streams.num.standby.replicas", "configOperation": 0, "value": "1"},
        {"name": "streams.initial.rebalance.delay.ms", "configOperation": 0, "value": "0"},
    ]
    setting = {"resourceType": 32, "resourceName": group, "configs": [t.choice.of(configs)]}
    bodies: dict[int, dict[str, Any]] = {
        89: {"groupIds": [group], "includeAuthorizedOperations": True},
        42: {"groupsNames": [group]},
        44: {"resources": [setting], "validateOnly": False},
        16: {"typesFilter": ["streams"]},
    }
    key = t.choice.of([89, 89, 89, 44, 44, 42, 16])
    t.send(key, t.clients.coordinator(group), bodies[key])


def form_streams_group(t: RequestGenerator) -> None:
    """Two members of `w` join, and get their tasks when the group has waited for more."""
    find_coordinators(t)
    for name in ("w1", "w2"):
        fields = {"rebalanceTimeoutMs": 60_000, "topology": _COUNTING, **NO_TASKS}
        _beat(t, Consumer(STREAMS_GROUP, name, None), **fields, processId=name, clientTags=[])
        t.clients.now += 2_000
    for _ in range(2):
        for member in list(t.clients.workers):
            _beat(t, member, **NO_TASKS)


STREAMS_OPENINGS: list[list[Generate]] = [[create_topic, form_streams_group]]
"""Initial events of a history of a streams application."""

STREAMS_REQUESTS: list[tuple[int, Generate]] = [(6, work), (2, administer)]
"""How often each kind of event comes, among those of `generated_requests.py`."""
