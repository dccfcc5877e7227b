"""How many partitions a second clients may create and delete: `controller_mutation_rate` (KIP-599).

A token bucket for all who share a quota: it fills by the quota a second, up to what comes in
`controller.quota.window.num` windows of `controller.quota.window.size.seconds`, and each partition
takes a token; there may be less than none. How a request is held to it depends on its version:

    strict      nothing is taken while there are less than no tokens: the topic is refused with
                89 THROTTLING_QUOTA_EXCEEDED. CreateTopics from 6, DeleteTopics from 5,
                CreatePartitions from 3
    permissive  all is taken

Where it is refused, or leaves less than no tokens, the answer says how long it takes until there
are none. A strict request that takes too much is not told: the next one is refused.

Buckets are items of the table `quotas`, `controller/bucket/<entity>`: a controller that starts
forgets them, as it forgets those of clients that have been silent for an hour.

Source: `ControllerMutationQuotaManager`, `TokenBucket`, `ControllerApis` in Kafka.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.state.cluster import quota_rates
from brokertwin.state.cluster.client_quotas import Limit
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.cluster.quota_rates import EXPIRATION_CHECK_INTERVAL_MS
from brokertwin.state.core.decision import Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings

CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
EXCEEDED = "The throttling quota has been exceeded."


class Bucket(msgspec.Struct, array_like=True):
    """The tokens that there were, and when; ms since 1970."""

    tokens: float = 0.0
    last_update: int = 0

    def refill(self, now: int, quota: float, settings: BrokerSettings) -> None:
        """Tokens come with time."""
        seconds = settings.controller_quota_window_num
        seconds *= settings.controller_quota_window_size_seconds
        gained = quota * (now - self.last_update) / 1000
        self.tokens = min(quota * seconds, self.tokens + gained)
        self.last_update = now


class MutationQuota:
    """What a request may still create and delete.

    Args:
        controller: the controller.
        request: who asks.
        strict_since: the first version of the API that is refused.

    Attributes:
        throttle_ms: for how long the client is not heard after the answer.
    """

    def __init__(self, controller: Controller, request: Request, strict_since: int) -> None:
        self.throttle_ms = 0
        self._controller = controller
        self._is_strict = request.version >= strict_since
        self._limit = None if request.is_from_machine else _limit(controller, request)

    def takes(self, partitions: int) -> bool:
        """Whether as many may be created or deleted; then they are counted."""
        limit = self._limit
        if limit is None:
            return True
        table = self._controller.tables.quotas
        key = f"{self._controller.prefix}/bucket/{limit.shared_by}"
        if key not in table:
            table.put(key, Bucket())
        bucket = table.change(key, Bucket)
        bucket.refill(self._controller.now, limit.value, self._controller.settings)
        if self._is_strict and bucket.tokens < 0:
            self._wait_for(bucket, limit.value)
            return False
        bucket.tokens -= partitions
        if not self._is_strict and bucket.tokens < 0:
            self._wait_for(bucket, limit.value)
        return True

    def _wait_for(self, bucket: Bucket, quota: float) -> None:
        self.throttle_ms = round(-bucket.tokens / quota * 1000)


def _limit(controller: Controller, request: Request) -> Limit | None:
    table, client_id = controller.tables.metadata, request.header.client_id
    who = request.principal, client_id
    return quota_rates.limit_of(table, controller.id, *who, CONTROLLER_MUTATION_RATE)


def expired(controller: Controller) -> Iterable[Record]:
    """Forgets, in place, the buckets of clients that are silent; gives no records."""
    table, before = controller.tables.quotas, controller.now - EXPIRATION_CHECK_INTERVAL_MS
    for key in table.keys(f"{controller.prefix}/bucket/"):
        bucket = table.get(key, Bucket)
        if bucket is not None and bucket.last_update <= before:
            table.drop(key)
    return ()
