"""How fast connections come from an address, and for how long one that is too many is held.

As `ConnectionQuotas.recordIpConnectionMaybeThrottle` in Kafka (KIP-612): each broker counts the
connections from an address for which there is a `connection_creation_rate`, over the windows of
`quota.window.num` and `quota.window.size.seconds`. One that is too many does not count. It is held,
unread, for as long as the rate takes to be as it may be, one window at most, and then closed.
"""

from collections import OrderedDict
from typing import NamedTuple

from brokerstream.state.cluster.quota_rates import Rate, Windows


class ConnectionLimit(NamedTuple):
    """A quota of an address in connections a second, and the windows over which it is taken."""

    per_second: float
    windows: Windows


class ConnectionRates:
    """The rates of single addresses at single brokers.

    An address from which nothing has come for all windows is forgotten.
    """

    def __init__(self) -> None:
        self._rates: OrderedDict[tuple[int, str], Rate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def held_ms(self, broker: int, host: str, limit: ConnectionLimit, now: int) -> int:
        """Counts a connection; for how many ms it is held, 0 where it may come in.

        Args:
            broker: whose port it came to.
            host: from where.
            limit: the quota that holds for it.
            now: ms by a clock that does not run back.
        """
        windows = limit.windows
        self._forget(now, windows.age_ms)
        rate = self._rates.setdefault((broker, host), Rate([]))
        self._rates.move_to_end((broker, host))
        rate.record(now, 1, windows)
        excess = rate.per_second(now, windows) - limit.per_second
        if excess <= 0:
            return 0
        window_ms = rate.window_ms(now, windows)
        rate.record(now, -1, windows)
        return min(round(excess / limit.per_second * window_ms), windows.size_ms)

    def _forget(self, now: int, age_ms: int) -> None:
        while self._rates:
            oldest = next(iter(self._rates))
            if now - self._rates[oldest].last_event < age_ms:
                return
            del self._rates[oldest]
