"""Settings described and altered, by a cell on the bench and by a real broker alike."""

import time
from typing import Any

from brokertwin.gateway.answers import Address
from tests.support.gateways import Client
from tests.support.machine import Bench
from tests.support.patience import PATIENCE_S

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_THE_EDGE = {
    "advertised.listeners", "controller.listener.names", "controller.quorum.voters",
    "inter.broker.listener.name", "listener.security.protocol.map", "listeners", "log.dirs",
    "process.roles",
}  # fmt: skip
"""Settings of the embedded broker that our brokers are not given."""

Change = tuple[str, int, str | None]
Wanted = tuple[int, str, list[Change]]


class Real:
    """The real broker, with the methods of a bench."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.client = Client(Address(host, int(port)))

    def request(self, api: str, version: int, body: dict[str, Any]) -> Any:
        return self.client.call(api, version, body)


Both = tuple[Real, Bench]


def describe(
    one: Real | Bench,
    *resources: tuple[int, str],
    version: int = 4,
    keys: list[str] | None = None,
    **options: bool,
) -> list[dict[str, Any]]:
    """The results, without the settings that the edge decides."""
    asked = [
        {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
        for kind, name in resources
    ]
    answer = one.request("DESCRIBE_CONFIGS", version, {"resources": asked, **options})
    assert answer["throttleTimeMs"] == 0
    for result in answer["results"]:
        result["configs"] = [each for each in result["configs"] if each["name"] not in OF_THE_EDGE]
    results: list[dict[str, Any]] = answer["results"]
    return results


def assert_same(both: Both, *resources: tuple[int, str], **options: Any) -> list[dict[str, Any]]:
    """Both describe resources alike."""
    expected, found = (describe(one, *resources, **options) for one in both)
    assert len(found) == len(expected)
    for result, real in zip(found, expected, strict=True):
        assert [each["name"] for each in result["configs"]] == [
            each["name"] for each in real["configs"]
        ]
        for config, in_reality in zip(result["configs"], real["configs"], strict=True):
            assert config == in_reality
        assert result == real
    return found


def alter(
    one: Real | Bench | Client,
    api: str,
    version: int,
    wanted: list[Any],
    validate_only: bool = False,
) -> Any:
    resources = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [
                {"name": key, "configOperation": change, "value": value}
                if api.startswith("INCREMENTAL")
                else {"name": key, "value": value}
                for key, change, value in changes
            ],
        }
        for kind, name, changes in wanted
    ]
    ask = one.call if isinstance(one, Client) else one.request
    return ask(api, version, {"resources": resources, "validateOnly": validate_only})


def assert_soon_same(both: Both, *resources: tuple[int, str], **options: Any) -> None:
    """The real broker learns a moment later what its controller has decided."""
    deadline = time.monotonic() + PATIENCE_S
    found = describe(both[1], *resources, includeSynonyms=True, **options)
    while (real := describe(both[0], *resources, includeSynonyms=True, **options)) != found:
        assert time.monotonic() < deadline, differing(found, real)
        time.sleep(0.02)


def differing(found: list[dict[str, Any]], real: list[dict[str, Any]]) -> list[Any]:
    """The settings that are described otherwise, in pairs: ours, the real broker's."""
    pairs = zip(found, real, strict=True)
    return [
        pair
        for one, other in pairs
        for pair in zip(one["configs"], other["configs"], strict=False)
        if pair[0] != pair[1]
    ][:5] or [[each["name"] for each in one["configs"]] for one in (*found, *real)]
