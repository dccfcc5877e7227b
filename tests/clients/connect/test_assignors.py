"""Assignments that the leader of a Connect group computes."""

import pytest

from brokertwin.clients.connect.connect_protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocol,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from brokertwin.clients.connect.cooperative_assignor import ClusterAssignment, CooperativeAssignor
from brokertwin.clients.connect.leader import ConnectLeader, KnownConfigs, assign_eagerly
from brokertwin.clients.connect.work import ConnectTaskId

TWO_AND_TWO = KnownConfigs(0, {"sink": 2, "source": 2}).work


def named(items: list[ConnectTaskId]) -> list[str]:
    return [str(item) for item in items]


def eagerly(*members: str) -> dict[str, list[str]]:
    return {m: named(items) for m, items in assign_eagerly(TWO_AND_TWO, members).items()}


def test_example_1_one_circle_over_connectors_and_then_tasks() -> None:
    """Example 21 of groups and offsets, too."""
    assert eagerly("w1", "w2") == {
        "w1": ["sink", "sink-0", "source-0"],
        "w2": ["source", "sink-1", "source-1"],
    }
    assert eagerly("w3", "w1", "w2") == {
        "w1": ["sink", "sink-1"],
        "w2": ["source", "source-0"],
        "w3": ["sink-0", "source-1"],
    }
    assert eagerly("w1") == {"w1": named(TWO_AND_TWO)}


class Group:
    """Workers that apply the leader's assignments and rejoin on request."""

    def __init__(self, max_delay_ms: int = 60_000) -> None:
        self.assignor = CooperativeAssignor(max_delay_ms)
        self.now, self.generation = 0, 0
        self.running: dict[str, list[ConnectTaskId]] = {}
        self.work = TWO_AND_TWO

    def rebalance(self, now: int) -> ClusterAssignment:
        self.generation += 1
        assignment = self.assignor.assign(
            now,
            self.work,
            self.running,
            generation=self.generation,
            last_completed=self.generation - 1 if self.generation > 1 else -1,
        )
        for name, items in self.running.items():
            kept = [item for item in items if item not in assignment.revoked[name]]
            self.running[name] = kept + assignment.assigned[name]
        return assignment

    def sizes(self) -> dict[str, tuple[int, int]]:
        return {
            name: (sum(i.is_connector for i in items), sum(not i.is_connector for i in items))
            for name, items in self.running.items()
        }


def test_example_2_a_worker_comes_and_gets_its_share_in_two_rebalances() -> None:
    group = Group()
    group.running = {"w1": []}
    group.rebalance(0)
    assert group.sizes() == {"w1": (2, 4)}
    group.running["w2"] = []
    first = group.rebalance(100)
    assert named(first.revoked["w1"]) == ["sink", "sink-0", "sink-1"]
    assert first.assigned == {"w1": [], "w2": []}
    second = group.rebalance(200)
    assert named(second.assigned["w2"]) == ["sink", "sink-0", "sink-1"]
    assert second.revoked == {"w1": [], "w2": []}
    assert group.sizes() == {"w1": (1, 2), "w2": (1, 2)}


def two_workers() -> Group:
    group = Group()
    group.running = {"w1": [], "w2": []}
    group.rebalance(0)
    assert group.sizes() == {"w1": (1, 2), "w2": (1, 2)}
    return group


def test_example_3_a_lost_workers_tasks_move_after_the_delay() -> None:
    group = two_workers()
    lost = group.running.pop("w2")
    found = group.rebalance(1_000)
    assert (found.delay_ms, group.sizes()) == (60_000, {"w1": (1, 2)})
    found = group.rebalance(31_000)
    assert found.delay_ms == 30_000
    found = group.rebalance(61_000)
    assert (found.delay_ms, sorted(found.assigned["w1"])) == (0, sorted(lost))


def test_example_4_a_worker_back_in_time_gets_its_tasks() -> None:
    group = two_workers()
    lost = group.running.pop("w2")
    group.rebalance(1_000)
    group.running["w2-again"] = []
    assert group.rebalance(2_000).assigned["w2-again"] == []
    found = group.rebalance(61_000)
    assert sorted(found.assigned["w2-again"]) == sorted(lost)
    assert found.assigned["w1"] == []


def test_example_5_a_deleted_connector_is_revoked_at_once() -> None:
    group = two_workers()
    group.work = KnownConfigs(0, {"source": 2}).work
    found = group.rebalance(100)
    taken = {item for items in found.revoked.values() for item in items}
    assert taken == {ConnectTaskId("sink"), ConnectTaskId("sink", 0), ConnectTaskId("sink", 1)}


def test_example_6_duplicate_tasks_are_revoked_from_both() -> None:
    group = two_workers()
    first = group.running["w1"][0]
    group.running["w2"].append(first)
    found = group.rebalance(100)
    assert first in found.revoked["w1"]
    assert first in found.revoked["w2"]
    again = group.rebalance(200)
    assert sum(first in items for items in again.assigned.values()) == 1


@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_example_7_a_lagging_leader_assigns_nothing(protocol: ConnectProtocol) -> None:
    fields = {
        "w1": encode_state(WorkerState("http://w1", 4), protocol),
        "w2": encode_state(WorkerState("http://w2", 7), protocol),
    }
    known = KnownConfigs(4, {"sink": 1})
    given = ConnectLeader().assign(0, protocol, "w1", fields, known, generation=1)
    for data in given.values():
        got = decode_assignment(data)
        assert got.error == AssignmentError.CONFIG_MISMATCH
        assert (got.config_offset, got.leader_url, got.assigned) == (7, "http://w1", ())
    given = ConnectLeader().assign(
        0, protocol, "w1", fields, KnownConfigs(9, {"sink": 1}), generation=1
    )
    assert {decode_assignment(data).config_offset for data in given.values()} == {9}


def test_example_8_the_bytes() -> None:
    state = WorkerState("http://w1", 5)
    assert encode_state(state, ConnectProtocol.EAGER).hex() == (
        "0000" "0009" + b"http://w1".hex() + "0000000000000005"
    )  # fmt: skip
    assert encode_state(state, ConnectProtocol.SESSIONED).hex() == (
        "0002" "0009" + b"http://w1".hex() + "0000000000000005" "ffffffff"
    )  # fmt: skip
    assignment = Assignment(
        leader="w1",
        leader_url="u",
        config_offset=5,
        assigned=(ConnectTaskId("sink"), ConnectTaskId("sink", 1)),
        revoked=(ConnectTaskId("x", 0),),
        delay_ms=9,
    )
    items = "000000010004" + b"sink".hex() + "00000002ffffffff00000001"
    revoked = "000000010001" + b"x".hex() + "0000000100000000"
    head = "00000002" + b"w1".hex() + "0001" + b"u".hex() + "0000000000000005"
    assert encode_assignment(assignment, ConnectProtocol.EAGER).hex() == "0000" + head + items
    compatible = "0001" + head + items + revoked + "00000009"
    assert encode_assignment(assignment, ConnectProtocol.COMPATIBLE).hex() == compatible


def test_encoded_assignments_and_states_are_decoded() -> None:
    for protocol in ConnectProtocol:
        assignment = Assignment(
            version=protocol.version, leader="w", leader_url="u", assigned=tuple(TWO_AND_TWO)
        )
        assert decode_assignment(encode_assignment(assignment, protocol)) == assignment
        inner = None if protocol is ConnectProtocol.EAGER else assignment
        state = WorkerState("u", 3, inner)
        assert decode_state(encode_state(state, protocol)) == state


def test_a_worker_lists_its_preferred_protocol_first() -> None:
    assert ConnectProtocol.SESSIONED.supported == ["sessioned", "compatible", "default"]
    assert ConnectProtocol.EAGER.supported == ["default"]
