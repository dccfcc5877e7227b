"""ConsumerGroupDescribe like Apache Kafka 4.3.1, for classic groups."""

from typing import Any

import pytest

from brokertwin.state.access.authorizer import CLASS_NAME
from tests.support.groups import GROUP, GroupBench
from tests.support.machine import Bench

NOT_REQUESTED = -2147483648


def describe(bench: Bench, *groups: str, version: int = 1, **event: Any) -> Any:
    body = {"groupIds": list(groups), "includeAuthorizedOperations": True}
    return bench.request("CONSUMER_GROUP_DESCRIBE", version, body, **event)["groups"]


def refused(group: str, code: int, message: str | None = None) -> dict[str, Any]:
    return {
        "errorCode": code,
        "errorMessage": message,
        "groupId": group,
        "groupState": "",
        "groupEpoch": 0,
        "assignmentEpoch": 0,
        "assignorName": "",
        "members": [],
        "authorizedOperations": NOT_REQUESTED,
    }


@pytest.mark.parametrize("version", [0, 1])
def test_classic_group_is_not_a_consumer_group(version: int) -> None:
    bench = GroupBench()
    bench.stable("a")
    wanted = refused(GROUP, 69, f"Group {GROUP} is not a consumer group.")
    assert describe(bench, GROUP, version=version) == [wanted]


def test_simple_group_is_a_classic_group() -> None:
    bench = GroupBench()
    assert bench.commit() == 0
    assert describe(bench, GROUP)[0]["errorMessage"] == f"Group {GROUP} is not a consumer group."


@pytest.mark.parametrize("version", [0, 1])
def test_unknown_group_is_not_found(version: int) -> None:
    wanted = [refused("nope", 69, "Group nope not found.")]
    assert describe(GroupBench(), "nope", version=version) == wanted


def test_empty_request_gets_an_empty_response() -> None:
    assert describe(GroupBench()) == []


def test_coordinator_is_unavailable_without_the_offsets_topic() -> None:
    assert describe(Bench(), "nope", "n2") == [refused("nope", 16), refused("n2", 16)]


def test_denied_groups_come_first_then_the_empty_id() -> None:
    bench = GroupBench(authorizer_class_name=CLASS_NAME, super_users="User:ANONYMOUS")
    assert describe(bench, GROUP, "", "nope", principal="User:eve") == [
        refused(GROUP, 30),
        refused("", 30),
        refused("nope", 30),
    ]
    everyone = {"principal": "User:*", "host": "*", "operation": 8, "permissionType": 3}
    resource = {"resourceType": 3, "resourceName": "nope", "resourcePatternType": 3}
    bench.request("CREATE_ACLS", 3, creations=[everyone | resource])
    assert describe(bench, "nope", GROUP, principal="User:eve") == [
        refused(GROUP, 30),
        refused("nope", 69, "Group nope not found."),
    ]


def test_empty_id_comes_before_other_groups() -> None:
    actual = describe(GroupBench(), "nope", "")
    assert actual == [refused("", 24), refused("nope", 69, "Group nope not found.")]


def test_groups_have_the_order_of_their_partitions() -> None:
    # response of a broker with ten partitions of __consumer_offsets
    bench = GroupBench(offsets_topic_num_partitions=10)
    found = describe(bench, *(f"grp-{number}" for number in range(20)), "grp-3")
    recorded = [8, 15, 7, 16, 5, 18, 6, 17, 3, 10, 3, 4, 19, 1, 12, 2, 11, 9, 14, 0, 13]
    assert [each["groupId"] for each in found] == [f"grp-{number}" for number in recorded]
