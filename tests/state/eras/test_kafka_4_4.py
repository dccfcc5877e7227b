"""What Kafka 4.4 changes for clients; the exam's subject `kafka_4_4` has the recorded responses."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.core.settings import BrokerSettings
from tests.support.machine import Bench

SOFTWARE = {"clientSoftwareName": "exam", "clientSoftwareVersion": "1"}
ADDED = {18: 5, 28: 6, 42: 3, 88: 1, 89: 1, 93: 0, 94: 0}
"""API keys to the last version in 4.4."""


def bench(version: str = "4.4") -> Bench:
    made = Bench()
    made.settings.broker_settings = BrokerSettings(brokertwin_kafka_version=version)
    return made


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.4", ADDED), ("4.3", {18: 4, 28: 5, 42: 2, 88: 0, 89: 0})],
)
def test_api_versions_lists_those_of_the_release(version: str, expected: dict[int, int]) -> None:
    response = bench(version).request("API_VERSIONS", 4, SOFTWARE)
    listed = {each["apiKey"]: each["maxVersion"] for each in response["apiKeys"]}
    assert {key: last for key, last in listed.items() if key in ADDED} == expected
    others = {key: api.last for key, api in KAFKA_APIS.items() if key in listed.keys() - ADDED}
    assert {key: listed[key] for key in others} == others
    levels = {each["name"]: each["maxVersion"] for each in response["supportedFeatures"]}
    assert (levels["metadata.version"], levels["share.version"]) == (
        (33, 2) if version == "4.4" else (30, 1)
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, Error.NONE),
        ({"clusterId": "own", "nodeId": 1}, Error.NONE),
        ({"clusterId": "own", "nodeId": 2}, Error.REBOOTSTRAP_REQUIRED),
        ({"clusterId": "another", "nodeId": 1}, Error.REBOOTSTRAP_REQUIRED),
        ({"clusterId": "own"}, Error.INVALID_REQUEST),
        ({"nodeId": 1}, Error.INVALID_REQUEST),
    ],
)
def test_a_client_of_another_broker_must_bootstrap_again(
    wanted: dict[str, Any], expected: Error
) -> None:
    brokers = bench()
    own = brokers.request("METADATA", 12, topics=[])["clusterId"]
    if wanted.get("clusterId") == "own":
        wanted = {**wanted, "clusterId": own}
    response = brokers.request("API_VERSIONS", 5, SOFTWARE, **wanted)
    assert response["errorCode"] == expected
    assert bool(response["apiKeys"]) is (expected is Error.NONE)


def test_the_versions_of_4_4_are_unknown_to_4_3() -> None:
    assert bench("4.3").request("API_VERSIONS", 5, SOFTWARE)["errorCode"] == 35
    response = bench().request("DELETE_GROUPS", 3, groupsNames=["none"])
    assert response["results"] == [{"groupId": "none", "errorCode": 16, "errorMessage": None}]
    with pytest.raises(AssertionError, match="DELETE_GROUPS has the versions 0 to 2, not 3"):
        bench("4.3").request("DELETE_GROUPS", 3, groupsNames=["none"])
