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

from brokertwin.gateway.bounded_rates import BoundedRates, RequestLimit
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.kafka_apis import Trait, api_of_key

PERCENT = 100


class RequestTimes:
    """Enforces the quotas of request time."""

    def __init__(self) -> None:
        self._rates = BoundedRates()

    def count(self, broker: int, limit: RequestLimit, taken_s: float, now: float) -> int:
        """Record the time of a request and return the throttle time in ms.

        Args:
            broker: broker that received it.
            limit: the client's quota.
            taken_s: time of the request, in s.
            now: the event loop's time in s.
        """
        percent = taken_s * PERCENT
        now_ms = int(now * 1000)
        return self._rates.wait_ms(broker, limit.shared_by, percent, limit.rate, now_ms)


def is_exempt(request: EdgeRequest) -> bool:
    """True if the time of a request does not count."""
    if isinstance(request.body, ProduceRequest):
        return request.body.acks == 0
    return Trait.QUOTA_EXEMPT in api_of_key(request.api_key).traits
