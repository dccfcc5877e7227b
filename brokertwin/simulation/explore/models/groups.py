"""Models of consumer groups: rebalances, zombies, static members."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Faults, Invariant, Model, Send
from brokertwin.simulation.explore.clients import GroupWorker
from brokertwin.simulation.explore.invariants import (
    CellHolds,
    FencedWritesNothing,
    OffsetsGoForward,
    OneOwner,
    OneOwnerAtATime,
    assigned,
)

COMMITS: tuple[Invariant, ...] = (OffsetsGoForward(), CellHolds())
OWNERS: tuple[Invariant, ...] = (OneOwner(), *COMMITS)


def eager(is_old: bool, waits: int = 1) -> Model:
    settings = {"brokertwin.offset.storage": "zookeeper"} if is_old else {}
    return Model(
        name="commit-without-generation" if is_old else "eager-rebalance",
        about="two members of a classic group commit offsets; "
        + ("ZooKeeper stores them (0.8)" if is_old else "the coordinator checks generations"),
        clients=tuple(GroupWorker(name) for name in "ab"),
        cluster=Cluster(topics={"input": 1}, groups=("work",), settings=settings),
        faults=Faults(waits=waits, wait_ms=11_000),
        invariants=OWNERS if is_old else (*OWNERS, FencedWritesNothing()),
        expected="OffsetsGoForward" if is_old else "",
    )


def static(invariants: tuple[Invariant, ...], name: str, expected: str) -> Model:
    """Two members with one group.instance.id."""
    return Model(
        name=name,
        about="KIP-345: two members have one group.instance.id"
        + ("; does one partition have two owners?" if expected else "; do offsets go back?"),
        clients=tuple(GroupWorker(each, instance="static") for each in "ab"),
        cluster=Cluster(topics={"input": 1}, groups=("work",)),
        faults=Faults(waits=1, wait_ms=11_000),
        invariants=invariants,
        expected=expected,
    )


def late_commit() -> Model:
    """A member whose OffsetCommit arrives late: Kafka does not order commits of a generation."""
    return Model(
        name="late-commit",
        about="a late OffsetCommit of the same member and generation",
        clients=(GroupWorker("a"),),
        cluster=Cluster(topics={"input": 1}, groups=("work",)),
        faults=Faults(late=1),
        invariants=COMMITS,
        expected="OffsetsGoForward",
    )


LEAVES = -1
"""The member epoch of a member that leaves."""


class MemberState(NamedTuple):
    """State of a KIP-848 member: its epoch, its partitions, and how many heartbeats it has sent."""

    epoch: int = 0
    owned: tuple[int, ...] = ()
    beats: int = 0


class ConsumerMember(Client):
    """A member of a KIP-848 group that gives up partitions at once.

    Args:
        beats: heartbeats with a response before it ends without notice.
        joins_late: whether its first heartbeat may be lost or late.
        leaves: whether it leaves at the end.
    """

    api, version = "CONSUMER_GROUP_HEARTBEAT", 1

    def __init__(
        self, name: str, beats: int, *, joins_late: bool = False, leaves: bool = False
    ) -> None:
        self.name = name
        self.start = MemberState()
        self._beats = beats
        self._joins_late, self._leaves = joins_late, leaves

    def sends(self, state: MemberState) -> Iterable[Send]:
        """Return the next heartbeat."""
        if self._leaves and state.beats == self._beats and state.epoch > 0:
            state = MemberState(LEAVES)
        elif state.beats >= self._beats:
            return []
        body, label = self._body(state), f"heartbeat, epoch {state.epoch}"
        may_be_late = state.epoch > 0 or self._joins_late
        send = Send(api=self.api, version=self.version, body=body, label=label)
        return [msgspec.structs.replace(send, may_be_late=may_be_late)]

    def _body(self, state: MemberState) -> dict[str, Any]:
        owned = [{"topicId": requests.topic_id("input"), "partitions": list(state.owned)}]
        body: dict[str, Any] = {
            "groupId": "work",
            "memberId": self.name,
            "memberEpoch": state.epoch,
            "rebalanceTimeoutMs": 30_000,
            "topicPartitions": owned if state.owned else [],
        }
        if state.epoch == 0:
            body["subscribedTopicNames"] = ["input"]
        return body

    def receives(self, state: MemberState, send: Send, response: Any) -> MemberState:
        """Take over the assignment; join again if fenced."""
        if response is None:
            return state
        beats = state.beats + 1
        if send.body["memberEpoch"] == LEAVES:
            return MemberState(beats=beats)
        if response.error_code != Error.NONE:
            return MemberState(beats=beats)
        given = assigned(send, response)
        owned = state.owned if given is None else tuple(partition for _, partition in given)
        return MemberState(response.member_epoch, owned, beats)


class StreamsMember(ConsumerMember):
    """A member of a streams group with one subtopology that reads `input` (KIP-1071)."""

    api, version = "STREAMS_GROUP_HEARTBEAT", 0

    def _body(self, state: MemberState) -> dict[str, Any]:
        tasks = [{"subtopologyId": "0", "partitions": list(state.owned)}] if state.owned else []
        body = {
            "groupId": "work",
            "memberId": self.name,
            "memberEpoch": state.epoch,
            "rebalanceTimeoutMs": 30_000,
            "activeTasks": tasks,
            "standbyTasks": [],
            "warmupTasks": [],
        }
        if state.epoch == 0:
            subtopology = {"subtopologyId": "0", "sourceTopics": ["input"]}
            body["topology"] = {"epoch": 0, "subtopologies": [subtopology]}
            body["processId"] = self.name
        return body


def members(kind: type[ConsumerMember], name: str, about: str, joins_late: bool = False) -> Model:
    """Two members of a group that share two partitions or tasks.

    If one joins late, Kafka's interval between assignments may pass.
    """
    names = ("member-1", "member-2")
    settings = {"group.consumer.assignment.interval.ms": "1000"} if joins_late else {}
    return Model(
        name=name,
        about=about,
        clients=tuple(kind(each, beats=4, joins_late=joins_late) for each in names),
        cluster=Cluster(topics={"input": 2}, groups=("work",), settings=settings),
        faults=Faults(late=1, lost=int(not joins_late), waits=int(joins_late), wait_ms=1_500),
        invariants=(OneOwnerAtATime(), CellHolds()),
        symmetric=(names,),
        expected="OneOwnerAtATime" if joins_late else "",
    )


def leaving() -> Model:
    """Two members, one of which leaves; sessions expire."""
    clients = ConsumerMember("member-1", 2, leaves=True), ConsumerMember("member-2", 3)
    return Model(
        name="leaving-member",
        about="KIP-848: a member leaves, and sessions expire; has a partition two owners?",
        clients=clients,
        cluster=Cluster(topics={"input": 2}, groups=("work",)),
        faults=Faults(waits=2, wait_ms=31_000),
        invariants=OWNERS,
    )


def models() -> Iterator[Model]:
    late = "heartbeats of two members arrive late, or their responses are lost"
    yield eager(True)
    yield eager(False)
    yield static(OWNERS, "static-owners", "OneOwner")
    yield static(COMMITS, "static-commits", "")
    yield late_commit()
    yield members(ConsumerMember, "consumer-group", f"KIP-848: {late}")
    yield leaving()
    yield members(StreamsMember, "streams-group", f"KIP-1071: {late}")
    yield members(ConsumerMember, "late-join", "KIP-848: a first heartbeat arrives late", True)
