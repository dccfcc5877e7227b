"""Rates of clients, and their throttle times.

Source: `ClientQuotaManager`, `QuotaUtils.throttleTime`, `Rate`, `SampledStat` in Kafka. A rate has
`quota.window.num` samples of `quota.window.size.seconds`. It covers at least all samples but one,
so one large response after an idle time does not exceed the quota.

Rates are volatile items of the table `quotas`, `<broker>/rate/<key>/<entity>`. A fetch counts
with its whole response (`state/fetch/response_size.py`), a produce with its whole request if the
edge reports the size, else with its records.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    QuotaLimit,
)
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import MachineTables

USER_PREFIX = "User:"
INT32_MAX = 2**31 - 1

EXPIRATION_CHECK_INTERVAL_MS = 3_600_000
"""Interval at which rates without current samples are dropped.

Kafka's ClientQuotaManager drops clients that were idle for as long.
"""


class QuotaSample(msgspec.Struct, array_like=True):
    """The sum since `start`; times are in ms since 1970."""

    start: int
    last_event: int
    value: float = 0.0


class QuotaWindows(NamedTuple):
    """Number and length of a rate's samples."""

    num: int
    size_ms: int

    @property
    def age_ms(self) -> int:
        """How long a sample counts after its last event."""
        return self.num * self.size_ms


class QuotaRate(msgspec.Struct, array_like=True):
    """Samples, the current one last."""

    samples: list[QuotaSample]

    @property
    def last_event(self) -> int:
        """Time of the last event; 0 if there is none."""
        return max((each.last_event for each in self.samples), default=0)

    def record(self, now: int, value: float, windows: QuotaWindows) -> None:
        if not self.samples or now - self.samples[-1].start >= windows.size_ms:
            self.samples.append(QuotaSample(now, now))
            del self.samples[: -(windows.num + 1)]
        self.samples[-1].value += value
        self.samples[-1].last_event = now

    def per_second(self, now: int, windows: QuotaWindows) -> float:
        total = sum(sample.value for sample in self.present(now, windows))
        return total * 1000 / self.window_ms(now, windows)

    def window_ms(self, now: int, windows: QuotaWindows) -> int:
        start = min((sample.start for sample in self.present(now, windows)), default=now)
        elapsed = now - start
        missing = windows.num - 1 - elapsed // windows.size_ms
        return max(elapsed + max(missing, 0) * windows.size_ms, 1)

    def present(self, now: int, windows: QuotaWindows) -> list[QuotaSample]:
        """Current samples; older ones are dropped."""
        self.samples = [each for each in self.samples if now - each.last_event < windows.age_ms]
        return self.samples


def windows_of(settings: BrokerSettings) -> QuotaWindows:
    return QuotaWindows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)


def fetch_limit(broker: Broker, principal: str, client_id: str | None) -> QuotaLimit | None:
    if not broker.has_quotas:
        return None
    return limit_of(broker, principal, client_id, CONSUMER_BYTE_RATE)


def produce_limit(broker: Broker, principal: str, client_id: str | None) -> QuotaLimit | None:
    if not broker.has_quotas:
        return None
    return limit_of(broker, principal, client_id, PRODUCER_BYTE_RATE)


def limit_of(
    at: MachineTables, principal: str, client_id: str | None, key: str
) -> QuotaLimit | None:
    user = principal.removeprefix(USER_PREFIX)
    return client_quotas.limit(at, user, client_id or "", key)


def max_bytes(broker: Broker, limit: QuotaLimit | None) -> int:
    """Largest response that a quota allows in its windows."""
    if limit is None:
        return INT32_MAX
    settings = broker.settings
    seconds = (settings.quota_window_num - 1) * settings.quota_window_size_seconds
    most = limit.value * seconds
    return 0 if math.isnan(most) else min(int(most), INT32_MAX)  # Java's conversion to int


def throttle_ms(broker: Broker, limit: QuotaLimit, size_in_bytes: int) -> int:
    """Throttle time for a response of this size; 0 if it can be sent.

    A throttled response is not sent and does not count, because the client fetches again.
    """
    rate = _rate(broker, CONSUMER_BYTE_RATE, limit)
    excess_ms = _excess_ms(broker, rate, limit, size_in_bytes)
    if excess_ms:
        rate.record(broker.now, -size_in_bytes, windows_of(broker.settings))
    return excess_ms


def produce_throttle_ms(broker: Broker, limit: QuotaLimit, size_in_bytes: int) -> int:
    """Throttle time after a Produce of this size.

    The request always counts, because it is written.
    """
    return _excess_ms(broker, _rate(broker, PRODUCER_BYTE_RATE, limit), limit, size_in_bytes)


def _rate(broker: Broker, quota: str, limit: QuotaLimit) -> QuotaRate:
    table = broker.tables.quotas
    key = f"{broker.id}/rate/{quota}/{limit.shared_by}"
    if key not in table:
        table.put(key, QuotaRate([]))
    return table.change(key, QuotaRate)


def _excess_ms(broker: Broker, rate: QuotaRate, limit: QuotaLimit, size_in_bytes: int) -> int:
    """Count bytes; time until the rate does not exceed the limit."""
    windows = windows_of(broker.settings)
    rate.record(broker.now, size_in_bytes, windows)
    excess = rate.per_second(broker.now, windows) - limit.value
    if not excess > 0:  # also if the quota is not a number
        return 0
    return round(excess / limit.value * rate.window_ms(broker.now, windows))


def expired(broker: Broker) -> Iterable[Record]:
    """Drop idle clients. Volatile state: no record is written."""
    table, windows = broker.tables.quotas, windows_of(broker.settings)
    for key in table.keys(f"{broker.id}/rate/"):
        rate = table.get(key, QuotaRate)
        if rate is not None and broker.now - rate.last_event >= windows.age_ms:
            table.drop(key)
    return ()
