"""ApiVersions, a client's first request, as in Kafka 4.3.1."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.apis.registry import BUILT
from tests.support.machine import Bench

CAPTURES = Path(__file__).parents[2] / "captures"
SOFTWARE = {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "4.3.1"}
ONLY_ITSELF = [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]


def captured() -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Different exchanges of the captures: version, request, response."""
    found = {}
    for name in ("raw_fetch_errors", "group_old_versions_kp", "txn_loop_ck"):
        with gzip.open(CAPTURES / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for document in map(json.loads, lines):
                header = document["requestHeader"]
                if header["requestApiKey"] == 18:
                    version = header["requestApiVersion"]
                    found[version] = (version, document["request"], document["response"])
    return [found[version] for version in sorted(found)]


def test_captures_contain_versions_2_to_4() -> None:
    assert [version for version, _, _ in captured()] == [2, 3, 4]


@pytest.mark.parametrize(("version", "request_", "response"), captured())
def test_the_response_is_the_real_brokers(
    version: int, request_: dict[str, Any], response: dict[str, Any]
) -> None:
    reply = Bench().request("API_VERSIONS", version, request_)
    reply.pop("finalizedFeaturesEpoch", None)
    response.pop("finalizedFeaturesEpoch", None)
    assert json.dumps(reply) == json.dumps(response)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_unsupported_version_returns_the_range_of_api_versions_alone(version: int) -> None:
    response = Bench().request("API_VERSIONS", version)
    assert (response["errorCode"], response["apiKeys"]) == (35, ONLY_ITSELF)


@pytest.mark.parametrize("name", ["", "-", "a b", "a/", ".a", "a\n"])
def test_client_software_name_has_letters_digits_dots_and_dashes(name: str) -> None:
    bench = Bench()
    response = bench.request("API_VERSIONS", 3, SOFTWARE, clientSoftwareName=name)
    assert response == {"errorCode": 42, "apiKeys": [], "throttleTimeMs": 0}
    response = bench.request("API_VERSIONS", 3, SOFTWARE, clientSoftwareVersion=name)
    assert response["errorCode"] == 42
    assert bench.request("API_VERSIONS", 3, SOFTWARE)["errorCode"] == 0
    assert bench.request("API_VERSIONS", 2)["errorCode"] == 0


def test_supported_versions_exist_in_kafka() -> None:
    for key, api in BUILT.items():
        known = KAFKA_APIS[key]
        assert api.name == known.name
        assert api.versions == (known.first, known.last)


def test_inter_broker_apis_are_known_and_not_listed() -> None:
    listed = {each["apiKey"] for each in Bench().request("API_VERSIONS", 2)["apiKeys"]}
    assert 67 in KAFKA_APIS
    assert 67 not in listed
    assert {key for key, api in KAFKA_APIS.items() if api.is_listed and api.last >= 0} == listed
