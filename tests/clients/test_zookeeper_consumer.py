"""The ZooKeeper consumer, compared with the group protocol."""

import runpy
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.consumer_events import CommitFailed, PartitionsLost
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.zookeeper_consumer import ConsumerThread, ranges
from brokertwin.simulation.zookeeper import SESSION_MS, Zoo
from tests.support.bench_network import World
from tests.support.examples import examples
from tests.support.sources import ROOT

TOPIC = "orders"
A, B = ConsumerThread("a", 0), ConsumerThread("b", 0)
SETTLED_MS = 12_000


def spread(zoo: Zoo) -> dict[str, list[int]]:
    return {
        name: sorted(at.partition for at in consumer.owned)
        for name, consumer in zoo.consumers.items()
    }


def test_example_33_each_consumer_computes_range_itself() -> None:
    zoo = Zoo(orders=4)
    zoo.consumer("a", orders=1)
    zoo.run(1_000)
    assert spread(zoo) == {"a": [0, 1, 2, 3]}
    zoo.consumer("b", orders=2)
    zoo.run(5_000)
    assert spread(zoo) == {"a": [0, 1], "b": [2, 3]}
    assert zoo.owners() == {
        "orders/0": "a-0",
        "orders/1": "a-0",
        "orders/2": "b-0",
        "orders/3": "b-1",
    }
    zoo.leave("a")
    zoo.run(5_000)
    assert spread(zoo) == {"b": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("partitions", "threads", "expected"),
    [
        (4, [A, B], {A: [0, 1], B: [2, 3]}),
        (5, [B, A], {A: [0, 1, 2], B: [3, 4]}),
        (1, [A, B], {A: [0], B: []}),
    ],
)
def test_the_first_threads_get_one_more(
    partitions: int, threads: list[ConsumerThread], expected: dict[ConsumerThread, list[int]]
) -> None:
    assert ranges(threads, partitions) == expected


def cost_of_a_join(members: int) -> tuple[int, int]:
    """Return rebalances and operations that a join causes in a group of `members`."""
    zoo = Zoo(orders=members + 1)
    for number in range(members):
        zoo.consumer(f"c{number:02}", orders=1)
    zoo.run(SETTLED_MS + 1_000 * members)
    assert sorted(at for found in spread(zoo).values() for at in found) == list(range(members + 1))
    rebalances = sum(each.rebalances for each in zoo.consumers.values())
    operations = sum(zoo.handled.values())
    zoo.consumer("z", orders=1)
    zoo.run(SETTLED_MS)
    assert all(spread(zoo).values())
    now = sum(each.rebalances for each in zoo.consumers.values())
    return now - rebalances, sum(zoo.handled.values()) - operations


def test_example_34_each_join_makes_all_consumers_read_all_others() -> None:
    few, many = cost_of_a_join(4), cost_of_a_join(16)
    assert (few[0], many[0]) >= (5, 17)
    assert (few[1], many[1]) == (70, 478)


def requests_of_a_join(members: int) -> int:
    """JoinGroups and SyncGroups that one more member costs, by the group protocol."""
    made = World((1,))
    made.bench.topic(TOPIC, members + 1)
    config = {"assignors": (AssignorName.RANGE,), "heartbeat_interval_ms": 500}
    group = [made.consumer("billing", TOPIC, **config) for _ in range(members)]
    made.run(5_000)

    def requested() -> int:
        return sum(
            n.requested["JOIN_GROUP"] + n.requested["SYNC_GROUP"] for n in made.networks.values()
        )

    before = requested()
    made.consumer("billing", TOPIC, **config)
    made.run(5_000)
    assert all(len(member.subscription.assigned) == 1 for member in group)
    return requested() - before


def test_example_34_with_the_group_protocol_a_join_takes_two_requests_per_member() -> None:
    assert requests_of_a_join(4) == 2 * 5 + 1  # the new one is first told its id (79)
    assert requests_of_a_join(16) == 2 * 17 + 1


def test_example_35_a_paused_consumer_overwrites_the_new_owners_offset() -> None:
    zoo = Zoo(orders=2)
    a = zoo.consumer("a", orders=1)
    b = zoo.consumer("b", orders=1)
    zoo.run(5_000)
    at = TopicPartition(TOPIC, 0)
    assert spread(zoo) == {"a": [0], "b": [1]}
    a.commit(at, 10)
    zoo.run(100)
    zoo.paused.add("a")
    zoo.run(SESSION_MS + 3_000)
    assert zoo.owners() == {"orders/0": "b-0", "orders/1": "b-0"}
    b.commit(at, 50)
    zoo.run(100)
    assert at in a.owned and at in b.owned
    ((first, second),) = [pair for pair in zoo.timeline.twice() if pair[0].item == "orders-0"]
    assert (first.member, second.member) == ("a", "b")
    a.commit(at, 11)  # # commits its progress before it handles the rebalance
    zoo.paused.clear()
    for operation in a.take(zoo.now):
        zoo._handle("a", operation)
    assert zoo.went_back == [at]


def test_example_35_with_the_group_protocol_its_commit_is_rejected() -> None:
    made = World((1,))
    made.bench.topic(TOPIC, 2)
    config = {
        "assignors": (AssignorName.RANGE,),
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 1_000,
        "enable_auto_commit": False,
    }
    members = [made.consumer("billing", TOPIC, **config) for _ in range(2)]
    made.run(5_000)
    paused, other = members
    (at,) = paused.subscription.assigned
    made.remove(paused)
    made.run(SESSION_MS + 10_000)
    assert at in other.subscription.assigned
    other.coordinator.commit(made.now, {at: 50}, is_sync=False)
    made.run(500)
    made.back(paused)
    paused.coordinator.commit(made.now, {at: 11}, is_sync=False)
    made.run(2_000)
    kinds = [type(event) for event in paused.events()]
    assert CommitFailed in kinds
    assert PartitionsLost in kinds
    group = {"groupId": "billing", "topics": [{"name": TOPIC, "partitionIndexes": [at.partition]}]}
    response = made.bench.request("OFFSET_FETCH", 9, {"groups": [group]})
    assert response["groups"][0]["topics"][0]["partitions"][0]["committedOffset"] == 50


STEPS = st.lists(st.tuples(st.sampled_from("jlpw"), st.integers(0, 5)), min_size=4, max_size=16)


@settings(max_examples=examples(6))
@given(STEPS, st.integers(0, 1_000))
def test_each_partition_ends_with_one_owner(steps: list[tuple[str, int]], seed: int) -> None:
    zoo = Zoo(seed, orders=5)
    for number, (step, which) in enumerate([("j", 0), *steps]):
        if step == "j" and len(zoo.consumers) < 4:
            zoo.consumer(f"c{number}", orders=1)
        elif step == "l" and len(zoo.consumers) > 1:
            zoo.leave(sorted(zoo.consumers)[which % len(zoo.consumers)])
        elif step == "p" and zoo.consumers:
            zoo.paused ^= {sorted(zoo.consumers)[which % len(zoo.consumers)]}
        zoo.run((100, 500, 3_000, 7_000)[which % 4])
        assert zoo.strangers() == []
    zoo.paused.clear()
    zoo.run(2 * SETTLED_MS)
    assert sorted(at for found in spread(zoo).values() for at in found) == list(range(5))
    assert {path.partition("/")[2] for path in zoo.owners()} == {str(each) for each in range(5)}


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["before_groups.py", *words])
    runpy.run_path(str(ROOT / "examples" / "before_groups.py"), run_name="__main__")
    return capsys.readouterr().out


def test_the_example_shows_concurrent_readers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = shown(capsys, monkeypatch)
    assert "orders-0  AAAA" in printed and "#" in printed
    assert printed.endswith("read by two at once: orders-0, orders-1\n")


def test_the_examples_command_has_consumers_with_several_threads_of_which_one_stops(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--partitions", "6", "--threads", "2", "--stop", "b", "--pause", "")
    printed = shown(capsys, monkeypatch, *words)
    owners = [line.rpartition(" ")[2] for line in printed.splitlines() if "is owned by" in line]
    assert owners == ["a-0", "a-0", "a-1", "a-1", "c-0", "c-1"]
    assert printed.endswith("read by two at once: none\n")
