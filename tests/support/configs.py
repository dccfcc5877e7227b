"""Settings described and altered, by a cell on the bench and by a real broker alike."""

import time
from typing import Any, NamedTuple

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from tests.support.gateways import Client
from tests.support.goldens import IS_LIVE, Tape, TapedConnection, Track
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

    def request(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> Any:
        return self.client.call(api, version, body, **fields)


class EdgelessClient(Client):
    """A connection that leaves out settings which depend on the machine."""

    def call(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        response = super().call(api, version, body, **fields)
        if api == "DESCRIBE_CONFIGS":
            response["results"] = without_edge(response["results"])
        return response


class Recorded(Real):
    """A real broker whose responses are on a track of a golden."""

    def __init__(self, address: Address, track: Track) -> None:
        self.track = track
        self.live = EdgelessClient(address) if IS_LIVE else None
        self.client = TapedConnection(track, self.live)
        self.seen: dict[tuple[tuple[int, str], ...], list[dict[str, Any]]] = {}


Both = tuple[Recorded, Bench]


class World(NamedTuple):
    """A real broker and a cell, with the same settings and topics."""

    tape: Tape
    kafka: Address
    bench: Bench

    def both(self, track: str) -> Both:
        """Return both sides; the real broker's responses are on a track of this name."""
        return Recorded(self.kafka, self.tape.track(track)), self.bench


def written_properties(broker: EmbeddedKafka) -> dict[str, str]:
    """Return the settings of an embedded broker that do not depend on the machine."""
    found = properties.read(broker.home / "server.properties")
    return {name: text for name, text in found.items() if name != "log.dirs"}


def describe(
    one: Real | Bench | Client,
    *resources: tuple[int, str],
    version: int = 4,
    keys: list[str] | None = None,
    **options: bool,
) -> list[dict[str, Any]]:
    """The results, without the settings that the edge decides."""
    requests = [
        {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
        for kind, name in resources
    ]
    send = one.call if isinstance(one, Client) else one.request
    response = send("DESCRIBE_CONFIGS", version, {"resources": requests, **options})
    assert response["throttleTimeMs"] == 0
    return without_edge(response["results"])


def without_edge(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return described resources without the settings in `OF_THE_EDGE`."""
    return [
        {**each, "configs": [of for of in each["configs"] if of["name"] not in OF_THE_EDGE]}
        for each in results
    ]


def assert_same(both: Both, *resources: tuple[int, str], **options: Any) -> list[dict[str, Any]]:
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
    send = one.call if isinstance(one, Client) else one.request
    return send(api, version, {"resources": resources, "validateOnly": validate_only})


def assert_soon_same(both: Both, *resources: tuple[int, str], **options: Any) -> None:
    """Both describe resources alike after the real broker has applied its controller's decision.

    The golden contains only changes since the previous call.
    """
    real, bench = both
    actual = describe(bench, *resources, includeSynonyms=True, **options)
    before = real.seen.get(resources, [])
    real.seen[resources] = actual

    def applied() -> list[dict[str, Any]]:
        assert real.live is not None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            reported = describe(real.live, *resources, includeSynonyms=True, **options)
            if reported == actual or time.monotonic() > deadline:
                return changes(before, reported)
            time.sleep(0.02)

    requests = ["settings", [list(each) for each in resources], options]
    assert changes(before, actual) == real.track.response(requests, applied)


def changes(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return described resources with the order of their settings and those that differ."""
    configs = [each["configs"] for each in before] or [[]] * len(now)
    return [
        {
            **result,
            "configs": [each for each in result["configs"] if each not in of_before],
            "order": " ".join(each["name"] for each in result["configs"]),
        }
        for result, of_before in zip(now, configs, strict=True)
    ]
