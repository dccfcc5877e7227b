"""How fast clients have been at the edge, and for how long one that was too fast has to wait.

Two quotas of Kafka are held here, as what they count never comes to the state machine:

    connection_creation_rate   connections from an address. One that is too many does not count: it
                               is held, unread, and then closed. `ConnectionQuotas
                               .recordIpConnectionMaybeThrottle`, KIP-612
    request_percentage         percent of a second that requests take of the gateway. What was taken
                               counts; the answer says for how long the client is not heard.
                               `ClientRequestQuotaManager`, KIP-124

Each broker counts by itself, over the windows of `quota.window.num` and
`quota.window.size.seconds`; nobody waits for longer than one of them (`QuotaUtils
.boundedThrottleTime` in Kafka).
"""

from collections import OrderedDict
from typing import NamedTuple

from brokertwin.state.cluster.quota_rates import QuotaRate, QuotaWindows


class RateLimit(NamedTuple):
    """A quota a second, and the windows over which it is taken."""

    per_second: float
    windows: QuotaWindows


class RequestLimit(NamedTuple):
    """A quota of requests' time in percent, and who shares it."""

    shared_by: str
    rate: RateLimit


class BoundedRates:
    """What has been counted of whom, at single brokers.

    Who has not come for all windows is forgotten.
    """

    def __init__(self) -> None:
        self._rates: OrderedDict[tuple[int, str], QuotaRate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def wait_ms(self, broker: int, who: str, value: float, limit: RateLimit, now: int) -> int:
        """Counts something; for how many ms who did it has to wait, 0: not at all.

        Args:
            broker: at which it was done.
            who: an address, or who shares a quota.
            value: connections, or percent of a second.
            limit: the quota that holds.
            now: ms by a clock that does not run back.
        """
        windows = limit.windows
        self._forget(now, windows.age_ms)
        rate = self._rates.setdefault((broker, who), QuotaRate([]))
        self._rates.move_to_end((broker, who))
        rate.record(now, value, windows)
        excess = rate.per_second(now, windows) - limit.per_second
        if not excess > 0:  # nor where the quota is no number
            return 0
        if not limit.per_second:  # nobody may
            return windows.size_ms
        wait = excess / limit.per_second * rate.window_ms(now, windows)
        return round(min(wait, windows.size_ms))

    def held_ms(self, broker: int, host: str, limit: RateLimit, now: int) -> int:
        """Counts a connection; for how many ms it is held, 0 where it may come in and counts."""
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
