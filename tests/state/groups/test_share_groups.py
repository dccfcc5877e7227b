"""Share groups: members, epochs, shared partitions.

Responses of a real broker are in the capture `share_groups`. These tests cover single rules.
"""

from collections.abc import Callable
from typing import Any

import pytest

from brokertwin.state.cell import check
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup
from tests.support.machine import Bench
from tests.support.replicas import Replicas
from tests.support.share_groups import GROUP, ShareBench

RETRY_MS = 30_000
"""group.share.initialize.retry.interval.ms."""


def test_first_member_has_partitions_with_its_second_heartbeat() -> None:
    """Its first heartbeat requests the initialization of the states."""
    bench = ShareBench()
    joined = bench.beat("a", 0, "foo")
    assert (joined["memberEpoch"], bench.reported(joined)) == (2, {})
    assert bench.states()
    again = bench.later("a", 2)
    assert (again["memberEpoch"], bench.reported(again)) == (3, {"foo": [0, 1, 2]})
    assert bench.beat("a", 3)["assignment"] is None


def test_members_share_partitions_if_there_are_more_of_them() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "bar")
    for name in ("b", "c", "d"):
        bench.later(name, 0, "bar")
    reported = [bench.reported(bench.later(name, 0, "bar")) for name in ("a", "b", "c", "d")]
    assert sorted(p for each in reported for p in each["bar"]) == [0, 0, 1, 1]


def test_member_without_heartbeats_is_removed() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    bench.tick(44_999)
    assert bench.group().members
    bench.tick(1)
    assert not bench.group().members
    assert bench.beat("a", 2)["errorCode"] == 25


def test_previous_epoch_is_valid_and_an_older_one_is_fenced() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    assert bench.later("a", 2)["memberEpoch"] == 3
    assert bench.beat("a", 2)["memberEpoch"] == 3
    assert [bench.beat("a", epoch)["errorCode"] for epoch in (1, 4)] == [110, 110]


def test_full_group_rejects_members() -> None:
    bench = ShareBench(given={"group.share.max.size": "1"})
    bench.beat("a", 0, "foo")
    refused = bench.beat("b", 0, "foo")
    assert (refused["errorCode"], bench.beat("a", 2)["errorCode"]) == (81, 0)


def test_added_partitions_are_assigned() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "bar")
    bench.later("a", 2)
    bench.request("CREATE_PARTITIONS", 3, name="bar", count=3, assignments=None, timeoutMs=1000)
    bench.later("a", 3)
    assert bench.reported(bench.later("a", 4)) == {"bar": [0, 1, 2]}


def is_state_gone(row: dict[str, Any]) -> bool:
    record = row["record"]
    return record["type"] == "ShareStateWritten" and record["snapshot"] is None


def test_deleting_a_topic_deletes_its_states() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo", "bar")
    bench.later("a", 2)
    bench.request("DELETE_TOPICS", 5, topicNames=["foo"], timeoutMs=1000)
    assert len(bench.states()) == 2
    group = bench.group()
    assert group is not None
    assert list(group.initialized) == [bench.ids["bar"]]
    tombstones = [each["record"]["topicId"] for each in bench.records() if is_state_gone(each)]
    assert tombstones == [bench.ids["foo"]] * 3
    assert bench.reported(bench.later("a", 3)) == {"bar": [0, 1]}


def test_initialized_states_are_not_requested_again() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    before = len(bench.records())
    bench.later("a", 3)
    written = [each["record"]["type"] for each in bench.records()[before:]]
    assert "ShareStateWritten" not in written


def test_deleting_a_group_deletes_its_states() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    delete = {"groupsNames": [GROUP]}
    assert bench.request("DELETE_GROUPS", 2, delete)["results"][0]["errorCode"] == 68
    bench.beat("a", -1)
    assert bench.request("DELETE_GROUPS", 2, delete)["results"][0]["errorCode"] == 0
    assert (bench.group(), bench.states()) == (None, [])


@pytest.mark.parametrize("name", ["share.session.timeout.ms", "share.heartbeat.interval.ms"])
def test_group_has_its_own_configs(name: str) -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    value = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}[name]
    setting = {"name": name, "value": value, "configOperation": 0}
    bench.request("INCREMENTAL_ALTER_CONFIGS", 1, setting, resourceType=32, resourceName=GROUP)
    interval = bench.beat("a", 2)["heartbeatIntervalMs"]
    bench.tick(49_999)
    is_there = bool(bench.group().members)
    assert (interval, is_there) == ((5_000, True) if "session" in name else (7_000, False))


def test_check_finds_violations() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    bench.later("a", 2)
    bench.reload()
    broken: dict[str, Callable[[ShareGroup], None]] = {
        "counts of topics": lambda group: group.subscribers.update(foo=2),
        "targets of unknown members": lambda group: group.target.update(b={bench.ids["foo"]: [0]}),
        "is above group epoch": lambda group: setattr(group, "group_epoch", 1),
        "above the assignment epoch": lambda group: setattr(group, "assignment_epoch", 2),
        "uninitialized partitions": lambda group: group.initialized[
            bench.ids["foo"]
        ].partitions.pop(),
        "has timers": lambda group: group.remove("a"),
    }
    for actual, breaks in broken.items():
        tables = bench.cell.tables
        breaks(groups.change_stored(tables.of(1), GROUP, ShareGroup))
        assert actual in " ".join(check.check(bench.cell))
        tables.rollback()
        assert check.check(bench.cell) == []


def test_other_brokers_reject_requests_for_the_group() -> None:
    bench = ShareBench(offsets_topic_num_partitions=1)
    body = {"groupId": GROUP, "memberId": "a", "memberEpoch": 0, "subscribedTopicNames": ["foo"]}
    fresh = Bench()
    assert fresh.request("SHARE_GROUP_HEARTBEAT", 1, body)["errorCode"] == 16
    assert bench.request("SHARE_GROUP_HEARTBEAT", 1, body)["errorCode"] == 0


def test_restored_cell_continues() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    bench.reload()
    assert bench.reported(bench.later("a", 2)) == {"foo": [0, 1, 2]}


def test_share_groups_need_the_feature() -> None:
    bench = ShareBench()
    update = {"feature": "share.version", "maxVersionLevel": 0, "upgradeType": 2}
    bench.request("UPDATE_FEATURES", 2, {"timeoutMs": 1000, "featureUpdates": [update]})
    assert bench.beat("a", 0, "foo")["errorCode"] == 35
    request = {"groupIds": [GROUP], "includeAuthorizedOperations": False}
    described = bench.request("SHARE_GROUP_DESCRIBE", 1, request)["groups"]
    assert [each["errorCode"] for each in described] == [35]


def test_member_gets_a_response_while_the_state_topic_cannot_be_created() -> None:
    """Two replicas are required, but only one broker is alive."""
    factor = {"share.coordinator.state.topic.replication.factor": "2"}
    bench = ShareBench(brokers=(1, 2), given=factor)
    replicas = Replicas((1,), bench)
    replicas.stop(2)
    assert bench.request("UNREGISTER_BROKER", 0, brokerId=2)["errorCode"] == 0
    epoch = bench.beat("m1", 0, "foo")["memberEpoch"]
    replicas.start(2)
    bench.later("m1", epoch)
    assert bench.states() == []
    bench.tick(RETRY_MS)
    epoch = bench.beat("m1", epoch)["memberEpoch"]
    assert bench.states()
    assert bench.reported(bench.later("m1", epoch)) == {"foo": [0, 1, 2]}
