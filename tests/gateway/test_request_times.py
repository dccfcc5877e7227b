"""Request time quotas: measuring, and the resulting throttle time."""

import pytest

from brokertwin.gateway.bounded_rates import RateLimit, RequestLimit
from brokertwin.gateway.connection import Stopwatch
from brokertwin.gateway.engine.engine import EdgeRequest, internal_header
from brokertwin.gateway.request_times import RequestTimes, is_exempt
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.generated.metadata import MetadataRequest
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.state.cluster.quota_rates import QuotaWindows

PRODUCE, METADATA, WRITE_TXN_MARKERS = 0, 3, 27
WINDOWS = QuotaWindows(11, 1000)


LIMIT = RateLimit(2.0, WINDOWS)


def taken(seconds: float, now: float) -> float:
    watch = Stopwatch(now - seconds)
    watch.stop(now)
    return watch.take(now)


def test_request_time_excludes_waiting() -> None:
    watch = Stopwatch(10.0)
    watch.stop(10.5)
    watch.stop(11.0)
    watch.go_on(20.0)
    watch.go_on(20.1)
    assert watch.take(20.25) == 0.75
    assert watch.take(20.5) == 0.25, "what comes after the answer is decided"
    assert watch.came == 10.0


def test_client_above_its_quota_waits_until_the_rate_is_allowed() -> None:
    """2 percent over ten windows are 200 ms; 10 ms more cost half a second, at most a window."""
    times = RequestTimes()

    def count(seconds: float, now: float, principal: str = "User:a", broker: int = 1) -> int:
        limit = RequestLimit(principal, LIMIT)
        return times.count(broker, limit, taken(seconds, now), now)

    assert count(0.2, 100.0) == 0
    assert count(0.01, 100.0) == 500
    assert count(0.02, 100.0) == 1000, "1500, were it not for the bound"
    assert count(0.1, 100.0, "User:b") == count(0.1, 100.0, broker=2) == 0
    assert count(0.0, 105.0) == 1000, "it counts for as long as it is in the windows"
    assert count(0.0, 111.6) == 0


def requested(api_key: int, body: Body) -> EdgeRequest:
    return EdgeRequest(1, "c", "User:a", "", internal_header(api_key, 0, "c"), body)


@pytest.mark.parametrize(
    ("api_key", "body", "expected"),
    [
        (METADATA, MetadataRequest(), False),
        (PRODUCE, ProduceRequest(acks=1), False),
        (PRODUCE, ProduceRequest(acks=0), True),
        (WRITE_TXN_MARKERS, MetadataRequest(), True),
    ],
)
def test_time_of_some_requests_does_not_count(api_key: int, body: Body, expected: bool) -> None:
    assert is_exempt(requested(api_key, body)) == expected
