"""The proxy is transparent: conformance scenarios pass through it.

Their goldens are Apache Kafka's responses; behind the proxy is a gateway with the local engine.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.kafka_io import properties
from tests.conformance.runs import SCENARIOS, difference
from tests.conformance.transcript import REGISTRY
from tests.support.gateways import running_gateway
from tests.support.proxies import Capturing, capturing

PROPERTIES = Path(__file__).parents[2] / "conformance" / "broker.properties"
SUBJECTS = {"fetch_sessions", "idempotent", "malformed"}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capturing]:
    file = tmp_path_factory.mktemp("conformance") / "recorded.jsonl"
    with (
        running_gateway(properties.read(PROPERTIES)) as gateway,
        capturing(gateway.bootstrap, file) as capture,
    ):
        yield capture
    assert capture.lost.total() == 0
    assert len(capture.documents()) == capture.proxy.counts.exchanges


@pytest.mark.parametrize(
    "name", [name for name in SCENARIOS if REGISTRY[name]["subject"] in SUBJECTS]
)
def test_scenario_gets_kafkas_responses_through_the_proxy(capture: Capturing, name: str) -> None:
    found = difference(name, *capture.first)
    assert not found, found
