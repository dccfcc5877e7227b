"""The quota for creating and deleting partitions: `controller_mutation_rate` (KIP-599).

The clients that share a quota share a token bucket. It fills at the quota per second, up to the
tokens of `controller.quota.window.num` windows of `controller.quota.window.size.seconds`. Each
partition takes a token; the number may become negative. The version of a request decides:

    strict      with a negative number of tokens, topics fail with 89 THROTTLING_QUOTA_EXCEEDED:
                CreateTopics since 6, DeleteTopics since 5, CreatePartitions since 3
    permissive  all topics are accepted

If a topic fails, or a permissive request leaves a negative number, the throttle time is the time
until there are 0 tokens. A strict request that takes too many is not throttled, but the next one.

Buckets are volatile items of the table `quotas`, `controller/bucket/<entity>`, and expire after
an hour without use.

Source: `ControllerMutationQuotaManager`, `TokenBucket`, `ControllerApis` in Kafka.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.state.cluster import quota_rates
from brokertwin.state.cluster.client_quotas import QuotaLimit
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.cluster.quota_rates import EXPIRATION_CHECK_INTERVAL_MS
from brokertwin.state.core.decision import Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings

CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
EXCEEDED = "The throttling quota has been exceeded."


class TokenBucket(msgspec.Struct, array_like=True):
    """Tokens at a time, in ms since 1970."""

    tokens: float = 0.0
    last_update: int = 0

    def refill(self, now: int, quota: float, settings: BrokerSettings) -> None:
        seconds = settings.controller_quota_window_num
        seconds *= settings.controller_quota_window_size_seconds
        gained = quota * (now - self.last_update) / 1000
        self.tokens = min(quota * seconds, self.tokens + gained)
        self.last_update = now


class MutationQuota:
    """The quota for one request.

    Args:
        controller: the controller.
        request: the request.
        strict_since: the first strict version of the API.

    Attributes:
        throttle_ms: how long the client's connection is muted after the response.
    """

    def __init__(self, controller: Controller, request: Request, strict_since: int) -> None:
        self.throttle_ms = 0
        self._controller = controller
        self._is_strict = request.version >= strict_since
        self._limit = None if request.is_from_machine else _limit(controller, request)

    def takes(self, partitions: int) -> bool:
        """Take tokens for partitions; False if the quota is exceeded."""
        limit = self._limit
        if limit is None:
            return True
        table = self._controller.tables.quotas
        key = f"{self._controller.prefix}/bucket/{limit.shared_by}"
        if key not in table:
            table.put(key, TokenBucket())
        bucket = table.change(key, TokenBucket)
        bucket.refill(self._controller.now, limit.value, self._controller.settings)
        if self._is_strict and bucket.tokens < 0:
            self._wait_for(bucket, limit.value)
            return False
        bucket.tokens -= partitions
        if not self._is_strict and bucket.tokens < 0:
            self._wait_for(bucket, limit.value)
        return True

    def _wait_for(self, bucket: TokenBucket, quota: float) -> None:
        self.throttle_ms = round(-bucket.tokens / quota * 1000)


def _limit(controller: Controller, request: Request) -> QuotaLimit | None:
    client_id = request.header.client_id
    who = request.principal, client_id
    return quota_rates.limit_of(controller, *who, CONTROLLER_MUTATION_RATE)


def expired(controller: Controller) -> Iterable[Record]:
    """Drop idle buckets. Volatile state: no record is written."""
    table, before = controller.tables.quotas, controller.now - EXPIRATION_CHECK_INTERVAL_MS
    for key in table.keys(f"{controller.prefix}/bucket/"):
        bucket = table.get(key, TokenBucket)
        if bucket is not None and bucket.last_update <= before:
            table.drop(key)
    return ()
