"""Experiments with several requests in flight: the order of records after a rejected batch.

Source: seed 002, the two questions at its end.
"""

from typing import Any

import pytest

from brokertwin.clients.producer_config import ProducerConfig
from tests.support.network import Network, Schedule, Step

PARTITION = 0
IN_ORDER = [1, 2, 3, 4, 5, 6]
FIRST_IS_REJECTED: Schedule = [
    *[(Step.REQUEST, 0), (Step.RESPONSE, 0), (Step.WAIT, 2)] * 2,
    *[(Step.SEND, PARTITION), (Step.REQUEST, 0), (Step.RESPONSE, 0)],
    *[(Step.SEND, PARTITION)] * 6,
    (Step.REFUSE, 0),
    *[(Step.REQUEST, 0)] * 5,
    *[(Step.RESPONSE, 0)] * 6,
    (Step.WAIT, 2),
]
"""After a first record, six batches are sent. The broker rejects the first one for a moment."""


def logged(**config: Any) -> list[int]:
    net = Network(ProducerConfig(linger_ms=0, **config))
    net.play(FIRST_IS_REJECTED)
    net.settle()
    assert not net.failed
    _, *six = [record - 1 for record in net.log(PARTITION).values()]
    return six[:6]


@pytest.mark.parametrize(
    ("config", "order"),
    [
        ({"acks": "1"}, [2, 3, 4, 5, 1, 6]),
        ({"acks": "1", "max_in_flight_requests_per_connection": 2}, [2, 1, 3, 4, 5, 6]),
        (
            {"enable_idempotence": False, "max_in_flight_requests_per_connection": 6},
            [2, 3, 4, 5, 6, 1],
        ),
    ],
)
def test_without_idempotence_a_retry_is_written_behind_later_batches(
    config: dict[str, Any], order: list[int]
) -> None:
    assert logged(**config) == order


def test_without_idempotence_one_request_in_flight_keeps_the_order() -> None:
    assert logged(acks="1", max_in_flight_requests_per_connection=1) == IN_ORDER


@pytest.mark.parametrize("in_flight", [2, 5, 6])
@pytest.mark.parametrize("acks", ["all", "1"])
def test_with_idempotence_any_number_in_flight_keeps_the_order(in_flight: int, acks: str) -> None:
    """Six lose responses instead: `test_six_in_flight_exceed_the_brokers_five_batches`."""
    config = {"max_in_flight_requests_per_connection": in_flight, "acks": acks}
    assert logged(is_unsafe=True, **config) == IN_ORDER
