"""The broker settings of former Kafka versions."""

import pytest

from brokertwin.clients.era import Era
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import image
from brokertwin.state.configs.broker_config import ACTED_ON, parse
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.eras.versions import SETTINGS, TRACES, BrokerEra
from tests.support.machine import Bench, header


def test_each_era_of_the_options_has_settings() -> None:
    assert set(SETTINGS) == set(BrokerEra) > {era.value for era in Era}


@pytest.mark.parametrize("version", SETTINGS)
def test_settings_of_a_version_have_effect(version: str) -> None:
    given = {**SETTINGS[version], **TRACES}
    assert given.keys() <= ACTED_ON
    assert parse(given)[1] == []


def test_offsets_topic_of_0_8_2_has_one_partition_one_replica_and_segments_of_10_mb() -> None:
    """The first commit creates it (seed 003)."""
    bench = Bench(brokers=(1, 2))
    bench.settings.broker_settings = parse(SETTINGS["0.8.2"])[0]
    bench.topic("test", 1)
    topics = [{"name": "test", "partitions": [{"partitionIndex": 0, "committedOffset": 5}]}]
    body = {"groupId": "g", "memberId": "", "generationIdOrMemberEpoch": -1, "topics": topics}
    bench.request("OFFSET_COMMIT", 8, body)
    topic = image.topic_by_name(bench.cell.tables.of(CONTROLLER), "__consumer_offsets")
    assert topic is not None
    assert [len(each.replicas) for each in topic.partitions] == [1]
    assert topic.configs["segment.bytes"] == str(10 * 1024 * 1024)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.8.2", Error.NONE), ("0.10", Error.NONE), ("2.0", Error.UNKNOWN_PRODUCER_ID)],
)
def test_unknown_producer_is_rejected_from_0_11_until_2_5(version: str, expected: Error) -> None:
    settings = parse(SETTINGS[version])[0]
    bench = Bench()
    bench.settings.broker_settings = settings
    bench.topic("test", 1)
    assert bench.append("test", header(1, 7, 0, 3))["errorCode"] == expected
