"""Items and timers of a group: creation, consistency, deletion."""

import random
from collections.abc import Callable

import msgspec
import pytest

from brokertwin.protocol.generated.group_rows import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from brokertwin.state.cell.apply import apply
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.tables import columns_of_tables
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from tests.support.groups import GROUP, RANGE, GroupBench, check_groups

STICKY = [("sticky", "BBBB")]
WISHES = [RANGE, STICKY, [*RANGE, *STICKY], [*STICKY, *RANGE]]


class Crowd:
    """Clients that join, sync, stop, leave and delete the group at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bench = GroupBench(group_max_size=4)
        self.names = ["nobody"]
        self.acts: list[Callable[[], object]] = [
            self.come,
            self.come,
            self.come_again,
            self.come_again,
            self.sync,
            self.sync,
            self.sync,
            self.show_life,
            self.leave,
            self.wait,
            self.delete,
        ]

    def act(self) -> None:
        self.chance.choice(self.acts)()

    def group(self) -> ClassicGroup:
        return groups.find_live(self.bench.cell.tables.of(1), GROUP) or ClassicGroup(GROUP)

    def member(self) -> str:
        group = self.group()
        return self.chance.choice([*group.members, *group.pending, *self.names])

    def come(self) -> None:
        instance = self.chance.choice([None, None, "i", "j"])
        version = self.chance.choice([5, 9])
        protocols = self.chance.choice(WISHES)
        timeout = self.chance.choice([6_000, 20_000])
        self.bench.join("", protocols, version, instance, session=timeout, rebalance=timeout)

    def come_again(self) -> None:
        member = self.group().members.get(name := self.member())
        instance = member.group_instance_id if member is not None else None
        self.names = [*self.names[-3:], name]
        self.bench.join(name, self.chance.choice(WISHES), instance=instance)

    def sync(self) -> None:
        group = self.group()
        member = self.chance.choice([group.leader_id or "", *group.pending_sync])
        body = {"groupId": GROUP, "generationId": group.generation_id, "memberId": member}
        self.bench.send("SYNC_GROUP", 4, {**body, "assignments": []})

    def show_life(self) -> None:
        self.bench.heartbeat(self.member(), self.group().generation_id)

    def leave(self) -> None:
        self.bench.leave(self.member(), self.member())

    def wait(self) -> None:
        self.bench.after(self.chance.choice([1, 1_000, 3_000, 10_000, 30_000]))

    def delete(self) -> None:
        self.bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])


@pytest.mark.parametrize("seed", range(8))
def test_timers_and_counts_match_the_members(seed: int) -> None:
    crowd = Crowd(seed)
    states = set()
    for _ in range(400):
        crowd.act()
        check_groups(crowd.bench.cell.tables)
        states.add(crowd.group().state)
    assert crowd.bench.dead_letters() == []
    responses = [response["response"] for response in crowd.bench.responses.values()]
    assert {response.get("errorCode") for response in responses} >= {0, 23, 25, 27, 79, 82}
    assert len(states) == 4, states


def test_dropping_a_group_removes_all_its_items_and_no_others() -> None:
    bench = GroupBench()
    tables = bench.cell.tables
    member = MemberMetadata("m", None, "c", "/h", 60_000, 45_000)
    metadata = GroupMetadataValue("consumer", 1, "range", "m", bench.now, [member])
    before = {name: set(tables[name].keys("")) for name in ("groups", "live_groups", "pending")}
    for group_id in ("a", "a/b"):
        apply(tables.of(1), GroupRecord(GroupMetadataKey(group_id), metadata))
    body = {"generationId": 1, "memberId": "m"}
    for group_id in ("a", "a/b"):
        assert bench.request("HEARTBEAT", 4, body, groupId=group_id)["errorCode"] == 0
    apply(tables.of(1), GroupRecord(GroupMetadataKey("a")))
    check_groups_of(bench, ["a/b"])
    apply(tables.of(1), GroupRecord(GroupMetadataKey("a/b")))
    assert {name: set(tables[name].keys("")) for name in before} == before


def check_groups_of(bench: GroupBench, expected: list[str]) -> None:
    at = bench.cell.tables.of(1)
    assert groups.live_ids(at) == groups.stored_ids(at) == expected
    timers = at.tables.pending.keys("timer/group/")
    assert timers == ["timer/group/1/a%2Fb/heartbeat/m"]


def test_group_restored_from_records_becomes_live_with_all_timers() -> None:
    bench = GroupBench()
    members = [MemberMetadata(name, None, "c", "/h", 60_000, 45_000) for name in ("m", "n")]
    metadata = GroupMetadataValue("consumer", 1, "range", "m", bench.now, members)
    apply(bench.cell.tables.of(1), GroupRecord(GroupMetadataKey(GROUP), metadata))
    assert bench.heartbeat("m", 1) == 0
    check_groups(bench.cell.tables)
    assert bench.after(44_999).state() == "Stable"
    assert bench.heartbeat("m", 1) == 0
    assert bench.after(1).heartbeat("m", 1) == 27


def test_tag_of_an_item_is_the_kind_of_its_group() -> None:
    bench = GroupBench()
    bench.stable("a")
    stored = msgspec.msgpack.decode(columns_of_tables(bench.cell.columns())["live_groups"])
    assert stored[f"1/live-group/{GROUP}"]["type"] == "classic"


@pytest.mark.parametrize("members", [3, 30])
def test_heartbeat_writes_one_timer_in_a_group_of_any_size(members: int) -> None:
    bench = GroupBench()
    names = bench.stable(*[f"c{at}" for at in range(members)])
    bench.after(1).cell.commit()
    bench.heartbeat(names[0], 1)
    tables = bench.cell.tables
    assert list(tables.pending.encode_changes()) == [f"timer/group/1/{GROUP}/heartbeat/{names[0]}"]
    assert not tables.live_groups.has_changes()
    assert not tables.groups.has_changes()
