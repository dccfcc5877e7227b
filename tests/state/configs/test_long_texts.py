"""Settings with messages beyond the protocol's limit: forwarded requests return -1."""

from typing import Any

from brokertwin.state.cluster.config_changes import BROKER, TOPIC
from tests.support.machine import Bench

LONGEST = "x" * 32_767
"""The longest text; messages about it are longer."""


def altered(bench: Bench, *resources: tuple[int, str, dict[str, str]]) -> list[tuple[int, Any]]:
    resources_sent = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [
                {"name": each, "configOperation": 0, "value": value}
                for each, value in configs.items()
            ],
        }
        for kind, name, configs in resources
    ]
    response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, resources=resources_sent)
    return [(each["errorCode"], each["errorMessage"]) for each in response["responses"]]


def retention(bench: Bench, topic: str) -> str:
    resource = {"resourceType": TOPIC, "resourceName": topic, "configurationKeys": ["retention.ms"]}
    (result,) = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [resource]})["results"]
    value: str = result["configs"][0]["value"]
    return value


def test_response_of_the_controller_is_lost_but_its_changes_hold() -> None:
    bench = Bench()
    for name in ("long", "right"):
        bench.topic(name)
    resources_sent = altered(
        bench,
        (TOPIC, "long", {"retention.ms": LONGEST}),
        (TOPIC, "right", {"retention.ms": "5000"}),
        (TOPIC, "missing", {}),
        (99, "x", {}),
        (BROKER, "x", {}),
    )
    assert resources_sent[:3] == [(-1, None)] * 3
    assert resources_sent[3] == (42, "Unknown resource type 99")
    assert resources_sent[4] == (42, "Node id must be an integer, but it is: x")
    assert retention(bench, "right") == "5000"


def test_message_within_the_limit_is_returned() -> None:
    bench = Bench()
    bench.topic("long")
    ((error, text),) = altered(bench, (TOPIC, "long", {"retention.ms": LONGEST[:1000]}))
    assert error == 40
    assert LONGEST[:1000] in text
