"""DescribeGroups like Apache Kafka 4.3.1."""

from typing import Any

import pytest

from brokertwin.state.access.authorizer import CLASS_NAME
from tests.support.groups import GROUP, GroupBench

ALL_OPERATIONS = 3400
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
NOT_REQUESTED = -2147483648


def describe(bench: GroupBench, version: int, *groups: str, **event: Any) -> Any:
    body = {"groups": list(groups), "includeAuthorizedOperations": True}
    return bench.request("DESCRIBE_GROUPS", version, body, **event)["groups"]


@pytest.mark.parametrize("version", [3, 5, 6])
def test_all_operations_are_allowed_without_an_authorizer(version: int) -> None:
    bench = GroupBench()
    bench.stable("a")
    (found,) = describe(bench, version, GROUP)
    assert (found["groupState"], found["authorizedOperations"]) == ("Stable", ALL_OPERATIONS)


@pytest.mark.parametrize(
    ("version", "code", "operations"), [(5, 0, ALL_OPERATIONS), (6, 69, NOT_REQUESTED)]
)
def test_operations_on_an_unknown_group(version: int, code: int, operations: int) -> None:
    (found,) = describe(GroupBench(), version, "nope")
    assert (found["errorCode"], found["authorizedOperations"]) == (code, operations)


def test_authorized_operations_are_those_of_the_client() -> None:
    bench = GroupBench(authorizer_class_name=CLASS_NAME, super_users="User:ANONYMOUS")
    bench.stable("a")
    acl = {"resourceType": 3, "resourceName": GROUP, "resourcePatternType": 3}
    acl |= {"principal": "User:eve", "host": "*", "operation": 3, "permissionType": 3}
    bench.request("CREATE_ACLS", 3, creations=[acl])
    denied, allowed = describe(bench, 5, GROUP, "nope", principal="User:eve")
    assert (denied["groupId"], denied["errorCode"]) == ("nope", 30)
    assert denied["authorizedOperations"] == NOT_REQUESTED
    read_and_describe = 1 << 3 | 1 << 8
    assert (allowed["errorCode"], allowed["authorizedOperations"]) == (0, read_and_describe)


def test_groups_have_the_order_of_their_partitions() -> None:
    # response of a broker with ten partitions of __consumer_offsets
    bench = GroupBench(offsets_topic_num_partitions=10)
    found = describe(bench, 5, *(f"grp-{number}" for number in range(10)))
    recorded = [8, 7, 5, 6, 3, 4, 1, 2, 9, 0]
    assert [each["groupId"] for each in found] == [f"grp-{number}" for number in recorded]
