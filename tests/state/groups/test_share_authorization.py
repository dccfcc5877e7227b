"""Permissions for offsets of share groups and for share coordinators."""

from typing import Any

from brokertwin.state.access.authorizer import CLASS_NAME, Operation, ResourceType
from tests.state.groups.test_share_offsets import alter, codes
from tests.support.guarded import ADMIN, ALICE, Guarded
from tests.support.share_groups import GROUP, ShareBench

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31


class GuardedShares(Guarded, ShareBench):
    """Alice has only the permissions granted by `let`."""

    def __init__(self) -> None:
        super().__init__(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
        alter(self, "bar", (0, 1))
        for topic in ("bar", "foo"):
            assert codes(alter(self, topic, (0, 1))) == [0]
        self.principal = ALICE

    def describe(self, *topics: str) -> Any:
        requests = [{"topicName": each, "partitions": [0]} for each in topics] or None
        body = {"groups": [{"groupId": GROUP, "topics": requests}]}
        return self.request("DESCRIBE_SHARE_GROUP_OFFSETS", 1, body)["groups"][0]

    def forget(self, *topics: str) -> Any:
        body = {"groupId": GROUP, "topics": [{"topicName": each} for each in topics]}
        return self.request("DELETE_SHARE_GROUP_OFFSETS", 0, body)


def test_group_permission_is_checked_first() -> None:
    bench = GuardedShares()
    responses = [bench.describe("bar"), alter(bench, "bar", (0, 1)), bench.forget("bar")]
    assert [each["errorCode"] for each in responses] == [GROUP_DENIED] * 3


def test_topics_without_describe_permission_are_omitted_or_rejected() -> None:
    bench = GuardedShares()
    bench.let(Operation.DESCRIBE, ResourceType.GROUP, GROUP)
    bench.let(Operation.DESCRIBE, ResourceType.TOPIC, "bar")
    assert [topic["topicName"] for topic in bench.describe()["topics"]] == ["bar"]
    reported = bench.describe("foo", "bar")["topics"]
    actual = {each["topicName"]: each["partitions"][0]["errorCode"] for each in reported}
    assert actual == {"bar": 0, "foo": TOPIC_DENIED}


def test_topics_without_read_permission_keep_their_offsets() -> None:
    bench = GuardedShares()
    for operation in (Operation.READ, Operation.DELETE):
        bench.let(operation, ResourceType.GROUP, GROUP)
    bench.let(Operation.READ, ResourceType.TOPIC, "bar")
    assert codes(alter(bench, "foo", (0, 5))) == [TOPIC_DENIED]
    assert codes(alter(bench, "bar", (0, 5))) == [0]
    response = bench.forget("foo", "bar")["responses"]
    assert [(each["topicName"], each["errorCode"]) for each in response] == [
        ("foo", TOPIC_DENIED),
        ("bar", 0),
    ]
    bench.principal = ADMIN
    (left,) = bench.describe()["topics"]
    assert (left["topicName"], left["partitions"][0]["startOffset"]) == ("foo", 1)


def test_share_coordinators_require_cluster_permission() -> None:
    bench = GuardedShares()
    place = {"partition": 0, "leaderEpoch": 0}
    written = {"stateEpoch": -1, "startOffset": -1}
    apis = ("READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE_SUMMARY")

    def codes_of() -> set[int]:
        responses = []
        for api in apis:
            requested = place | written if api.startswith("WRITE") else place
            topic = {"topicId": bench.ids["bar"], "partitions": [requested]}
            responses.append(bench.request(api, 0, {"groupId": GROUP, "topics": [topic]}))
        return {each["results"][0]["partitions"][0]["errorCode"] for each in responses}

    assert codes_of() == {CLUSTER_DENIED}
    bench.let(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    assert codes_of() == {0}
