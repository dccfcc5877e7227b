"""Which of a producer's settings go together."""

from typing import Any

import pytest

from brokertwin.clients.producer_config import ProducerConfig, ProducerConfigError, checked


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"enable_idempotence": True, "acks": "1"}, "set acks to all; it is 1"),
        ({"enable_idempotence": True, "acks": "0"}, "set acks to all; it is 0"),
        ({"enable_idempotence": True, "retries": 0}, "set retries above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5; it is 6"),
        ({"delivery_timeout_ms": 30_004}, "at least linger.ms .* 30005; it is 30004"),
        ({"acks": "two"}, "acks must be all, -1, 0 or 1, not 'two'"),
        ({"retries": -1}, "retries must be from 0"),
        ({"max_in_flight_requests_per_connection": 0}, "at least 1"),
    ],
)
def test_settings_that_conflict_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ProducerConfigError, match=message):
        checked(ProducerConfig(**config))


@pytest.mark.parametrize(
    ("config", "is_idempotent"),
    [
        ({}, True),
        ({"acks": "-1"}, True),
        ({"retries": 1}, True),
        ({"acks": "1"}, False),
        ({"retries": 0}, False),
        ({"enable_idempotence": False}, False),
        ({"enable_idempotence": False, "max_in_flight_requests_per_connection": 6}, False),
        ({"is_unsafe": True, "max_in_flight_requests_per_connection": 6, "acks": "1"}, True),
    ],
)
def test_idempotence_is_enabled_unless_settings_conflict(
    config: dict[str, Any], is_idempotent: bool
) -> None:
    assert checked(ProducerConfig(**config)).is_idempotent is is_idempotent


def test_the_delivery_timeout_leaves_time_for_one_request() -> None:
    assert checked(ProducerConfig()).delivery_ms == 120_000
    long = ProducerConfig(request_timeout_ms=200_000)
    assert checked(long).delivery_ms == 200_005
