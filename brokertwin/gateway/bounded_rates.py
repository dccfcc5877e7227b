"""Rates of clients at a broker, and throttle times above a quota.

Two of Kafka's quotas apply to what the state machine does not see:

    connection_creation_rate   connections from an address. An excess connection is not counted; it
                               is kept unread and then closed. `ConnectionQuotas
                               .recordIpConnectionMaybeThrottle`, KIP-612
    request_percentage         percentage of a second that requests use. Excess time is counted; the
                               response has the throttle time. `ClientRequestQuotaManager`, KIP-124

Each broker has its own rates over the windows of `quota.window.num` and
`quota.window.size.seconds`. The maximum throttle time is one window
(`QuotaUtils.boundedThrottleTime` in Kafka).
"""

from collections import OrderedDict
from typing import NamedTuple

from brokertwin.state.cluster.quota_rates import QuotaRate, QuotaWindows


class RateLimit(NamedTuple):
    per_second: float
    windows: QuotaWindows


class RequestLimit(NamedTuple):
    """Quota of request time in percent; `shared_by` identifies its clients."""

    shared_by: str
    rate: RateLimit


class BoundedRates:
    """Rates by broker and key. A key without events in all windows is removed."""

    def __init__(self) -> None:
        self._rates: OrderedDict[tuple[int, str], QuotaRate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def wait_ms(self, broker: int, key: str, value: float, limit: RateLimit, now: int) -> int:
        """Record a value and return the throttle time in ms.

        Args:
            broker: broker that measures.
            key: an address, or a quota entity.
            value: connections, or percentage of a second.
            limit: quota in force.
            now: monotonic time in ms.
        """
        windows = limit.windows
        self._forget(now, windows.age_ms)
        rate = self._rates.setdefault((broker, key), QuotaRate([]))
        self._rates.move_to_end((broker, key))
        rate.record(now, value, windows)
        excess = rate.per_second(now, windows) - limit.per_second
        if not excess > 0:  # also false for NaN
            return 0
        if not limit.per_second:
            return windows.size_ms
        wait = excess / limit.per_second * rate.window_ms(now, windows)
        return round(min(wait, windows.size_ms))

    def held_ms(self, broker: int, host: str, limit: RateLimit, now: int) -> int:
        """Record a connection; return its throttle time in ms. A throttled one is not counted."""
        wait = self.wait_ms(broker, host, 1, limit, now)
        if wait:
            self._rates[broker, host].record(now, -1, limit.windows)
        return wait

    def _forget(self, now: int, age_ms: int) -> None:
        while self._rates:
            oldest = next(iter(self._rates))
            if now - self._rates[oldest].last_event < age_ms:
                return
            del self._rates[oldest]
