"""What is said of settings that are too long for the wire: -1, of what the controller has seen."""

from typing import Any

from brokertwin.state.cluster.config_changes import BROKER, TOPIC
from tests.support.machine import Bench

LONGEST = "x" * 32_767
"""As long as a text may be: what is said of it is longer."""


def altered(bench: Bench, *resources: tuple[int, str, dict[str, str]]) -> list[tuple[int, Any]]:
    """The error of each resource, and what is said of it."""
    told = [
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
    response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": told})
    return [(each["errorCode"], each["errorMessage"]) for each in response["responses"]]


def retention(bench: Bench, topic: str) -> str:
    """A topic's setting as it is described."""
    asked = {"resourceType": TOPIC, "resourceName": topic, "configurationKeys": ["retention.ms"]}
    (result,) = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [asked]})["results"]
    value: str = result["configs"][0]["value"]
    return value


def test_what_reached_the_controller_is_lost_and_what_it_did_holds() -> None:
    bench = Bench()
    for name in ("long", "right"):
        bench.topic(name)
    told = altered(
        bench,
        (TOPIC, "long", {"retention.ms": LONGEST}),
        (TOPIC, "right", {"retention.ms": "5000"}),
        (TOPIC, "missing", {}),
        (99, "x", {}),
        (BROKER, "x", {}),
    )
    assert told[:3] == [(-1, None)] * 3
    assert told[3] == (42, "Unknown resource type 99")
    assert told[4] == (42, "Node id must be an integer, but it is: x")
    assert retention(bench, "right") == "5000"


def test_a_text_that_the_wire_has_room_for_is_told() -> None:
    bench = Bench()
    bench.topic("long")
    ((error, text),) = altered(bench, (TOPIC, "long", {"retention.ms": LONGEST[:1000]}))
    assert error == 40
    assert LONGEST[:1000] in text
