"""What a streams group's coordinator knows beside its records, as random walks met it in Kafka."""

from typing import Any

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.streams_records import MemberTasks
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMember
from brokertwin.state.groups.task_assignment import TaskOwners
from tests.support.streams_groups import CHANGELOG, StreamsBench, internal, part, topology

HERE: dict[str, Any] = {"userEndpoint": {"host": "ha", "port": 8080}}
THERE: dict[str, Any] = {"userEndpoint": {"host": "hb", "port": 8080}}
ABSENT = topology(part("0", "foo"), part("1", "absent"))
"""Reads a topic that is not there: who has an endpoint cannot join."""


def endpoints(told: Any) -> list[str]:
    """The hosts of the instances that somebody is told of."""
    return [each["userEndpoint"]["host"] for each in told["partitionsByUserEndpoint"]]


def test_a_join_at_which_kafka_fails_has_counted_the_endpoints() -> None:
    bench = StreamsBench()
    bench.join("a", ABSENT)
    bench.beat("a", 2)
    refused = bench.join("b", ABSENT, **HERE)
    assert refused["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    told = bench.beat("a", 2)
    assert (told["endpointInformationEpoch"], endpoints(told)) == (1, [])


def test_who_moves_is_told_its_former_endpoint_once_more() -> None:
    """Kafka remembers what it has told of a member until a record of that is written."""
    bench = StreamsBench()
    bench.join("a", **HERE)
    assert endpoints(bench.beat("a", 2, endpointInformationEpoch=-1)) == ["ha"]
    assert endpoints(bench.later("a", 2, endpointInformationEpoch=-1, **THERE)) == ["ha"]
    assert endpoints(bench.beat("a", 3, endpointInformationEpoch=-1)) == ["hb"]


def test_nobody_was_told_of_who_moves_at_once() -> None:
    bench = StreamsBench()
    bench.join("a", **HERE)
    assert endpoints(bench.later("a", 2, endpointInformationEpoch=-1, **THERE)) == ["hb"]


def test_a_topology_epoch_is_not_below_0() -> None:
    bench = StreamsBench()
    bench.join("a")
    older = bench.join("b", topology(part("0", "foo"), epoch=-1))
    assert older["errorCode"] == Error.UNKNOWN_SERVER_ERROR


def test_topics_are_looked_at_again_below_an_epoch_that_was_given_in_vain() -> None:
    """A refused heartbeat has noted what it saw; at its epoch nobody looks again."""
    runs = topology(part("0", "foo"), part("1", "absent"), part("2", "late"))
    bench = StreamsBench()
    bench.join("a", runs)
    bench.beat("a", 2)
    bench.topic("late")
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert bench.beat("a", -1)["errorCode"] == 0
    bench.now += 1_000
    assert bench.join("c", runs)["memberEpoch"] == 4, "with what the group knew of topics before"
    assert bench.later("c", 4)["memberEpoch"] == 4
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert bench.later("c", 4)["memberEpoch"] == 5


def test_what_a_refused_heartbeat_found_is_shown_with_the_next_record() -> None:
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
    bench.request("DELETE_TOPICS", 5, {"topicNames": ["going"], "timeoutMs": 1_000})
    assert bench.join("b", runs, **HERE)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert shown() == 4
    assert bench.beat("a", -1)["errorCode"] == 0
    assert shown() == 0, "as the topology says"


def test_a_process_lets_go_of_a_copy_though_another_member_of_it_has_the_same() -> None:
    """Kafka notes processes, not members; that happens where a member says another process."""
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
    assert holds(), "whoever is written again is noted again"


def test_tags_that_repeat_are_looked_at_when_the_member_is_known() -> None:
    bench = StreamsBench()
    bench.join("a")
    twice = [{"key": "k", "value": "v"}] * 2
    assert bench.beat("a", 9, clientTags=twice)["errorCode"] == Error.FENCED_MEMBER_EPOCH
    assert bench.beat("a", 2, clientTags=twice)["errorCode"] == Error.UNKNOWN_SERVER_ERROR
