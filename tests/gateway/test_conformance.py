"""The gateway with the local engine responds like Apache Kafka 4.3.1.

The scenarios and their goldens are in `tests/conformance`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.kafka_io import properties
from tests.conformance.runs import SCENARIOS, difference
from tests.conformance.transcript import REGISTRY
from tests.support.gateways import Running, running_gateway

pytestmark = pytest.mark.clients

PROPERTIES = Path(__file__).parent.parent / "conformance" / "broker.properties"
EVICTION_SLOTS = {"max.incremental.fetch.session.cache.slots": "8"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(properties.read(PROPERTIES)) as running:
        yield running


@pytest.fixture(scope="module")
def small_gateway() -> Iterator[Running]:
    """Return a gateway with a small session cache, without other clients."""
    with running_gateway({**properties.read(PROPERTIES), **EVICTION_SLOTS}) as running:
        yield running


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not REGISTRY[name]["optional"]])
def test_scenario_gets_kafkas_responses(gateway: Running, name: str) -> None:
    found = difference(name, *gateway.addresses[1])
    assert not found, found


@pytest.mark.parametrize("name", [name for name in SCENARIOS if REGISTRY[name]["optional"]])
def test_full_session_cache_gets_kafkas_responses(small_gateway: Running, name: str) -> None:
    found = difference(name, *small_gateway.addresses[1])
    assert not found, found
