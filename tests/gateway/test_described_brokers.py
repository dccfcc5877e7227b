"""Described settings of brokers by their place in the cluster."""

from typing import Any

from tests.support.gateways import Client, running_gateway

BROKER = 4
STATIC, DEFAULT = 4, 5


def described(client: Client, broker: str, *names: str) -> dict[str, Any]:
    """Return settings of a broker by name."""
    request = {"resourceType": BROKER, "resourceName": broker, "configurationKeys": list(names)}
    body = {"resources": [request], "includeSynonyms": True, "includeDocumentation": False}
    (result,) = client.call("DESCRIBE_CONFIGS", 4, body)["results"]
    return {each["name"]: each for each in result["configs"]}


PLACED = (
    *("listeners", "advertised.listeners", "process.roles"),
    *("controller.listener.names", "controller.quorum.voters"),
)


def test_settings_of_a_single_broker_are_those_of_a_combined_node() -> None:
    with running_gateway() as running, running.client() as client:
        host, port = running.addresses[1]
        found = described(client, "1", *PLACED)
    values = {name: each["value"] for name, each in found.items()}
    assert values == {
        "listeners": f"PLAINTEXT://{host}:{port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{host}:{port}",
    }
    assert {each["configSource"] for each in found.values()} == {STATIC}
    assert found["process.roles"]["synonyms"][0]["value"] == "broker,controller"


def test_given_settings_are_described() -> None:
    settings = {"controller.listener.names": "OTHER"}
    with running_gateway(settings) as running, running.client() as client:
        found = described(client, "1", "controller.listener.names")
    assert found["controller.listener.names"]["value"] == "OTHER"


def test_first_broker_is_the_controller() -> None:
    with running_gateway(brokers=2) as running, running.client(2) as client:
        found = described(client, "2", "process.roles", "controller.quorum.voters")
        host, port = running.addresses[1]
    assert found["process.roles"]["value"] == "broker"
    assert found["controller.quorum.voters"]["value"] == f"1@{host}:{port}"


def test_features_epoch_grows_with_the_metadata_log() -> None:
    software = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
    one = {"numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    with running_gateway() as running, running.client() as client:
        before = client.call("API_VERSIONS", 4, software)["finalizedFeaturesEpoch"]
        topics = [{"name": name, **one} for name in ("t", "u")]
        body = {"topics": topics, "timeoutMs": 1_000, "validateOnly": False}
        assert client.call("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0
        after = client.call("API_VERSIONS", 4, software)["finalizedFeaturesEpoch"]
    assert before < after
