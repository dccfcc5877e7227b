"""Another coordinator: pending requests resume, members and open transactions continue."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokertwin.state.groups import groups
from tests.support.consumer_groups import ConsumerBench
from tests.support.groups import GROUP, GroupBench, check_groups
from tests.support.machine import Bench
from tests.support.streams_groups import COUNTING, StreamsBench
from tests.support.transactions import TransactionBench

BROKERS = (1, 2)


class MovingBench(GroupBench):
    """Two brokers; requests of the group go to `coordinator`."""

    def __init__(self, **settings: Any) -> None:
        self.coordinator = 1
        super().__init__(brokers=BROKERS, **settings)
        self.settings.may_intervene = True
        self.coordinator = leader_of(self, GROUP_TOPIC)

    def send(self, api: str | int, version: int, body: Any = None, **event: Any) -> str:
        return super().send(api, version, body, **{"broker": self.coordinator, **event})

    def move(self) -> None:
        """Gives the group to the other broker; its requests go there."""
        move(self, GROUP_TOPIC, 0, 3 - self.coordinator)
        self.coordinator = 3 - self.coordinator

    def stable_member(self) -> str:
        """The only member of a stable group in generation 1."""
        member, _ = self.new_member()
        self.after(3000)
        self.sync(member, 1, {member: "BBBB"})
        assert self.heartbeat(member, 1) == 0
        return member


def leader_of(bench: Bench, topic: str, partition: int = 0) -> int:
    response = bench.request("METADATA", 12, name=topic, broker=1)
    return int(response["topics"][0]["partitions"][partition]["leaderId"])


def move(bench: Bench, topic: str, partition: int, leader: int) -> None:
    wanted = {"topic": topic, "partition": partition, "leader": leader}
    event = {"id": f"move-{len(bench.rows)}", "cluster": "bench", "kind": "move-leader"}
    bench.handle({**event, "time": bench.now, "move": wanted})
    assert bench.dead_letters(bench.last) == []


@pytest.fixture
def bench() -> MovingBench:
    return MovingBench()


def test_stable_group_continues_at_its_new_coordinator(bench: MovingBench) -> None:
    member = bench.stable_member()
    bench.move()
    assert bench.state() == "Stable"
    assert bench.heartbeat(member, 1) == 0
    assert bench.commit(member, 1) == 0
    old = 3 - bench.coordinator
    body = {"groupId": GROUP, "generationId": 1, "memberId": member}
    refused = bench.request("HEARTBEAT", 4, body, broker=old)
    assert refused["errorCode"] == Error.NOT_COORDINATOR


def test_only_the_new_coordinator_has_a_group_and_its_timers(bench: MovingBench) -> None:
    bench.stable_member()
    bench.new_member(client="b")
    assert bench.response(bench.join(client="c"))["errorCode"] == 79
    old = bench.coordinator
    bench.move()
    tables = bench.cell.tables
    for broker in BROKERS:
        check_groups(tables, broker)
    assert groups.live_ids(tables.of(old)) == groups.stored_ids(tables.of(old)) == []
    assert groups.live_ids(tables.of(bench.coordinator)) == [GROUP]


def test_member_without_heartbeats_expires_after_the_move(bench: MovingBench) -> None:
    member = bench.stable_member()
    bench.after(44_000)
    bench.move()
    bench.after(44_000)
    assert bench.state() == "Stable", "its time-out begins anew"
    bench.after(1000)
    assert bench.state() == "Empty"
    assert bench.heartbeat(member, 1) == Error.UNKNOWN_MEMBER_ID


def test_streams_group_continues_without_volatile_state() -> None:
    bench = StreamsBench(brokers=BROKERS)
    bench.settings.may_intervene = True
    old = leader_of(bench, GROUP_TOPIC)
    bench.join("a", COUNTING, broker=old)
    bench.later("a", 2, broker=old, shutdownApplication=True)
    move(bench, GROUP_TOPIC, 0, 3 - old)
    assert not bench.cell.tables.live_groups.keys(f"{old}/live-streams/")
    response = bench.beat("a", 3, broker=3 - old)
    assert (response["memberEpoch"], response["status"]) == (3, []), "nobody is to shut down"
    bench.tick(45_000)
    assert not groups.find(bench.cell.tables.of(3 - old), GROUP).members


def test_pending_joins_get_not_coordinator(bench: MovingBench) -> None:
    member, join = bench.new_member()
    assert bench.waits(join)
    bench.move()
    assert bench.response(join)["errorCode"] == Error.NOT_COORDINATOR
    assert bench.response(join)["memberId"] == member
    assert bench.after(60_000).dead_letters() == []


def test_pending_syncs_get_not_coordinator(bench: MovingBench) -> None:
    (_, first), (_, second) = bench.new_member(), bench.new_member()
    bench.after(6000)
    follower = next(a for a in map(bench.response, (first, second)) if a["leader"] != a["memberId"])
    sync = bench.sync(follower["memberId"], 1)
    assert bench.waits(sync)
    bench.move()
    assert bench.response(sync)["errorCode"] == Error.NOT_COORDINATOR
    assert bench.heartbeat(follower["memberId"], 1) == Error.UNKNOWN_MEMBER_ID, "never written"


def test_returned_group_is_as_last_written(bench: MovingBench) -> None:
    member = bench.stable_member()
    bench.move()
    bench.move()
    assert bench.heartbeat(member, 1) == 0
    assert bench.leave(member) == [0]
    bench.move()
    assert bench.state() == "Empty"


def test_expired_members_are_unknown(bench: MovingBench) -> None:
    member = bench.stable_member()
    event = {"id": "expire", "cluster": "bench", "kind": "expire-members", "time": bench.now}
    bench.handle({**event, "broker": bench.coordinator, "group": GROUP, "members": [member]})
    assert bench.dead_letters() == []
    assert bench.state() == "Empty"
    assert bench.heartbeat(member, 1) == Error.UNKNOWN_MEMBER_ID


def test_open_transaction_ends_at_its_new_coordinator() -> None:
    bench = TransactionBench(brokers=BROKERS)
    bench.settings.may_intervene = True
    name = next(
        name
        for name in map(str, range(100))
        if leader_of(bench, TRANSACTION_TOPIC, partition_for(name, 50)) == 1
    )
    holder = bench.init(name, timeout_ms=60_000)
    assert bench.add(name, holder, a=[0]) == {"a": [0]}
    move(bench, TRANSACTION_TOPIC, partition_for(name, 50), 2)
    assert described(bench, name, broker=1) == (Error.NOT_COORDINATOR, "")
    assert described(bench, name, broker=2) == (0, "Ongoing")
    bench.tick(59_000)
    assert described(bench, name, broker=2) == (0, "Ongoing")
    bench.tick(20_000)
    assert described(bench, name, broker=2) == (0, "CompleteAbort")
    assert bench.dead_letters() == []


def described(bench: Bench, name: str, broker: int) -> tuple[int, str]:
    response = bench.request("DESCRIBE_TRANSACTIONS", 0, transactionalIds=[name], broker=broker)
    (state,) = response["transactionStates"]
    return state["errorCode"], state["transactionState"]


def test_consumer_group_continues_at_its_new_coordinator() -> None:
    bench = ConsumerBench(brokers=BROKERS)
    bench.settings.may_intervene = True
    former = leader_of(bench, GROUP_TOPIC)
    assert bench.join("a", broker=former)["memberEpoch"] == 2
    bench.tick(40_000)
    move(bench, GROUP_TOPIC, 0, 3 - former)
    assert bench.beat("a", 2, broker=former)["errorCode"] == Error.NOT_COORDINATOR
    timers = bench.cell.tables.pending.keys("timer/group/")
    assert timers == [f"timer/group/{3 - former}/{GROUP}/session/a"]
    bench.tick(44_999)
    assert bench.beat("a", 2, broker=3 - former)["errorCode"] == 0, "its session began anew"
    bench.tick(45_000)
    assert bench.beat("a", 2, broker=3 - former)["errorCode"] == Error.UNKNOWN_MEMBER_ID
