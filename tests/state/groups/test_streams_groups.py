"""Streams groups (KIP-1071): joins, topologies, task assignment, leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.check import check
from brokertwin.state.cluster import features
from brokertwin.state.groups import groups
from brokertwin.state.groups.streams_group import StreamsGroup
from tests.support.machine import RefusedError
from tests.support.streams_groups import (
    CHANGELOG,
    COUNTING,
    GROUP,
    NO_TASKS,
    PASSING,
    REPARTITION,
    STATEFUL,
    StreamsBench,
    codes,
    has,
    internal,
    part,
    task_ids,
    tasks,
    topology,
)

ALL = ["0_0", "0_1", "0_2", "0_3"]


def test_first_member_has_all_tasks() -> None:
    bench = StreamsBench()
    joined = bench.join("a")
    assert (joined["memberEpoch"], codes(joined), tasks(joined["activeTasks"])) == (2, [], ALL)
    again = bench.beat("a", 2)
    assert (again["memberEpoch"], again["activeTasks"], again["status"]) == (2, None, [])
    assert bench.describe()["groupState"] == "Stable"


def test_group_waits_for_more_members_in_the_initial_delay() -> None:
    bench = StreamsBench(delay_ms=3_000)
    assert (codes(bench.join("a")), codes(bench.join("b"))) == ([5], [5])
    assert codes(bench.beat("a", 1)) == [5], "the topology is then known at the end of the delay"
    bench.tick(3_000)
    reported = [bench.beat(name, 1) for name in ("a", "b")]
    assert [len(tasks(each["activeTasks"])) for each in reported] == [2, 2]


def test_no_assignment_after_the_delay_without_another_heartbeat() -> None:
    """As in Kafka, the first heartbeat's configured topology is lost."""
    bench = StreamsBench(delay_ms=3_000)
    bench.join("a")
    bench.tick(3_000)
    assert bench.describe()["groupState"] == "Assigning"
    assert tasks(bench.beat("a", 1)["activeTasks"]) == ALL


def test_task_is_revoked_before_it_is_reassigned() -> None:
    bench = StreamsBench()
    bench.join("a")
    joined = bench.later("b", 0, **_join("b"))
    assert (joined["memberEpoch"], tasks(joined["activeTasks"])) == (3, [])
    response = bench.beat("a", 2)
    kept = tasks(response["activeTasks"])
    assert (response["memberEpoch"], len(kept)) == (2, 2)
    assert tasks(bench.beat("b", 3)["activeTasks"]) == [], "a has not revoked them yet"
    assert bench.beat("a", 2, **has(ALL))["memberEpoch"] == 2, "still not"
    assert bench.beat("a", 2, **has(kept))["memberEpoch"] == 3
    given = tasks(bench.beat("b", 3)["activeTasks"])
    assert sorted(kept + given) == ALL
    assert bench.describe()["groupState"] == "Stable"


def _join(member: str, runs: dict[str, Any] = PASSING, **fields: Any) -> dict[str, Any]:
    given = {"rebalanceTimeoutMs": 60_000, "topology": runs, "processId": f"p-{member}"}
    return {**given, **NO_TASKS, "clientTags": [], **fields}


def test_member_that_does_not_revoke_tasks_in_time_is_removed() -> None:
    bench = StreamsBench()
    bench.join("a", rebalanceTimeoutMs=500)
    bench.later("b", 0, **_join("b"))
    bench.beat("a", 2)
    bench.tick(499)
    assert set(bench.group().members) == {"a", "b"}
    bench.tick(1)
    assert set(bench.group().members) == {"b"}
    bench.now += 1_000
    assert tasks(bench.beat("b", 3)["activeTasks"]) == ALL


def test_member_without_heartbeats_is_removed() -> None:
    bench = StreamsBench()
    bench.join("a")
    bench.tick(44_999)
    assert bench.group().members
    bench.tick(1)
    assert not bench.group().members
    assert bench.beat("a", 2)["errorCode"] == Error.UNKNOWN_MEMBER_ID


def test_previous_epoch_is_valid_if_the_member_owns_only_assigned_tasks() -> None:
    bench = StreamsBench()
    bench.join("a")
    bench.later("b", 0, **_join("b"))
    kept = tasks(bench.beat("a", 2)["activeTasks"])
    bench.beat("a", 2, **has(kept))
    assert bench.beat("a", 2, **has(kept))["memberEpoch"] == 3
    refused = [bench.beat("a", 2), bench.beat("a", 2, **has(ALL)), bench.beat("a", 4)]
    assert [each["errorCode"] for each in refused] == [Error.FENCED_MEMBER_EPOCH] * 3


def test_internal_topics_are_created_with_their_configs() -> None:
    bench = StreamsBench()
    joined = bench.join("a", COUNTING)
    assert codes(joined) == [3]
    assert joined["status"][0]["statusDetail"].startswith("Internal topics are missing: ")
    assert bench.describe()["groupState"] == "NotReady"
    response = bench.later("a", 2)
    assert (codes(response), len(tasks(response["activeTasks"]))) == ([], 8)
    resources = [
        {"resourceType": 2, "resourceName": name, "configurationKeys": ["cleanup.policy"]}
        for name in (REPARTITION, CHANGELOG)
    ]
    body = {"resources": resources, "includeSynonyms": False, "includeDocumentation": False}
    results = bench.request("DESCRIBE_CONFIGS", 4, body)["results"]
    assert [each["configs"][0]["value"] for each in results] == ["delete", "compact"]
    described = bench.describe()["topology"]["subtopologies"][1]["stateChangelogTopics"]
    assert described[0]["partitions"] == 4


def test_failed_topic_is_not_requested_again_at_once() -> None:
    bench = StreamsBench()
    changelog = {**internal("g-c"), "replicationFactor": 3}
    bench.join("a", topology(part("0", "foo", stateChangelogTopics=[changelog])))
    (status,) = bench.beat("a", 2)["status"]
    why = "; Creation failed: g-c (Unable to replicate the partition 3 time(s): "
    assert why in status["statusDetail"]
    bench.now += 9_999
    assert "Creation failed" in bench.beat("a", 2)["status"][0]["statusDetail"]
    bench.now += 1
    assert "Creation failed" not in bench.beat("a", 2)["status"][0]["statusDetail"]
    assert "Creation failed" in bench.beat("a", 2)["status"][0]["statusDetail"], "retried"


def test_created_grown_and_deleted_topics_are_detected() -> None:
    bench = StreamsBench()
    joined = bench.join("a", topology(part("0", "late")))
    assert (codes(joined), joined["memberEpoch"]) == ([1], 2)
    bench.topic("late", 1)
    assert tasks(bench.later("a", 2)["activeTasks"]) == ["0_0"]
    bench.request("CREATE_PARTITIONS", 3, name="late", count=2, assignments=None, timeoutMs=1000)
    assert tasks(bench.later("a", 3)["activeTasks"]) == ["0_0", "0_1"]
    bench.request("DELETE_TOPICS", 5, topicNames=["late"], timeoutMs=1000)
    gone = bench.later("a", 4, **NO_TASKS)
    assert (codes(gone), tasks(gone["activeTasks"])) == ([1], [])


def test_stateful_tasks_have_standbys_on_other_processes() -> None:
    bench = StreamsBench(given={"group.streams.num.standby.replicas": "1"})
    bench.join("a", STATEFUL)
    bench.later("a", 2)
    bench.later("b", 0, **_join("b", STATEFUL))
    for _ in range(4):
        for name in ("a", "b"):
            member = bench.group().members[name]
            active = [f"{p}_{n}" for p, ns in member.assigned.active.items() for n in ns]
            copies = [f"{p}_{n}" for p, ns in member.assigned.standby.items() for n in ns]
            bench.later(name, member.member_epoch, **has(active, copies))
    described = {each["memberId"]: each["assignment"] for each in bench.describe()["members"]}
    active = {name: set(tasks(each["activeTasks"])) for name, each in described.items()}
    copies = {name: set(tasks(each["standbyTasks"])) for name, each in described.items()}
    assert active["a"] | active["b"] == set(ALL)
    assert copies == {"a": active["b"], "b": active["a"]}


def test_changed_number_of_standbys_changes_the_assignment() -> None:
    bench = StreamsBench()
    bench.join("a", STATEFUL)
    bench.later("a", 2)
    setting = {"name": "streams.num.standby.replicas", "configOperation": 0, "value": "1"}
    resource = {"resourceType": 32, "resourceName": GROUP, "configs": [setting]}
    bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource], "validateOnly": False})
    assert bench.later("a", 3)["memberEpoch"] == 4


def test_older_topology_is_stale_and_another_one_is_rejected() -> None:
    bench = StreamsBench()
    bench.join("a", topology(part("0", "foo"), epoch=2))
    assert codes(bench.join("b", topology(part("0", "bar"), epoch=1))) == [0, 5]
    refused = bench.join("c", topology(part("0", "bar"), epoch=3))
    assert refused["errorMessage"] == "Topology updates are not supported yet."


def test_shutdown_request_is_sent_until_the_group_is_empty() -> None:
    bench = StreamsBench()
    bench.join("a")
    bench.later("b", 0, **_join("b"))
    assert codes(bench.beat("a", 2, shutdownApplication=True)) == [4]
    assert codes(bench.beat("b", 3)) == [4]
    for name in ("a", "b"):
        assert bench.beat(name, -1)["errorCode"] == 0
    assert 4 not in codes(bench.join("a"))


def test_members_get_the_partitions_of_other_instances() -> None:
    bench = StreamsBench()
    fields = {"userEndpoint": {"host": "ha", "port": 8080}}
    bench.join("a", **fields)
    response = bench.beat("a", 2, endpointInformationEpoch=-1)
    (place,) = response["partitionsByUserEndpoint"]
    assert (place["userEndpoint"], response["endpointInformationEpoch"]) == (
        fields["userEndpoint"],
        0,
    )
    assert place["activePartitions"] == [{"topic": "foo", "partitions": [0, 1, 2, 3]}]
    assert bench.beat("a", 2)["partitionsByUserEndpoint"] is None


def test_ports_are_uint16() -> None:
    bench = StreamsBench()
    bench.join("a", userEndpoint={"host": "ha", "port": 65_535})
    with pytest.raises(RefusedError, match="out of range"):
        bench.join("b", userEndpoint={"host": "hb", "port": 65_536})


def test_full_group_rejects_joins_only() -> None:
    bench = StreamsBench(given={"group.streams.max.size": "1"})
    bench.join("a")
    assert bench.join("b")["errorCode"] == Error.GROUP_MAX_SIZE_REACHED
    assert bench.join("a")["errorCode"] == Error.GROUP_MAX_SIZE_REACHED
    assert bench.beat("a", 2)["errorCode"] == 0


def test_static_member_that_is_away_revokes_its_tasks_and_keeps_the_others() -> None:
    bench = StreamsBench(brokertwin_kafka_version="4.4")
    bench.join("a", instanceId="i", rebalanceTimeoutMs=500)
    bench.later("b", 0, **_join("b"))
    kept = tasks(bench.beat("a", 2, instanceId="i")["activeTasks"])
    assert tasks(bench.beat("b", 3)["activeTasks"]) == []
    assert bench.beat("a", -2, instanceId="i")["memberEpoch"] == -2
    given = tasks(bench.beat("b", 3)["activeTasks"])
    assert sorted(kept + given) == ALL
    bench.tick(1_000)
    assert set(bench.group().members) == {"a", "b"}, "it need not revoke in time"
    again = bench.join("c", instanceId="i", processId="p-a", rebalanceTimeoutMs=60_000)
    assert (again["memberEpoch"], tasks(again["activeTasks"])) == (3, kept)
    assert set(bench.group().members) == {"b", "c"}


def test_process_of_a_static_member_changes_the_assignment() -> None:
    bench = StreamsBench(brokertwin_kafka_version="4.4")
    bench.join("a", instanceId="i")
    bench.beat("a", -2, instanceId="i")
    bench.now += 1_000
    assert bench.join("c", instanceId="i", processId="p-c")["memberEpoch"] == 3


def test_full_group_of_4_4_accepts_its_own_members() -> None:
    bench = StreamsBench(brokertwin_kafka_version="4.4", given={"group.streams.max.size": "1"})
    bench.join("a", instanceId="i")
    bench.beat("a", -2, instanceId="i")
    assert bench.join("b", instanceId="j")["errorCode"] == Error.GROUP_MAX_SIZE_REACHED
    assert bench.join("c", instanceId="i")["errorCode"] == 0


def test_streams_groups_need_the_feature() -> None:
    bench = StreamsBench()
    bench.request("UPDATE_FEATURES", 1, feature=features.STREAMS, maxVersionLevel=0, upgradeType=2)
    assert bench.join("a")["errorCode"] == Error.UNSUPPORTED_VERSION
    assert bench.describe()["errorCode"] == Error.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"instanceId": "i"}, Error.INVALID_REQUEST),
        ({"memberId": " "}, Error.INVALID_REQUEST),
        ({"rebalanceTimeoutMs": -1}, Error.INVALID_REQUEST),
        ({"activeTasks": None}, Error.INVALID_REQUEST),
        ({"topology": None}, Error.INVALID_REQUEST),
        ({"topology": topology(part("0", "__consumer_offsets"))}, Error.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(part("0", "a b"))}, Error.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(part("0"))}, Error.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(part("0", "foo"), part("0"))}, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_rejected_join_changes_nothing(fields: dict[str, Any], error: Error) -> None:
    bench = StreamsBench()
    assert bench.join("a", **fields)["errorCode"] == error
    assert groups.find(bench.cell.tables.of(1), GROUP) is None
    assert check(bench.cell) == []


def test_unknown_tasks_are_rejected() -> None:
    bench = StreamsBench()
    bench.join("a")
    for wrong in (["1_0"], ["0_4"]):
        assert bench.beat("a", 2, **has(wrong))["errorCode"] == Error.INVALID_REQUEST
    refused = bench.beat("a", 2, activeTasks=task_ids(ALL))
    assert refused["errorMessage"] == "If one task-type is non-null, all must be non-null."


# Offsets and other requests


def commit(
    bench: StreamsBench, member: str, epoch: int, *partitions: int, topic: str = "foo"
) -> int:
    offsets = [{"partitionIndex": each, "committedOffset": 1} for each in partitions]
    body = {"groupId": GROUP, "memberId": member, "generationIdOrMemberEpoch": epoch}
    body |= {"topics": [{"name": topic, "partitions": offsets}]}
    response = bench.request("OFFSET_COMMIT", 9, body)["topics"][0]["partitions"]
    (error,) = {each["errorCode"] for each in response}
    return error


def test_offsets_are_committed_in_the_epoch_of_the_task() -> None:
    bench = StreamsBench()
    bench.join("a")
    bench.later("b", 0, **_join("b"))
    kept = tasks(bench.beat("a", 2)["activeTasks"])
    mine = [int(each[-1]) for each in kept]
    given = [each for each in range(4) if each not in mine]
    assert commit(bench, "a", 2, 0, 1, 2, 3) == 0, "including tasks to revoke"
    bench.beat("a", 2, **has(kept))
    bench.beat("b", 3)
    assert [commit(bench, "a", epoch, *mine) for epoch in (3, 2)] == [0, 0]
    assert commit(bench, "a", 2, *given) == Error.STALE_MEMBER_EPOCH
    assert commit(bench, "a", 1, *mine) == Error.STALE_MEMBER_EPOCH
    assert commit(bench, "a", 2, 0, topic="bar") == Error.STALE_MEMBER_EPOCH
    assert commit(bench, "b", 4, *given) == Error.STALE_MEMBER_EPOCH
    assert commit(bench, "x", 3, 0) == Error.UNKNOWN_MEMBER_ID


def test_empty_group_can_be_deleted_completely() -> None:
    bench = StreamsBench(delay_ms=3_000)
    bench.join("a")
    deleted = {"groupsNames": [GROUP]}
    assert bench.request("DELETE_GROUPS", 2, deleted)["results"][0]["errorCode"] == 68
    bench.beat("a", 1)
    bench.beat("a", -1)
    assert bench.request("DELETE_GROUPS", 2, deleted)["results"][0]["errorCode"] == 0
    assert groups.find(bench.cell.tables.of(1), GROUP) is None
    assert not bench.cell.tables.live_groups.keys("1/live-streams/")
    assert check(bench.cell) == []


def test_groups_are_listed_with_kafkas_state_names() -> None:
    bench = StreamsBench()
    bench.join("a", topology(part("0", "absent")))

    def listed(state: str) -> int:
        return len(bench.request("LIST_GROUPS", 5, statesFilter=[state])["groups"])

    assert [listed(state) for state in ("NotReady", "not_ready", "stable")] == [0, 1, 0]


def test_streams_and_classic_groups_replace_empty_groups_of_each_other() -> None:
    bench = StreamsBench()
    assert commit(bench, "", -1, 0) == 0
    bench.join("a")
    join = {"groupId": GROUP, "sessionTimeoutMs": 45_000, "rebalanceTimeoutMs": 60_000}
    join |= {"memberId": "", "protocolType": "consumer"}
    join |= {"protocols": [{"name": "range", "metadata": ""}]}
    refused = bench.request("JOIN_GROUP", 3, join)
    assert refused["errorCode"] == Error.INCONSISTENT_GROUP_PROTOCOL
    bench.beat("a", -1)
    assert bench.request("JOIN_GROUP", 4, join)["errorCode"] == Error.MEMBER_ID_REQUIRED
    assert not isinstance(groups.find(bench.cell.tables.of(1), GROUP), StreamsGroup)
    assert check(bench.cell) == []


def test_check_finds_violations() -> None:
    broken: dict[str, Callable[[StreamsGroup], None]] = {
        "above the assignment epoch": lambda group: setattr(group, "assignment_epoch", 1),
        "targets of unknown members": lambda group: group.target.update(x=group.target["a"]),
        "has timers": lambda group: group.put(type(group.members["a"])("b")),
        "but no topology": lambda group: setattr(group, "topology", None),
        "is above group epoch": lambda group: setattr(group, "group_epoch", 1),
        "is owned more than once": lambda group: group.put(_again(group)),
    }
    for what, breaks in broken.items():
        bench = StreamsBench()
        bench.join("a")
        breaks(groups.change_stored(bench.cell.tables.of(1), GROUP, StreamsGroup))
        assert any(what in each for each in check(bench.cell)), what


def _again(group: StreamsGroup) -> Any:
    member = group.members["a"]
    return type(member)("b", member_epoch=2, assigned=member.assigned)
