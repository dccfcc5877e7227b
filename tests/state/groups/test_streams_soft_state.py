"""Volatile state of a streams group's coordinator, found by random walks."""

from typing import Any

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.state.groups.streams_group import MemberTasks, StreamsGroup, StreamsMember
from brokertwin.state.groups.task_assignment import TaskOwners
from tests.support.streams_groups import CHANGELOG, StreamsBench, internal, part, topology

HERE: dict[str, Any] = {"userEndpoint": {"host": "ha", "port": 8080}}
THERE: dict[str, Any] = {"userEndpoint": {"host": "hb", "port": 8080}}
ABSENT = topology(part("0", "foo"), part("1", "absent"))
"""Reads a missing topic, so members with an endpoint cannot join."""


def endpoints(reported: Any) -> list[str]:
    return [each["userEndpoint"]["host"] for each in reported["partitionsByUserEndpoint"]]


def test_join_that_fails_in_kafka_has_bumped_the_endpoint_epoch() -> None:
    bench = StreamsBench()
    bench.join("a", ABSENT)
    bench.beat("a", 2)
    refused = bench.join("b", ABSENT, **HERE)
    assert refused["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    response = bench.beat("a", 2)
    assert (response["endpointInformationEpoch"], endpoints(response)) == (1, [])


def test_former_endpoint_is_sent_once_more_after_a_change() -> None:
    """Kafka caches the endpoint until a record of the member is written."""
    bench = StreamsBench()
    bench.join("a", **HERE)
    assert endpoints(bench.beat("a", 2, endpointInformationEpoch=-1)) == ["ha"]
    assert endpoints(bench.later("a", 2, endpointInformationEpoch=-1, **THERE)) == ["ha"]
    assert endpoints(bench.beat("a", 3, endpointInformationEpoch=-1)) == ["hb"]


def test_new_endpoint_is_sent_if_the_former_one_was_not_published() -> None:
    bench = StreamsBench()
    bench.join("a", **HERE)
    assert endpoints(bench.later("a", 2, endpointInformationEpoch=-1, **THERE)) == ["hb"]


def test_topology_epoch_must_not_be_negative() -> None:
    bench = StreamsBench()
    bench.join("a")
    older = bench.join("b", topology(part("0", "foo"), epoch=-1))
    assert older["errorCode"] == Error.UNKNOWN_SERVER_ERROR


def test_topics_are_configured_again_below_the_epoch_of_a_failed_heartbeat() -> None:
    """A rejected heartbeat has noted the topics of its epoch."""
    runs = topology(part("0", "foo"), part("1", "absent"), part("2", "late"))
    bench = StreamsBench()
    bench.join("a", runs)
    bench.beat("a", 2)
    bench.topic("late")
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert bench.beat("a", -1)["errorCode"] == 0
    bench.now += 1_000
    assert bench.join("c", runs)["memberEpoch"] == 4, "with the former topology"
    assert bench.later("c", 4)["memberEpoch"] == 4
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert bench.later("c", 4)["memberEpoch"] == 5


def test_topology_of_a_rejected_heartbeat_is_visible_with_the_next_record() -> None:
    runs = topology(
        part("0", "foo", stateChangelogTopics=[internal(CHANGELOG)]), part("1", "going")
    )
    bench = StreamsBench()
    bench.topic("going")
    bench.join("a", runs)
    bench.later("a", 2)

    def shown() -> int:
        first = bench.describe()["topology"]["subtopologies"][0]
        return int(first["stateChangelogTopics"][0]["partitions"])

    assert shown() == 4
    bench.request("DELETE_TOPICS", 5, topicNames=["going"], timeoutMs=1_000)
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert shown() == 4
    assert bench.beat("a", -1)["errorCode"] == 0
    assert shown() == 0, "as the topology says"


def test_process_releases_a_standby_although_another_member_has_it() -> None:
    """Kafka notes processes, and a member may change its process."""
    group, has = StreamsGroup("g"), MemberTasks(standby={"0": [0]})
    one, other = (StreamsMember(name, process_id="p", assigned=has) for name in "ab")

    def holds() -> bool:
        return TaskOwners(group).copy_test("p")("0", 0)

    for member in (one, other):
        group.put(member)
    assert holds()
    group.put(msgspec.structs.replace(other, process_id="q"))
    assert not holds()
    assert TaskOwners(group).copy_test("q")("0", 0)
    group.put(one)
    assert holds(), "a written member is noted again"


def test_duplicate_tags_are_rejected_after_the_member_is_validated() -> None:
    bench = StreamsBench()
    bench.join("a")
    twice = [{"key": "k", "value": "v"}] * 2
    assert bench.beat("a", 9, clientTags=twice)["errorCode"] == Error.FENCED_MEMBER_EPOCH
    assert bench.beat("a", 2, clientTags=twice)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
