"""Partition counts of a topology's topics, and invalid topologies."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestTopology,
)
from brokertwin.state.apis.streams_bodies import topology_of
from brokertwin.state.core.api import Refused
from brokertwin.state.groups.topology_topics import (
    ConfiguredTopology,
    TopologyStatus,
    configure,
    summary,
)
from tests.support.streams_groups import internal, part, topology


def configured(runs: dict[str, Any], **existing: int) -> ConfiguredTopology:
    given = topology_of(msgspec.convert(runs, StreamsGroupHeartbeatRequestTopology))
    assert given is not None
    return configure(given, {name.replace("_", "-"): n for name, n in existing.items()}.get)


def fault(runs: dict[str, Any], **existing: int) -> tuple[int, str]:
    found = configured(runs, **existing)
    assert found.fault is not None
    return found.fault


def refused(runs: dict[str, Any], **existing: int) -> Error:
    with pytest.raises(Refused) as refused:
        configured(runs, **existing)
    return refused.value.error


def joined(*sources: int, repartitions: tuple[int, ...] = ()) -> list[dict[str, list[int]]]:
    places = {"sourceTopics": list(sources), "repartitionSourceTopics": list(repartitions)}
    return [{**places, "sourceTopicRegex": []}]


def test_repartition_topic_has_the_maximum_count_that_its_writers_read() -> None:
    """Independent of the order of the subtopologies."""
    runs = topology(
        part("0", repartitionSourceTopics=[internal("r2")], stateChangelogTopics=[internal("c")]),
        part("1", repartitionSourceTopics=[internal("r1")], repartitionSinkTopics=["r2"]),
        part("2", "a", "b", repartitionSinkTopics=["r1"]),
    )
    found = configured(runs, a=2, b=5, r1=5)
    assert isinstance(found, ConfiguredTopology)
    assert found.fault == (3, "Internal topics are missing: r2, c")
    assert [topic.partitions for topic in found.missing] == [5, 5]
    assert found.subtopologies is not None
    assert [each.task_count for each in found.subtopologies.values()] == [5, 5, 5]


def test_copartitioned_repartition_topics_have_equal_counts() -> None:
    both = [internal("r1"), internal("r2")]
    runs = topology(
        part("0", "a", repartitionSinkTopics=["r1"]),
        part("1", "b", repartitionSinkTopics=["r2"]),
        part("2", repartitionSourceTopics=both, copartitionGroups=joined(repartitions=(0, 1))),
    )
    found = configured(runs, a=2, b=7)
    assert isinstance(found, ConfiguredTopology)
    assert {topic.name: topic.partitions for topic in found.missing} == {"r1": 7, "r2": 7}


def test_copartitioned_topics_with_different_counts_are_a_fault() -> None:
    sources = topology(part("0", "a", "b", copartitionGroups=joined(0, 1)))
    reported = "Following topics do not have the same number of partitions: [{a=1, b=2}]"
    assert fault(sources, a=1, b=2) == (TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, reported)
    fixed, both = [internal("r", 3)], joined(0, repartitions=(0,))
    runs = topology(
        part("0", "a", repartitionSinkTopics=["r"]),
        part("1", "b", repartitionSourceTopics=fixed, copartitionGroups=both),
    )
    code, text = fault(runs, a=1, b=2)
    assert (code, "[3] of repartition topic [r]" in text) == (2, True)


def test_internal_topic_with_a_wrong_count_is_a_fault() -> None:
    runs = topology(part("0", "a", stateChangelogTopics=[internal("c")]))
    reported = "Existing topic c has different number of partitions: expected 3, found 1"
    assert fault(runs, a=3, c=1) == (TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, reported)
    complete = configured(runs, a=3, c=3)
    assert isinstance(complete, ConfiguredTopology)
    assert complete.is_ready


def test_at_most_three_missing_topics_are_listed() -> None:
    assert fault(topology(part("0", "b", "a"))) == (1, "Source topics a, b are missing.")
    assert summary(["a", "b", "c", "d", "e"]) == "a, b, c and 2 additional topics"


def test_loops_of_repartition_topics_are_rejected() -> None:
    with pytest.raises(Refused, match="There may be loops in the topology"):
        configured(topology(*LOOP))


LOOP = [
    part("0", repartitionSourceTopics=[internal("r1")], repartitionSinkTopics=["r2"]),
    part("1", repartitionSourceTopics=[internal("r2")], repartitionSinkTopics=["r1"]),
]


@pytest.mark.parametrize(
    ("runs", "error"),
    [
        (topology(*LOOP), Error.STREAMS_INVALID_TOPOLOGY),
        (topology(part("0")), Error.STREAMS_INVALID_TOPOLOGY),
        (
            topology(part("0", repartitionSourceTopics=[internal("r")])),
            Error.STREAMS_INVALID_TOPOLOGY,
        ),
        (topology(part("0", "a", copartitionGroups=joined(1))), Error.UNKNOWN_SERVER_ERROR),
        (
            topology(part("0", "a", stateChangelogTopics=[internal("c"), internal("c")])),
            Error.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_invalid_topology_is_rejected(runs: dict[str, Any], error: Error) -> None:
    assert refused(runs, a=2) == error
