"""Both brokers of these tests: the module's gateway and a real Kafka broker."""

import pytest


@pytest.fixture(params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Bootstrap address of the gateway or of Kafka."""
    return str(request.getfixturevalue(request.param))
