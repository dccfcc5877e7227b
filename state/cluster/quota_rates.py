"""How fast clients have been lately, and for how long one that was too fast has to wait.

Source: `ClientQuotaManager`, `QuotaUtils.throttleTime`, `Rate`, `SampledStat` in Kafka. A rate is
taken over samples of `quota.window.size.seconds`, of which there are `quota.window.num`, and over
all of them but one at least: one large answer after a silence is not a violation yet.

Rates are items of the table `quotas`, `<broker>/rate/<key>/<entity>`: a broker that restarts
forgets them. A fetch counts by its whole answer (`state/fetch/response_size.py`), what is produced
as the edge says, by the whole request; where nobody says, by its records.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    Limit,
)
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

USER_PREFIX = "User:"
INT32_MAX = 2**31 - 1

EXPIRATION_CHECK_INTERVAL_MS = 3_600_000
"""How often rates are looked at in which nothing counts any more: they say what a new one says.

Kafka's ClientQuotaManager forgets a client that has been silent for as long.
"""


class Sample(msgspec.Struct, array_like=True):
    """What was counted from `start` on; times are ms since 1970."""

    start: int
    last_event: int
    value: float = 0.0


class Windows(NamedTuple):
    """How many samples a rate has, and how long each is."""

    num: int
    size_ms: int

    @property
    def age_ms(self) -> int:
        """For how long a sample counts after the last that was added to it."""
        return self.num * self.size_ms


class Rate(msgspec.Struct, array_like=True):
    """Samples, the present one last."""

    samples: list[Sample]

    @property
    def last_event(self) -> int:
        """When something was counted last; 0 where nothing was."""
        return max((each.last_event for each in self.samples), default=0)

    def record(self, now: int, value: float, windows: Windows) -> None:
        """Counts something."""
        if not self.samples or now - self.samples[-1].start >= windows.size_ms:
            self.samples.append(Sample(now, now))
            del self.samples[: -(windows.num + 1)]
        self.samples[-1].value += value
        self.samples[-1].last_event = now

    def per_second(self, now: int, windows: Windows) -> float:
        """What was counted a second."""
        total = sum(sample.value for sample in self.present(now, windows))
        return total * 1000 / self.window_ms(now, windows)

    def window_ms(self, now: int, windows: Windows) -> int:
        """The time over which the rate is taken."""
        start = min((sample.start for sample in self.present(now, windows)), default=now)
        elapsed = now - start
        missing = windows.num - 1 - elapsed // windows.size_ms
        return max(elapsed + max(missing, 0) * windows.size_ms, 1)

    def present(self, now: int, windows: Windows) -> list[Sample]:
        """The samples that count; older ones are forgotten."""
        self.samples = [each for each in self.samples if now - each.last_event < windows.age_ms]
        return self.samples


def windows_of(settings: BrokerSettings) -> Windows:
    """The windows of the quotas of clients."""
    return Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)


def fetch_limit(broker: Broker, principal: str, client_id: str | None) -> Limit | None:
    """The quota of a consumer's fetches, if there is one."""
    if not broker.has_quotas:
        return None
    table = broker.tables.metadata
    return limit_of(table, broker.id, principal, client_id, CONSUMER_BYTE_RATE)


def produce_limit(broker: Broker, principal: str, client_id: str | None) -> Limit | None:
    """The quota of what a producer writes, if there is one."""
    if not broker.has_quotas:
        return None
    table = broker.tables.metadata
    return limit_of(table, broker.id, principal, client_id, PRODUCER_BYTE_RATE)


def limit_of(
    table: Table, machine: int, principal: str, client_id: str | None, key: str
) -> Limit | None:
    """The quota that holds for a principal and its client, if there is one."""
    user = principal.removeprefix(USER_PREFIX)
    return client_quotas.limit(table, machine, user, client_id or "", key)


def max_bytes(broker: Broker, limit: Limit | None) -> int:
    """The most that one answer may have: what a quota lets through in its windows."""
    if limit is None:
        return INT32_MAX
    settings = broker.settings
    seconds = (settings.quota_window_num - 1) * settings.quota_window_size_seconds
    most = limit.value * seconds
    return 0 if math.isnan(most) else min(int(most), INT32_MAX)  # as Java makes an int of it


def throttle_ms(broker: Broker, limit: Limit, size_in_bytes: int) -> int:
    """For how long the client has to wait for an answer of this size; 0: it may have it.

    What is not given is not counted: the client comes back for it.
    """
    rate = _rate(broker, CONSUMER_BYTE_RATE, limit)
    wait = _excess_ms(broker, rate, limit, size_in_bytes)
    if wait:
        rate.record(broker.now, -size_in_bytes, windows_of(broker.settings))
    return wait


def produce_throttle_ms(broker: Broker, limit: Limit, size_in_bytes: int) -> int:
    """For how long a client is not heard that has sent a Produce of this size; 0: as before.

    What it has sent counts in any case: it is written.
    """
    return _excess_ms(broker, _rate(broker, PRODUCER_BYTE_RATE, limit), limit, size_in_bytes)


def _rate(broker: Broker, quota: str, limit: Limit) -> Rate:
    table = broker.tables.quotas
    key = f"{broker.id}/rate/{quota}/{limit.shared_by}"
    if key not in table:
        table.put(key, Rate([]))
    return table.change(key, Rate)


def _excess_ms(broker: Broker, rate: Rate, limit: Limit, size_in_bytes: int) -> int:
    """Counts it; how long it takes until the rate is as it may be."""
    windows = windows_of(broker.settings)
    rate.record(broker.now, size_in_bytes, windows)
    excess = rate.per_second(broker.now, windows) - limit.value
    if not excess > 0:  # nor where the quota is no number
        return 0
    return round(excess / limit.value * rate.window_ms(broker.now, windows))


def expired(broker: Broker) -> Iterable[Record]:
    """Forgets, in place, the clients that have been silent for all windows; gives no records."""
    table, windows = broker.tables.quotas, windows_of(broker.settings)
    for key in table.keys(f"{broker.id}/rate/"):
        rate = table.get(key, Rate)
        if rate is not None and broker.now - rate.last_event >= windows.age_ms:
            table.drop(key)
    return ()
