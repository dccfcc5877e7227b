"""Offsets of share groups: describe, alter, delete.

Responses of a real broker are in the capture `share_offsets`. These tests cover single rules.
"""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup
from tests.support.machine import Bench, header
from tests.support.share_groups import GROUP, ShareBench


def alter(bench: Bench, topic: str, *offsets: tuple[int, int], group: str = GROUP) -> Any:
    partitions = [{"partitionIndex": each, "startOffset": at} for each, at in offsets]
    body = {"groupId": group, "topics": [{"topicName": topic, "partitions": partitions}]}
    return bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, body)


def forget(bench: Bench, *topics: str, group: str = GROUP) -> Any:
    body = {"groupId": group, "topics": [{"topicName": each} for each in topics]}
    return bench.request("DELETE_SHARE_GROUP_OFFSETS", 0, body)


def described(bench: Bench, group: str = GROUP, topics: Any = None) -> dict[str, Any]:
    """Return start offset and lag of each partition by topic name."""
    body = {"groups": [{"groupId": group, "topics": topics}]}
    (response,) = bench.request("DESCRIBE_SHARE_GROUP_OFFSETS", 1, body)["groups"]
    assert response["errorCode"] == 0
    return {
        topic["topicName"]: [(each["startOffset"], each["lag"]) for each in topic["partitions"]]
        for topic in response["topics"]
    }


def left() -> ShareBench:
    """Return a bench with an empty group that has states of `bar`."""
    bench = ShareBench()
    bench.beat("a", 0, "bar")
    bench.later("a", 2)
    bench.beat("a", -1)
    return bench


def deleted(bench: Bench, group: str) -> int:
    return int(bench.request("DELETE_GROUPS", 2, groupsNames=[group])["results"][0]["errorCode"])


def codes(response: Any) -> list[int]:
    return [each["errorCode"] for topic in response["responses"] for each in topic["partitions"]]


def topics_of(bench: ShareBench) -> set[str]:
    return {each["name"] for each in bench.request("METADATA", 12, topics=None)["topics"]}


def test_lag_is_the_number_of_undone_records() -> None:
    bench = left()
    for count in (4, 3):
        bench.append("bar", header(count))
    assert described(bench) == {"bar": [(-1, -1), (-1, -1)]}
    assert codes(alter(bench, "bar", (0, 2))) == [0]
    assert described(bench) == {"bar": [(2, 5), (-1, -1)]}
    done = {"partition": 0, "stateEpoch": -1, "leaderEpoch": -1, "startOffset": 3}
    done |= {"deliveryCompleteCount": 1, "stateBatches": []}
    body = {"groupId": GROUP, "topics": [{"topicId": bench.ids["bar"], "partitions": [done]}]}
    bench.request("WRITE_SHARE_GROUP_STATE", 1, body)
    assert described(bench)["bar"][0] == (3, 3)


def test_alter_creates_a_missing_group() -> None:
    bench = left()
    assert codes(alter(bench, "foo", (0, 7), (1, 9), group="new")) == [0, 0]
    assert described(bench, "new") == {"foo": [(7, -7), (9, -9)]}
    request = {"groupIds": ["new"], "includeAuthorizedOperations": False}
    (group,) = bench.request("SHARE_GROUP_DESCRIBE", 1, request)["groups"]
    assert (group["errorCode"], group["groupState"]) == (0, "Empty")


@pytest.mark.parametrize("offsets", [(), ((9, 7),)])
def test_alter_with_a_topic_without_partitions_creates_the_group(offsets: Any) -> None:
    bench = left()
    response = alter(bench, "foo", *offsets, group="new")
    assert (response["errorCode"], codes(response)) == (0, [3] * len(offsets))
    assert isinstance(groups.find_stored(bench.cell.tables.of(1), "new"), ShareGroup)
    assert described(bench, "new") == {}
    assert forget(bench, "foo", group="new")["responses"][0]["errorCode"] == 3
    assert [deleted(bench, "new") for _ in range(2)] == [0, 69]
    alter(bench, "none", (0, 1), group="new")
    assert deleted(bench, "new") == 69


@pytest.mark.parametrize("partition", [-1, None])
def test_states_that_cannot_be_deleted_are_deleted_by_the_next_request(
    partition: int | None,
) -> None:
    """A negative partition, or a topic with only unknown partitions."""
    bench = left()
    alter(bench, "bar", (0, 5), group="new")
    alter(bench, "foo", *([] if partition is None else [(partition, 0)]), group="new")
    assert deleted(bench, "new") == -1
    assert described(bench, "new") == {}
    assert [deleted(bench, "new") for _ in range(2)] == [0, 69]
    alter(bench, "bar", group="new")
    assert described(bench, "new", [{"topicName": "bar", "partitions": [0]}]) == {"bar": [(-1, -1)]}


def test_member_continues_at_the_altered_offset() -> None:
    bench = left()
    alter(bench, "bar", (1, 4))
    joined = bench.later("b", 0, "bar")
    assert bench.reported(joined) == {"bar": [0, 1]}
    assert described(bench)["bar"][1][0] == 4


def test_group_with_members_keeps_its_offsets() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "bar")
    for response in (alter(bench, "bar", (0, 1)), forget(bench, "bar")):
        assert (response["errorCode"], response["errorMessage"]) == (68, "The group is not empty.")
    assert described(bench) == {"bar": [(-1, -1), (-1, -1)]}


def test_missing_partitions_have_errors() -> None:
    bench = left()
    assert codes(alter(bench, "bar", (0, 1), (2, 1))) == [0, 3]
    assert codes(alter(bench, "nope", (0, 1))) == [3]
    assert codes(alter(bench, "nope", (-1, 0), (1, 0))) == [3, 3]
    unknown = [{"topicName": "nope", "partitions": [0]}]
    assert described(bench, topics=unknown) == {"nope": [(-1, -1)]}


def test_requests_that_kafka_cannot_send_are_a_server_error() -> None:
    # compared with Apache Kafka 4.3.1
    bench = left()
    alter(bench, "bar", (0, 3))
    response = alter(bench, "bar", (0, 1), (-1, 1))
    assert (response["errorCode"], response["responses"]) == (-1, [])
    text = f"Initialize share group parameters has invalid partitionId - {GROUP}"
    assert response["errorMessage"] == f"{text} {bench.ids['bar']} -1"
    for group, topic, partitions, error in [
        (GROUP, "bar", [0, -1], -1),
        (GROUP, "bar", [], -1),
        ("", "bar", [0], -1),
        ("", "nope", [-1], 0),
        (GROUP, "bar", [0], 0),
    ]:
        (result,) = bench.request(
            "DESCRIBE_SHARE_GROUP_OFFSETS", 1, groupId=group, topicName=topic, partitions=partitions
        )["groups"]
        assert result["errorCode"] == error
    assert result["topics"][0]["partitions"][0]["startOffset"] == 3


def test_duplicate_topics_are_in_the_response_once() -> None:
    # compared with Apache Kafka 4.3.1
    bench = left()

    def both(name: str) -> Any:
        parts = [[{"partitionIndex": p, "startOffset": 1} for p in ps] for ps in ([0], [1], [])]
        topics = [{"topicName": name, "partitions": each} for each in parts]
        response = bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, groupId=GROUP, topics=topics)
        return [(t["topicName"], len(t["partitions"])) for t in response["responses"]]

    assert [both(name) for name in ("bar", "nope")] == [[("bar", 2)], [("nope", 2)]]
    empty = {"groupId": GROUP, "topics": [{"topicName": "nope", "partitions": []}]}
    assert bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, empty)["responses"] == []
    requests = [{"topicName": "bar", "partitions": [each]} for each in (0, 1, 0)]
    assert described(bench, topics=requests) == {"bar": [(1, -1), (1, -1)]}
    response = forget(bench, "nope", "nope", "bar", "bar")
    assert [each["topicName"] for each in response["responses"]] == ["bar", "nope", "nope"]


def test_only_the_given_topics_are_deleted() -> None:
    bench = left()
    alter(bench, "foo", (0, 1), (1, 1), (2, 1))
    response = forget(bench, "bar", "nope")
    actual = {each["topicName"]: each["errorCode"] for each in response["responses"]}
    assert actual == {"bar": 0, "nope": 3}
    assert list(described(bench)) == ["foo"]
    assert len(bench.states()) == 3
    again = forget(bench, "bar")["responses"][0]
    assert again["errorMessage"] == "There is no offset information to delete."
    assert bench.group().deleting == {}


def test_failed_deletion_can_be_repeated() -> None:
    """Without a response of a share coordinator, the deletion is pending."""
    bench = left()
    group = groups.change_stored(bench.cell.tables.of(1), GROUP, ShareGroup)
    group.deleting, group.initialized = {bench.ids["bar"]: "bar"}, {}
    assert described(bench) == {}
    assert forget(bench, "bar")["responses"][0]["errorCode"] == 0
    assert (bench.states(), bench.group().deleting) == ([], {})


def test_internal_topic_is_created_first() -> None:
    bench = ShareBench()
    response = alter(bench, "foo", (0, 1))
    assert (response["errorCode"], codes(response)) == (0, [0])
    assert described(bench)["foo"] == [(1, -1)]


def test_describe_creates_the_internal_topic() -> None:
    bench = ShareBench()
    assert described(bench) == {}
    assert "__share_group_state" not in topics_of(bench)
    (group,) = bench.request(
        "DESCRIBE_SHARE_GROUP_OFFSETS", 1, groupId=GROUP, topicName="foo", partitions=[0]
    )["groups"]
    (result,) = group["topics"][0]["partitions"]
    assert (result["errorCode"], result["startOffset"], result["lag"]) == (0, -1, -1)
    assert "__share_group_state" in topics_of(bench)


def test_internal_topic_is_not_created_without_partitions_to_initialize() -> None:
    """The response does not depend on the existence of the internal topic."""
    bench = ShareBench()
    for _ in range(2):
        assert codes(alter(bench, "absent", (0, 3))) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert "__share_group_state" not in topics_of(bench)


@pytest.mark.parametrize("group", ["", "classic", "absent"])
def test_groups_of_other_kinds_have_no_share_offsets(group: str) -> None:
    bench = left()
    partition = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    topic = {"name": "foo", "partitions": [partition]}
    body = {"groupId": "classic", "generationIdOrMemberEpoch": -1, "memberId": ""}
    bench.request("OFFSET_COMMIT", 7, {**body, "topics": [topic]})
    assert forget(bench, "foo", group=group)["errorCode"] == (69 if group else 24)
    assert described(bench, group) == {}


def test_share_offsets_need_the_feature() -> None:
    bench = left()
    update = {"feature": "share.version", "maxVersionLevel": 0, "upgradeType": 2}
    bench.request("UPDATE_FEATURES", 2, {"timeoutMs": 1000, "featureUpdates": [update]})
    refused = [alter(bench, "foo", (0, 1))["errorCode"], forget(bench, "foo")["errorCode"]]
    assert refused == [35, 35]


def test_share_coordinators_are_called_one_after_the_other() -> None:
    """States of ten partitions are initialized on three brokers."""
    bench = Bench((1, 2, 3), offsets_topic_num_partitions=1)
    bench.topic("many", 10)
    bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])
    request = {"keyType": 0, "coordinatorKeys": [GROUP]}
    node = bench.request("FIND_COORDINATOR", 4, request)["coordinators"][0]["nodeId"]
    partitions = [{"partitionIndex": each, "startOffset": each} for each in range(10)]
    body = {"groupId": GROUP, "topics": [{"topicName": "many", "partitions": partitions}]}
    response = bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, body, broker=node)
    assert (response["errorCode"], set(codes(response))) == (0, {0})
    requested_of = {"groups": [{"groupId": GROUP, "topics": None}]}
    reported = bench.request("DESCRIBE_SHARE_GROUP_OFFSETS", 1, requested_of, broker=node)
    (topic,) = reported["groups"][0]["topics"]
    assert [(each["startOffset"], each["lag"]) for each in topic["partitions"]] == [
        (each, -each) for each in range(10)
    ]
    keys = bench.cell.tables.groups.keys("")
    assert len({key.split("/")[0] for key in keys if "/share-state/" in key}) > 1


def test_other_brokers_describe_named_partitions() -> None:
    """Kafka needs the group coordinator only for all partitions."""
    bench = ShareBench(brokers=(1, 2, 3))
    for _ in range(2):
        alter(bench, "bar", (0, 3))
    request = {"keyType": 0, "coordinatorKeys": [GROUP]}
    node = bench.request("FIND_COORDINATOR", 4, request)["coordinators"][0]["nodeId"]
    named = [{"topicName": "bar", "partitions": [0]}]
    for broker in (1, 2, 3):
        for topics, error in ((None, 0 if broker == node else 16), (named, 0)):
            body = {"groups": [{"groupId": GROUP, "topics": topics}]}
            response = bench.request("DESCRIBE_SHARE_GROUP_OFFSETS", 1, body, broker=broker)
            assert response["groups"][0]["errorCode"] == error, (broker, topics)
