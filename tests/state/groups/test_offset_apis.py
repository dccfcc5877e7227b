"""OffsetCommit and OffsetFetch of simple groups, like Apache Kafka 4.3.1."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue
from brokertwin.state.cell import check
from brokertwin.state.cluster.coordinators import partition_for
from brokertwin.state.core import outputs
from brokertwin.state.core.java_hashes import java_hash
from brokertwin.state.groups import offset_records
from tests.support.machine import Bench

UNKNOWN_ID = "A" * 20 + "Dw"
MISSING = (-1, -1, "", 0)


class Groups:
    """A broker with a topic `a` that coordinates every group."""

    def __init__(self, partitions: int = 2, **settings: Any) -> None:
        self.bench = Bench(
            offsets_topic_num_partitions=10, offsets_topic_replication_factor=1, **settings
        )
        self.topic_id = self.bench.topic("a", partitions)
        self.find()
        assert self.find()["errorCode"] == 0

    def find(self) -> Any:
        body = {"keyType": 0, "coordinatorKeys": ["g"]}
        return self.bench.request("FIND_COORDINATOR", 4, body)["coordinators"][0]

    def send(
        self, topics: list[Any], group: str = "g", version: int = 8, **fields: Any
    ) -> list[Any]:
        body = {
            "groupId": group,
            "generationIdOrMemberEpoch": -1,
            "memberId": "",
            "topics": topics,
            **fields,
        }
        topics_completed: list[Any] = self.bench.request("OFFSET_COMMIT", version, body)["topics"]
        return topics_completed

    def commit(
        self, *offsets: tuple[Any, ...], topic: str = "a", version: int = 8, **fields: Any
    ) -> dict[int, int]:
        """Commit (partition, offset, metadata); return errors by partition."""
        named = {"topicId": topic} if version >= 10 else {"name": topic}
        wanted = {**named, "partitions": [partition(*offset) for offset in offsets]}
        responded = self.send([wanted], version=version, **fields)
        return {
            p["partitionIndex"]: p["errorCode"] for topic in responded for p in topic["partitions"]
        }

    def fetch(
        self, topics: list[tuple[str, list[int]]] | None, group: str = "g", version: int = 8
    ) -> Any:
        name = "topicId" if version >= 10 else "name"
        fields = None if topics is None else [{name: t, "partitionIndexes": ps} for t, ps in topics]
        request = {"groupId": group, "topics": fields}
        body = {"groups": [request]} if version >= 8 else request
        response = self.bench.request("OFFSET_FETCH", version, body)
        return response["groups"][0] if version >= 8 else response

    def offsets(
        self, *partitions: int, topic: str = "a", group: str = "g"
    ) -> list[tuple[Any, ...]]:
        """Return offset, leader epoch, metadata and error of partitions."""
        response = self.fetch([(topic, list(partitions))], group)
        return [shown(p) for p in response["topics"][0]["partitions"]]


def partition(number: int, offset: int, metadata: str | None = "", epoch: int = -1) -> Any:
    return {
        "partitionIndex": number,
        "committedOffset": offset,
        "committedLeaderEpoch": epoch,
        "committedMetadata": metadata,
    }


def shown(responded: Any) -> tuple[Any, ...]:
    return (
        responded["committedOffset"],
        responded["committedLeaderEpoch"],
        responded["metadata"],
        responded["errorCode"],
    )


def test_off_simple_commit() -> None:
    groups = Groups()
    assert groups.commit((0, 5, "meta"), (1, 0)) == {0: 0, 1: 0}
    assert groups.offsets(0, 1) == [(5, -1, "meta", 0), (0, -1, "", 0)]
    assert groups.commit((0, 3)) == {0: 0}
    assert groups.offsets(0, 1) == [(3, -1, "", 0), (0, -1, "", 0)]


def test_example_11_off_metadata_too_large() -> None:
    groups = Groups()
    assert groups.commit((0, 1, "x" * 4096), (1, 1, "x" * 4097)) == {0: 0, 1: 12}
    assert groups.offsets(0, 1) == [(1, -1, "x" * 4096, 0), MISSING]


def test_first_commit_that_stores_nothing_creates_a_group_without_records() -> None:
    """List and describe requests omit it, and a restart removes it."""
    groups = Groups()
    bench, hidden = groups.bench, {"groups": ["g"]}

    def deleted() -> int:
        return int(bench.request("DELETE_GROUPS", 2, groupsNames=["g"])["results"][0]["errorCode"])

    assert groups.commit((0, 1, "x" * 4097), (9, 1)) == {0: 12, 9: 3}
    assert bench.request("LIST_GROUPS", 5, {})["groups"] == []
    assert bench.request("DESCRIBE_GROUPS", 6, hidden)["groups"][0]["errorCode"] == 69
    removal = {"groupId": "g", "topics": [{"name": "a", "partitions": [{"partitionIndex": 0}]}]}
    assert bench.request("OFFSET_DELETE", 0, removal)["errorCode"] == 0
    assert check.check(bench.cell) == []
    assert (deleted(), deleted()) == (0, 69)
    groups.commit((0, 1, "x" * 4097))
    groups.commit((0, 1, "x"))
    assert bench.request("DESCRIBE_GROUPS", 6, hidden)["groups"][0]["groupState"] == "Empty"


@pytest.mark.parametrize("fields", [{"generationIdOrMemberEpoch": 0}, {}])
def test_commit_rejected_before_the_coordinator_creates_no_group(fields: Any) -> None:
    """With an unknown generation, or for unknown partitions only."""
    groups = Groups()
    groups.commit((0 if fields else 9, 1, "x" * 4097), **fields)
    deletion = groups.bench.request("DELETE_GROUPS", 2, groupsNames=["g"])
    assert deletion["results"] == [{"groupId": "g", "errorCode": 69}]


def test_example_12_fetch_returns_offset_and_epoch_of_each_partition() -> None:
    groups = Groups()
    groups.bench.topic("foo", 2)
    groups.bench.topic("bar", 2)
    written = [("foo", 0, 100), ("foo", 1, 110), ("bar", 0, 200), ("foo", 1, 111), ("bar", 1, 210)]
    fields = {0: (-1, -1, -1, -1), 2: (100, 110, -1, -1), 4: (100, 111, 200, -1)}
    fields[5] = (100, 111, 200, 210)
    for count in range(6):
        if count:
            topic, number, offset = written[count - 1]
            assert groups.commit((number, offset), topic=topic) == {number: 0}
        if count in fields:
            actual = [*groups.offsets(0, 1, topic="foo"), *groups.offsets(0, 1, topic="bar")]
            assert actual == [(offset, -1, "", 0) for offset in fields[count]]


def test_metadata_length_is_in_utf_16_units() -> None:
    groups = Groups()
    grins = "\U0001f600" * 2048
    assert groups.commit((0, 1, grins), (1, 1, grins + "\U0001f600")) == {0: 0, 1: 12}
    assert groups.commit((1, 1, "é" * 4096)) == {1: 0}


def test_off_several_groups() -> None:
    groups = Groups()
    groups.commit((0, 1), group="g")
    groups.commit((1, 2), group="h")
    requests = [
        {"groupId": "g", "topics": None},
        {"groupId": "h", "topics": [{"name": "a", "partitionIndexes": [0, 1]}]},
        {"groupId": "nobody", "topics": None},
    ]
    responded = groups.bench.request("OFFSET_FETCH", 8, {"groups": requests})["groups"]
    assert [
        (g["groupId"], g["errorCode"], [shown(p) for t in g["topics"] for p in t["partitions"]])
        for g in responded
    ] == [("g", 0, [(1, -1, "", 0)]), ("h", 0, [MISSING, (2, -1, "", 0)]), ("nobody", 0, [])]


def test_example_10_generation_needs_a_group() -> None:
    groups = Groups()
    member = {"generationIdOrMemberEpoch": 5, "memberId": "m"}
    assert groups.commit((0, 100), version=8, **member) == {0: 22}
    assert groups.commit((0, 100), version=9, **member) == {0: 69}
    assert groups.commit((0, 100)) == {0: 0}
    for version in (8, 9):
        assert groups.commit((0, 100), version=version, **member) == {0: 25}
    assert groups.commit((0, 1), version=9, generationIdOrMemberEpoch=0, groupInstanceId="i") == {
        0: 25
    }
    assert groups.commit((0, 1), version=9, generationIdOrMemberEpoch=0) == {0: 25}


def test_negative_generation_is_accepted_for_any_member() -> None:
    groups = Groups()
    assert groups.commit((0, 1), memberId="m", groupInstanceId="i") == {0: 0}
    assert groups.commit((0, 2), generationIdOrMemberEpoch=-2) == {0: 0}
    assert groups.offsets(0) == [(2, -1, "", 0)]


def test_unknown_partitions_are_rejected_before_the_group_is_read() -> None:
    groups = Groups()
    member = {"generationIdOrMemberEpoch": 5, "memberId": "m"}
    assert groups.commit((0, 1), topic="none", **member) == {0: 3}
    assert groups.commit((0, 1), (7, 1), **member) == {7: 3, 0: 22}


def test_rejected_partitions_come_first_and_topics_are_merged() -> None:
    groups = Groups()
    responded = groups.send(
        [
            {"name": "a", "partitions": [partition(0, 1), partition(7, 1), partition(1, 2)]},
            {"name": "none", "partitions": [partition(0, 1)]},
            {"name": "a", "partitions": [partition(0, 3)]},
        ]
    )
    assert [
        (t["name"], [(p["partitionIndex"], p["errorCode"]) for p in t["partitions"]])
        for t in responded
    ] == [("a", [(7, 3), (0, 0), (1, 0), (0, 0)]), ("none", [(0, 3)])]
    assert groups.offsets(0) == [(3, -1, "", 0)], "the last duplicate of a request counts"
    twice = [{"name": "a", "partitions": [partition(n, 1)]} for n in (0, 1)]
    assert len(groups.send(twice)) == 2, "duplicate topics stay separate without errors"


def test_commit_without_partitions_creates_no_group() -> None:
    groups = Groups()
    assert groups.send([]) == []
    assert groups.send([{"name": "a", "partitions": []}]) == []
    assert groups.commit((0, 1), version=9, generationIdOrMemberEpoch=1) == {0: 69}


def test_any_group_id_and_offset_is_accepted() -> None:
    groups = Groups()
    for offset, group in enumerate(["", "a/b", "a%2Fb", "\0", "\U0001f600", " "], -3):
        assert groups.commit((0, offset), group=group) == {0: 0}
    for offset, group in enumerate(["", "a/b", "a%2Fb", "\0", "\U0001f600", " "], -3):
        assert groups.offsets(0, group=group) == [(offset, -1, "", 0)]


def test_example_17_partition_without_an_offset_is_an_error_only_in_the_seed() -> None:
    request = {"groupId": "g", "topics": [{"name": "a", "partitionIndexes": [0]}]}
    for is_refused, error in ((False, 0), (True, 3)):
        bench = Bench(brokertwin_missing_offset_error=is_refused)
        bench.topic("a")
        bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"])
        (topic,) = bench.request("OFFSET_FETCH", 7, request)["topics"]
        (part,) = topic["partitions"]
        assert (part["committedOffset"], part["errorCode"]) == (-1, error)


def test_example_17_other_brokers_return_not_coordinator() -> None:
    bench = Bench()
    bench.topic("a")
    topics = [{"name": "a", "partitions": [partition(0, 1)]}]
    commit = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}
    responded = bench.request("OFFSET_COMMIT", 8, commit)["topics"][0]["partitions"]
    assert responded == [{"partitionIndex": 0, "errorCode": 16}]
    request = {"groupId": "g", "topics": [{"name": "a", "partitionIndexes": [0]}]}
    assert bench.request("OFFSET_FETCH", 8, groups=[request]) == {
        "throttleTimeMs": 0,
        "groups": [{"groupId": "g", "topics": [], "errorCode": 16}],
    }
    assert bench.request("OFFSET_FETCH", 2, request) == {"topics": [], "errorCode": 16}
    missing = {"partitionIndex": 0, "committedOffset": -1, "metadata": "", "errorCode": 16}
    assert bench.request("OFFSET_FETCH", 1, request) == {
        "topics": [{"name": "a", "partitions": [missing]}]
    }


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (1, {"partitionIndex", "committedOffset", "metadata", "errorCode"}),
        (4, {"partitionIndex", "committedOffset", "metadata", "errorCode"}),
        (
            5,
            {
                "partitionIndex",
                "committedOffset",
                "committedLeaderEpoch",
                "metadata",
                "errorCode",
            },
        ),
    ],
)
def test_old_versions_of_offset_fetch_have_their_own_fields(version: int, fields: set[str]) -> None:
    groups = Groups()
    groups.commit((0, 1))
    response = groups.fetch([("a", [0])], version=version)
    assert set(response["topics"][0]["partitions"][0]) == fields
    assert ("errorCode" in response) == (version >= 2)
    assert ("throttleTimeMs" in response) == (version >= 3)


def test_topic_ids_replace_names_in_version_10() -> None:
    groups = Groups()
    assert groups.commit((0, 4, "m"), (8, 1), topic=groups.topic_id, version=10) == {8: 3, 0: 0}
    for unknown in (UNKNOWN_ID, ZERO_UUID):
        assert groups.commit((0, 1), (1, 1), topic=unknown, version=10) == {0: 100, 1: 100}
    everything = groups.fetch(None, version=10)["topics"]
    assert [(t["topicId"], "name" in t) for t in everything] == [(groups.topic_id, False)]
    requests = [(UNKNOWN_ID, [0]), (groups.topic_id, [0, 1])]
    responded = groups.fetch(requests, version=10)["topics"]
    assert [(t["topicId"], [shown(p) for p in t["partitions"]]) for t in responded] == [
        (groups.topic_id, [(4, -1, "m", 0), MISSING]),
        (UNKNOWN_ID, [(-1, -1, "", 100)]),
    ]


def test_responses_have_topics_partitions_and_duplicates_in_request_order() -> None:
    groups = Groups()
    groups.commit((0, 1), (1, 2))
    requests = [("a", [1, 0, 0]), ("none", [0]), ("a", [1])]
    responded = groups.fetch(requests)["topics"]
    assert [(t["name"], [p["committedOffset"] for p in t["partitions"]]) for t in responded] == [
        ("a", [2, 1, 1]),
        ("none", [-1]),
        ("a", [2]),
    ]


@pytest.mark.parametrize(
    ("version", "retention", "expires_in"),
    [(2, -1, None), (4, 1000, 1000), (3, -5, -5), (4, 2**63 - 1, None)],
)
def test_retention_time_sets_the_expire_timestamp(
    version: int, retention: int, expires_in: int | None
) -> None:
    groups = Groups()
    assert groups.commit((0, 1), version=version, retentionTimeMs=retention) == {0: 0}
    stored = groups.bench.records()[-1]["record"]
    assert stored["commitTimestamp"] == groups.bench.now
    if retention == -1:
        assert stored["expireTimestamp"] == -1
    elif expires_in is None:
        assert stored["expireTimestamp"] < 0, "Java's addition overflows"
    else:
        assert stored["expireTimestamp"] == groups.bench.now + expires_in


def test_commit_is_written_to_the_compacted_topic_like_kafka() -> None:
    groups = Groups()
    groups.commit((1, 9, "m", 2))
    row = next(row for row in groups.bench.last if row.topic == outputs.offsets_topic("bench"))
    assert row.key is not None
    assert row.value is not None
    assert offset_records.decode_key(row.key) == offset_records.OffsetKey("g", "a", 1)
    assert offset_records.decode_value(row.value) == OffsetCommitValue(
        9, 2, "m", groups.bench.now, -1, groups.topic_id
    )


def test_deleting_a_topic_writes_tombstones_of_its_offsets() -> None:
    groups = Groups()
    groups.bench.topic("b")
    groups.commit((0, 1), (1, 2))
    groups.commit((0, 3), topic="b")
    groups.commit((0, 4), group="h")
    groups.bench.request("DELETE_TOPICS", 6, name="a", timeoutMs=1000)
    rows = [row for row in groups.bench.last if row.topic == outputs.offsets_topic("bench")]
    assert [offset_records.decode_key(row.key or b"") for row in rows] == [
        offset_records.OffsetKey("g", "a", 0),
        offset_records.OffsetKey("g", "a", 1),
        offset_records.OffsetKey("h", "a", 0),
    ]
    assert {row.value for row in rows} == {None}
    assert [t["name"] for t in groups.fetch(None)["topics"]] == ["b"]
    assert groups.fetch(None, "h")["topics"] == []
    again = {"generationIdOrMemberEpoch": 1, "version": 9, "topic": "b", "group": "h"}
    assert groups.commit((0, 1), **again) == {0: 25}, "the group still exists"


def test_offsets_are_kept_between_micro_batches() -> None:
    groups = Groups()
    groups.commit((0, 5, "meta"))
    groups.bench.reload()
    assert groups.offsets(0) == [(5, -1, "meta", 0)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("test", 3556498),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_java_string_hash(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_partition_of_a_group() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("test", 50) == 48


def test_group_id_must_be_valid_text() -> None:
    bench = Bench()
    bench.send("OFFSET_COMMIT", 8, groupId=None, topics=[])
    [dead] = bench.dead_letters()
    assert dead["reason"] == "wrong type"
    assert msgspec.json.decode(bench.last[-1].value or b"")["error"]["reason"] == "wrong type"
