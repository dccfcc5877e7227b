"""Counted responses of a gateway, and its status document."""

import pytest

from brokertwin.cli.watching.sources import GatewaySource
from brokertwin.cli.watching.status import Phase, Status
from brokertwin.gateway.traffic import BOUNDS_S, Traffic, error_paths
from brokertwin.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from brokertwin.protocol.kafka_apis import API_KEYS
from tests.support.gateways import Running, running_gateway
from tests.support.patience import wait_until


def test_error_codes_are_counted_wherever_the_schema_has_them() -> None:
    traffic = Traffic()
    partitions = [{"partitionIndex": n, "errorCode": code} for n, code in enumerate([0, 1, 1])]
    fetched = {"errorCode": 0, "responses": [{"partitions": partitions}, {"partitions": []}]}
    traffic.count(API_KEYS["FETCH"], fetched, 0.004)
    old = [{"name": "t", "resultsByPartition": [{"partitionErrorCode": 47}]}]
    traffic.count(API_KEYS["ADD_PARTITIONS_TO_TXN"], {"resultsByTopicV3AndBelow": old}, 40.0)
    assert traffic.responses_by_name == {"FETCH": 1, "ADD_PARTITIONS_TO_TXN": 1}
    assert traffic.errors_by_name == {
        "FETCH": {"OFFSET_OUT_OF_RANGE": 2},
        "ADD_PARTITIONS_TO_TXN": {"INVALID_PRODUCER_EPOCH": 1},
    }


def test_errors_of_shared_response_parts_count_in_each_response() -> None:
    traffic = Traffic()
    partitions = [MetadataResponsePartition(error_code=code) for code in (0, 5)]
    shared = MetadataResponseTopic(error_code=3, partitions=partitions)
    response = MetadataResponse(topics=[shared, MetadataResponseTopic(error_code=3)])
    for _ in range(2):
        assert traffic.count(API_KEYS["METADATA"], response, 0.001) == [3, 3, 5]
    counted = {"UNKNOWN_TOPIC_OR_PARTITION": 4, "LEADER_NOT_AVAILABLE": 2}
    assert traffic.errors_by_name == {"METADATA": counted}


def test_unsent_response_counts_without_an_error() -> None:
    traffic = Traffic()
    traffic.count(API_KEYS["PRODUCE"], None, 0.0)
    assert (traffic.responses_by_name, traffic.errors) == ({"PRODUCE": 1}, {})


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.001, 0), (0.0011, 1), (30.0, 13), (31.0, len(BOUNDS_S))]
)
def test_time_is_in_the_first_class_whose_bound_it_does_not_exceed(
    seconds: float, place: int
) -> None:
    traffic = Traffic()
    traffic.count(API_KEYS["FETCH"], None, seconds)
    assert traffic.times_by_name["FETCH"].classes.index(1) == place


def test_errors_are_those_that_kafka_counts() -> None:
    assert error_paths(API_KEYS["CREATE_TOPICS"]) == (("topics", "errorCode"),)
    assert ("responses", "partitions", "errorCode") in error_paths(API_KEYS["FETCH"])


def looked_at(gateway: Running) -> Status:
    """Return the gateway's document, requested like by a thread of the server."""

    async def source() -> GatewaySource:
        made = GatewaySource(gateway.gateway, gateway.engine, gateway.engine.columns)
        made.pulse.beat()
        return made

    return gateway.run(source()).status()  # type: ignore[no-any-return]


def test_running_gateway_shows_its_clients_and_its_state() -> None:
    with running_gateway(brokers=2) as gateway, gateway.client() as client:
        client.topic("orders", 3)
        client.call("METADATA", 12, name="nowhere", allowAutoTopicCreation=False)
        client.call("API_VERSIONS", 0, {})
        found = looked_at(gateway)
        assert found.gateway is not None
        assert (found.kind, found.phase, found.name) == ("gateway", Phase.RUNNING, "tested")
        assert (found.gateway.engine, found.gateway.connections) == ("local", 1)
        assert found.gateway.brokers.keys() == {1, 2}
        assert found.responses == {"METADATA": 1, "API_VERSIONS": 1, "CREATE_TOPICS": 1}
        assert found.errors == {"METADATA": {"UNKNOWN_TOPIC_OR_PARTITION": 1}}
        assert found.state is not None
        assert found.state.partitions == 3
        assert found.state_failure == ""
    wait_until(lambda: gateway.gateway.connections == 0)
