"""Request time of clients, for the quota `request_percentage` (KIP-124).

A request uses time from its frame to its decision and from its response to the last byte, without
the wait in between. 100 percent are one thread, because a gateway has one; a Kafka broker has those
of `num.io.threads` and `num.network.threads`. As in Kafka, the time to write a response counts for
the client's next request.

Not counted: Produce with acks 0, requests of brokers, ApiVersions and SASL. Kafka throttles a Fetch
over its quota by removing its records; the gateway keeps them because the fetch session has already
advanced.

Source: `ClientRequestQuotaManager`, `RequestHandlerHelper`, `RequestChannel.Request` in Kafka.
"""

from collections.abc import Callable

from brokertwin.gateway.bounded_rates import BoundedRates, RequestLimit
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.kafka_apis import Trait, api_of_key

PERCENT = 100

LimitOf = Callable[[int, str, str | None], RequestLimit | None]
"""Return the quota of a principal and client id at a broker, if any."""


class Stopwatch:
    """Measures the time used by one request.

    Args:
        came: arrival by the event loop's clock in s; the stopwatch runs from then.
    """

    __slots__ = ("_began", "_taken_s", "came")

    def __init__(self, came: float) -> None:
        self.came = came
        self._began: float | None = came
        self._taken_s = 0.0

    def stop(self, now: float) -> None:
        """Pause while the request waits."""
        if self._began is not None:
            self._taken_s += now - self._began
            self._began = None

    def go_on(self, now: float) -> None:
        """Resume, unless it is running."""
        if self._began is None:
            self._began = now

    def take(self, now: float) -> float:
        """Return the time used since the start or the last call, in s."""
        self.stop(now)
        self._began = now
        taken, self._taken_s = self._taken_s, 0.0
        return taken


class RequestTimes:
    """Enforces the quotas of request time."""

    def __init__(self, limit_of: LimitOf) -> None:
        self._limit_of = limit_of
        self._rates = BoundedRates()

    def limit(self, broker: int, request: EdgeRequest) -> RequestLimit | None:
        """Return the quota for a request, or None if there is none or the API is exempt."""
        found = self._limit_of(broker, request.principal, request.header.client_id)
        return None if found is None or _is_exempt(request) else found

    def count(self, broker: int, limit: RequestLimit, watch: Stopwatch, now: float) -> int:
        """Record the time of a request and return the throttle time in ms.

        Args:
            broker: broker that received it.
            limit: the client's quota.
            watch: the request's stopwatch.
            now: the event loop's time in s.
        """
        percent = watch.take(now) * PERCENT
        now_ms = int(now * 1000)
        return self._rates.wait_ms(broker, limit.shared_by, percent, limit.rate, now_ms)


def _is_exempt(request: EdgeRequest) -> bool:
    if isinstance(request.body, ProduceRequest):
        return request.body.acks == 0
    return Trait.QUOTA_EXEMPT in api_of_key(request.api_key).traits
