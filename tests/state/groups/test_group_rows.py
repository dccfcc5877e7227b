"""Group rows of `offsets.<cluster>`, read by Kafka's classes and ours."""

import re
from typing import Any

import pytest

from brokertwin.offsets.history import OffsetHistory
from brokertwin.state.core.outputs import offsets_topic
from brokertwin.state.groups import group_records, group_rows
from brokertwin.state.groups.consumer_group import ConsumerMember
from brokertwin.state.groups.consumer_group_records import member_metadata
from brokertwin.state.groups.group_records import (
    AssignmentRow,
    ClassicRow,
    EpochRow,
    GroupRowMember,
    MemberRow,
    OffsetRow,
    OtherRow,
)
from tests.support.consumer_groups import GROUP, ConsumerBench
from tests.support.goldens import golden
from tests.support.group_rows import Read, Row, read_by_kafka
from tests.support.machine import CLUSTER, Bench
from tests.support.mixed_groups import Classic, classic_group
from tests.support.offset_rows import classic_row, offset_row, written
from tests.support.share_groups import ShareBench
from tests.support.streams_groups import (
    COUNTING,
    REPARTITION,
    StreamsBench,
    internal,
    part,
)
from tests.support.streams_groups import GROUP as STREAMS_GROUP

WORD = re.compile("(?=[A-Z])")
"""Start of another word in a field name."""


def rows_of(bench: Bench) -> list[Row]:
    rows = [row for row in bench.rows if row.topic == offsets_topic(CLUSTER)]
    return [(row.key, row.value) for row in rows if row.key is not None]


def left(bench: Bench) -> dict[bytes, bytes]:
    newest = dict(rows_of(bench))
    return {key: value for key, value in newest.items() if value is not None}


def life() -> ConsumerBench:
    """Run a group with all kinds of members and records until its deletion."""
    bench = ConsumerBench()
    fields: dict[str, Any] = {
        "rackId": "r",
        "serverAssignor": "range",
        "subscribedTopicRegex": "b.*",
    }
    bench.join("a", "foo", instanceId="i", **fields)
    bench.tick(1_000)
    bench.beat("a", 2)
    bench.commit("a", 2)
    classic = Classic(bench)
    assert [classic.join(), classic.join(), classic.sync()] == [79, 0, 0]
    bench.tick(1_000)
    bench.beat("a", 3)
    bench.beat("a", -2, instanceId="i")
    bench.beat("a", -1, instanceId="i")
    bench.tick(60_000)
    assert bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])["results"][0]["errorCode"] == 0
    return bench


def test_classic_group_is_decoded_with_its_members_partitions() -> None:
    bench = ConsumerBench()
    member = Classic(bench)
    classic_group(bench, member)
    (decoded,) = (group_records.decode(*row) for row in left(bench).items())
    assert isinstance(decoded, ClassicRow)
    assert (decoded.group, decoded.generation) == (GROUP, 1)
    assert [each.owned for each in decoded.members] == [
        frozenset(("foo", number) for number in range(6))
    ]


def test_consumer_group_is_decoded_with_epoch_and_assignments() -> None:
    bench = ConsumerBench()
    bench.join("a", instanceId="i")
    bench.commit("a", 2)
    decoded = [group_records.decode(key, value) for key, value in left(bench).items()]
    found = {type(each): each for each in decoded}
    assert found[EpochRow] == EpochRow(GROUP, 2)
    assert isinstance(found[MemberRow], MemberRow)
    assert found[MemberRow].member is not None
    assert found[MemberRow].member.instance_id == "i"
    owned = frozenset((bench.ids["foo"], number) for number in range(6))
    assert found[AssignmentRow] == AssignmentRow(GROUP, "a", 2, owned)
    assert isinstance(found[OffsetRow], OffsetRow)
    others = sorted(each.kind for each in decoded if isinstance(each, OtherRow))
    assert others == [6, 7], "the target assignment"


def test_non_classic_member_as_written_by_kafka_4_3_1() -> None:
    """Without the null structure, Kafka would read a classic member."""
    member = ConsumerMember(
        "m1",
        rebalance_timeout_ms=60_000,
        client_id="tester",
        client_host="/127.0.0.1",
        subscribed_topic_names=["trodden"],
    )
    row = group_rows.encode(member_metadata("g", member))
    written = "0000 00 00 07746573746572 0b2f3132372e302e302e31 02 0874726f6464656e 01 0000ea60 00"
    assert row == (b"\0\x05\0\1g\0\2m1", bytes.fromhex(written + "01 00 01 00"))


def streams_life() -> StreamsBench:
    """Run a streams group with all kinds of topics until its deletion."""
    bench = StreamsBench(given={"group.streams.num.standby.replicas": "1"})
    runs = COUNTING | {"subtopologies": [*COUNTING["subtopologies"], JOINED]}
    fields = {"rackId": "r", "userEndpoint": {"host": "h", "port": 40_000}}
    tags = [{"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"}]
    bench.join("a", runs, **fields, clientTags=tags)
    bench.later("a", 2)
    bench.now += 1_000
    bench.join("b", runs)
    bench.beat("a", 3)
    for name in ("a", "b"):
        bench.beat(name, -1)
    deleted = bench.request("DELETE_GROUPS", 2, groupsNames=[STREAMS_GROUP])
    assert deleted["results"][0]["errorCode"] == 0
    return bench


JOINED = part(
    "2",
    "foo",
    repartitionSourceTopics=[internal("g-fixed-repartition", 4)],
    copartitionGroups=[
        {"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": [0]}
    ],
)


def share_life() -> ShareBench:
    """Run a share group with states until its deletion."""
    bench = ShareBench()
    bench.beat("a", 0, "bar", "foo", rack="r")
    assert set(bench.reported(bench.later("a", 2))) == {"bar", "foo"}
    bench.beat("a", -1)
    forgotten = {"groupId": GROUP, "topics": [{"topicName": "bar"}]}
    assert bench.request("DELETE_SHARE_GROUP_OFFSETS", 0, forgotten)["errorCode"] == 0
    deleted = bench.request("DELETE_GROUPS", 2, groupsNames=[GROUP])
    assert deleted["results"][0]["errorCode"] == 0
    return bench


def test_share_group_is_decoded() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "bar", rack="r")
    bench.later("a", 2)
    decoded = [group_records.decode(key, value) for key, value in left(bench).items()]
    owned = frozenset((bench.ids["bar"], number) for number in range(2))
    assert {EpochRow(GROUP, 3), AssignmentRow(GROUP, "a", 3, owned)} <= set(decoded)
    (member,) = (each.member for each in decoded if isinstance(each, MemberRow))
    assert member == GroupRowMember("a", None, "bench", "/", frozenset())
    assert sorted(each.kind for each in decoded if isinstance(each, OtherRow)) == [12, 13, 15]


@pytest.mark.parametrize("topic", ["foo", REPARTITION])
def test_history_shows_which_streams_member_has_moved_an_offset(topic: str) -> None:
    """The member has tasks; the topology has their topics."""
    bench = StreamsBench()
    bench.join("a", COUNTING)
    bench.later("a", 2)
    epoch = bench.later("a", 3)["memberEpoch"]
    bench.join("b", COUNTING)
    body = {"groupId": STREAMS_GROUP, "generationIdOrMemberEpoch": epoch, "memberId": "a"}
    offset = {"partitionIndex": 1, "committedOffset": 5, "committedLeaderEpoch": -1}
    body |= {"topics": [{"name": topic, "partitions": [{**offset, "committedMetadata": ""}]}]}
    response = bench.request("OFFSET_COMMIT", 9, body)
    assert response["topics"][0]["partitions"][0]["errorCode"] == 0
    (move,) = OffsetHistory().read(written(rows_of(bench)))
    assert move.by == f"a (client bench at ), generation {epoch + 1}"
    gone = [(key, None) for key, _ in rows_of(bench) if key[1] in {22, 23}]
    last, other = rows_of(bench)[-1], offset_row(STREAMS_GROUP, topic, 9, 5)
    _, *moves = OffsetHistory().read(written([*rows_of(bench), other, *gone, last]))
    assert ["no member has the partition" in each.by for each in moves] == [True, True]


def test_deleted_group_leaves_no_rows() -> None:
    bench = life()
    assert {key[1] for key, _ in rows_of(bench)} == {1, 2, 3, 4, 5, 6, 7, 8, 16}
    assert left(bench) == {}
    bench = streams_life()
    assert {key[1] for key, _ in rows_of(bench)} == {17, 19, 20, 21, 22, 23}
    assert left(bench) == {}
    shared = share_life()
    assert {key[1] for key, _ in rows_of(shared)} == {10, 11, 12, 13, 14, 15}
    assert left(shared) == {}


OFFSETS = (
    "0000 0000000000000005 0001 6d 0000000000000007",
    "0001 0000000000000005 0001 6d 0000000000000007 0000000000000009",
    "0002 0000000000000005 0001 6d 0000000000000007",
    "0003 0000000000000005 00000002 0001 6d 0000000000000007",
    "0004 0000000000000005 00000002 02 6d 0000000000000007 00",
)
"""Commits in each version that Kafka has written."""


def older_rows() -> list[Row]:
    first, later = (bytes.fromhex(f"000{kind} 0001 67 0001 74 00000001") for kind in (0, 1))
    offsets = [(later, bytes.fromhex(value)) for value in OFFSETS]
    offsets.append((first, bytes.fromhex(OFFSETS[0])))
    groups = [classic_row("g", 7, {"m": {"t": [0, 2]}}, version) for version in range(5)]
    return [*offsets, *groups]


def assert_is_read_as_by_kafka(row: Row, read: Read) -> None:
    """Check that our decoder reads the same as Kafka."""
    decoded, value = group_records.decode(*row), read.value
    assert value is not None
    if isinstance(decoded, ClassicRow):
        (member,) = value["members"]
        assert (decoded.group, decoded.generation) == ("g", value["generation"])
        assert decoded.members == (
            GroupRowMember(
                "m", None, member["clientId"], member["clientHost"], decoded.members[0].owned
            ),
        )
        return
    assert isinstance(decoded, OffsetRow)
    assert decoded.value is not None
    fields = ("offset", "leaderEpoch", "metadata", "commitTimestamp", "expireTimestamp")
    theirs = [value.get(name, -1) for name in fields]
    assert [getattr(decoded.value, WORD.sub("_", name).lower()) for name in fields] == theirs


@pytest.mark.compares
def test_kafkas_classes_read_each_row_and_write_the_same_bytes() -> None:
    rows = [*rows_of(life()), *rows_of(streams_life()), *rows_of(share_life())]
    older = older_rows()
    reported = golden(
        "groups/rows_as_read",
        lambda: read_by_kafka([*rows, *older]),
        scenario=[*rows, *older],
    )
    read = [Read(*each) for each in reported]
    assert [each.again for each in read] == [*rows, *older]
    for row, each in zip(older, read[len(rows) :], strict=True):
        assert_is_read_as_by_kafka(row, each)
    del read[len(rows) :]
    found = [(each.kind, each.value) for each in read if each.value is not None]
    first = dict(reversed(found))
    assert first["ConsumerGroupMemberMetadataKey"]["subscribedTopicRegex"] == "b.*"
    member = first["StreamsGroupMemberMetadataKey"]
    assert (member["userEndpoint"]["port"], len(member["clientTags"])) == (40_000, 2)
    deleting = [value["deletingTopics"] for _, value in found if "deletingTopics" in value]
    names = [topic["topicName"] for each in deleting for topic in each]
    assert names == ["bar", "foo"], "one by a request, the other with its group"
    assert first["ShareGroupCurrentMemberAssignmentKey"]["memberEpoch"] == 2
    parts = first["StreamsGroupTopologyKey"]["subtopologies"]
    assert parts[2]["copartitionGroups"][0]["repartitionSourceTopics"] == [0]
