"""Invariants of models: each is violated after a rule was broken on purpose."""

from typing import Any, NamedTuple

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore.api import Client, Cluster, Faults, Model, Send
from brokertwin.simulation.explore.clients import GroupWorker
from brokertwin.simulation.explore.invariants import (
    DeliveredAndCounted,
    FencedWritesNothing,
    HeldByOne,
    Invariant,
    OffsetsGoForward,
    OneOwnerAtATime,
    SessionsHideNothing,
)
from brokertwin.simulation.explore.models import built_in, groups
from brokertwin.simulation.explore.search import Options, Search
from brokertwin.state.fetch import fetch_session
from brokertwin.state.groups.task_assignment import TaskOwners
from brokertwin.state.share.in_flight import InFlightState, RecordState
from brokertwin.state.transactions import transactions

STATES_MAX = 4_000
_transition = InFlightState.transition


def delivers_once_more(record: InFlightState, state: RecordState, limit: int, *_: bool) -> None:
    """Archive a record one delivery too late."""
    _transition(record, state, limit + 1)


def archives_released(record: InFlightState, state: RecordState, limit: int, *_: bool) -> None:
    _transition(record, RecordState.ARCHIVED if state == RecordState.AVAILABLE else state, limit)


def accepts_nothing(record: InFlightState, state: RecordState, limit: int, *_: bool) -> None:
    is_accepted = state == RecordState.ACKNOWLEDGED
    _transition(record, RecordState.AVAILABLE if is_accepted else state, limit)


class Broken(NamedTuple):
    """A rule broken on purpose, and how the search finds it."""

    model: Model
    owner: Any
    name: str
    rule: Any
    invariant: Invariant
    text: str


BROKEN = {
    "a task goes to its next owner at once": Broken(
        built_in()["streams-group"],
        TaskOwners,
        "active_test",
        lambda *_: lambda *_: False,
        OneOwnerAtATime(),
        "partition 1 belongs to member-1 and member-2",
    ),
    "a session does not look at a partition with news": Broken(
        built_in()["fetch-session"],
        fetch_session,
        "log_changed",
        lambda *_: [],
        SessionsHideNothing(),
        "c does not receive record 0 of orders-0, which was acknowledged before the fetch",
    ),
    "a record is archived one delivery too late": Broken(
        built_in()["share-group"],
        InFlightState,
        "transition",
        delivers_once_more,
        DeliveredAndCounted("work", 2),
        "record 0 of partition 0 was delivered 3 times",
    ),
    "a released record is archived": Broken(
        built_in()["share-group"],
        InFlightState,
        "transition",
        archives_released,
        DeliveredAndCounted("work", 2),
        "work does not deliver record 0 of input-0 again: it was delivered 1 times,"
        " and not accepted",
    ),
    "a record that a member holds is acquired again": Broken(
        built_in()["share-rivals"],
        InFlightState,
        "is_free",
        property(lambda record: record.state <= RecordState.ACQUIRED),
        HeldByOne(),
        "record 2 is delivered to sharer-1 and sharer-2",
    ),
    "an accepted record is available again": Broken(
        built_in()["share-rivals"],
        InFlightState,
        "transition",
        accepts_nothing,
        HeldByOne(),
        "record 1 is delivered to sharer-2 after it has ended",
    ),
    "a coordinator does not compare epochs": Broken(
        built_in()["two-producers-v1"],
        transactions,
        "holder_error",
        lambda *_: Error.NONE,
        FencedWritesNothing(),
        "AddPartitionsToTxn of producer-a is acknowledged, although it is fenced",
    ),
}


def violation(model: Model, invariant: Invariant) -> str:
    model = msgspec.structs.replace(model, invariants=(invariant,))
    return Search(model, Options(states=STATES_MAX)).run().violation


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_violates_its_invariant(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BROKEN[case]
    monkeypatch.setattr(broken.owner, broken.name, broken.rule)

    actual = violation(broken.model, broken.invariant)

    assert actual == f"{broken.invariant.name}: {broken.text}"


def test_a_member_of_a_former_generation_commits_if_zookeeper_stores_offsets() -> None:
    actual = violation(groups.eager(True), FencedWritesNothing())

    text = "OffsetCommit 1 input-0 generation 1 of a is acknowledged, although it is fenced"
    assert actual == f"FencedWritesNothing: {text}"


class OffsetDeleter(Client):
    name = "admin"
    start = 0

    def sends(self, state: int) -> list[Send]:
        topics = [{"name": "input", "partitions": [{"partitionIndex": 0}]}]
        body = {"groupId": "work", "topics": topics}
        return [Send(api="OFFSET_DELETE", version=0, body=body)] if not state else []

    def receives(self, _state: int, _send: Send, _response: Any) -> int:
        return 1


def test_a_deleted_offset_may_be_committed_again_from_the_start() -> None:
    model = Model(
        name="deleted",
        about="",
        clients=(GroupWorker("worker"), OffsetDeleter()),
        cluster=Cluster(topics={"input": 1}, groups=("work",)),
        faults=Faults(waits=1),
        invariants=(OffsetsGoForward(),),
    )

    result = Search(model, Options()).run()

    assert result.violation == ""
    assert result.applied["OffsetDeleted", False]
