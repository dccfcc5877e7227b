"""Models of consumer groups: rebalances, zombies, static members."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Faults, Model, Send
from brokertwin.simulation.explore.clients import GroupWorker
from brokertwin.simulation.explore.invariants import (
    CellHolds,
    Invariant,
    OffsetsGoForward,
    OneOwner,
    OneOwnerAtATime,
)

COMMITS: tuple[Invariant, ...] = (OffsetsGoForward(), CellHolds())
OWNERS: tuple[Invariant, ...] = (OneOwner(), *COMMITS)


def eager(is_old: bool, waits: int = 1) -> Model:
    """Two members that commit offsets while the group rebalances."""
    settings = {"brokertwin.offset.storage": "zookeeper"} if is_old else {}
    return Model(
        name="commit-without-generation" if is_old else "eager-rebalance",
        about="two members of a classic group commit offsets; "
        + ("ZooKeeper stores them (0.8)" if is_old else "the coordinator checks generations"),
        clients=tuple(GroupWorker(name) for name in "ab"),
        cluster=Cluster(topics={"input": 1}, groups=("work",), settings=settings),
        faults=Faults(waits=waits, wait_ms=11_000),
        invariants=OWNERS,
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


class MemberState(NamedTuple):
    """State of a KIP-848 member: its epoch, its partitions, and how many heartbeats it has sent."""

    epoch: int = 0
    owned: tuple[int, ...] = ()
    beats: int = 0


class ConsumerMember(Client):
    """A member of a KIP-848 group that gives up partitions at once.

    Args:
        beats: heartbeats with a response before it ends without notice.
    """

    def __init__(self, name: str, beats: int) -> None:
        self.name = name
        self.start = MemberState()
        self._beats = beats

    def sends(self, state: MemberState) -> Iterable[Send]:
        """Return the next heartbeat."""
        if state.beats == self._beats:
            return []
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
        label = f"heartbeat, epoch {state.epoch}"
        return [Send(api="CONSUMER_GROUP_HEARTBEAT", version=1, body=body, label=label)]

    def receives(self, state: MemberState, _send: Send, response: Any) -> MemberState:
        """Take over the assignment; join again if fenced."""
        if response is None:
            return state
        beats = state.beats + 1
        if response.error_code != Error.NONE:
            return MemberState(beats=beats)
        owned = state.owned
        if response.assignment is not None:
            owned = tuple(
                partition
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        return MemberState(response.member_epoch, owned, beats)


def consumers(beats: int = 4) -> Model:
    """Two members of a KIP-848 group that share two partitions."""
    return Model(
        name="consumer-group",
        about="KIP-848: heartbeats of two members arrive late, or their responses are lost",
        clients=(ConsumerMember("member-1", beats), ConsumerMember("member-2", beats)),
        cluster=Cluster(topics={"input": 2}, groups=("work",)),
        faults=Faults(late=1, lost=1),
        invariants=(OneOwnerAtATime(), CellHolds()),
        symmetric=(("member-1", "member-2"),),
    )


def models() -> Iterator[Model]:
    """All models of this subject."""
    yield eager(True)
    yield eager(False)
    yield static(OWNERS, "static-owners", "OneOwner")
    yield static(COMMITS, "static-commits", "")
    yield late_commit()
    yield consumers()
