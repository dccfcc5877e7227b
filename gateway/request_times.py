"""How much of the gateway's time the requests of clients take: `request_percentage` (KIP-124).

A request takes the time in which this process works for it and for nothing else: from its frame to
its decision, and from the answer to its last byte; not while it waits. 100 percent are all of one
thread's time, of which a gateway has one and a Kafka broker has those of `num.io.threads` and
`num.network.threads`. What it takes to write an answer counts for the next one, as there.

Nothing is counted of Produces with acks 0, of what only brokers ask, and of what is answered before
anybody decides: ApiVersions and SASL. Kafka gives a Fetch that goes over a quota without its
records; here it keeps them, as its session has been told of them already.

Source: `ClientRequestQuotaManager`, `RequestHandlerHelper`, `RequestChannel.Request` in Kafka.
"""

from collections.abc import Callable

from brokertwin.gateway.bounded_rates import BoundedRates, RequestLimit
from brokertwin.gateway.protocol.frames import Request
from brokertwin.state.core.kafka_apis import PRODUCE, Trait, api_of_key

PERCENT = 100

LimitOf = Callable[[int, str, str | None], RequestLimit | None]
"""The quota of a broker for a principal and a client id, if there is one."""


class Stopwatch:
    """The time that is taken for one request.

    Args:
        came: when it came, by the event loop's clock in s; it runs from there.
    """

    __slots__ = ("_began", "_taken_s", "came")

    def __init__(self, came: float) -> None:
        self.came = came
        self._began: float | None = came
        self._taken_s = 0.0

    def stop(self, now: float) -> None:
        """Others have their turn."""
        if self._began is not None:
            self._taken_s += now - self._began
            self._began = None

    def go_on(self, now: float) -> None:
        """Its turn has come again; where it has not stopped it runs on."""
        if self._began is None:
            self._began = now

    def take(self, now: float) -> float:
        """What was taken since the start or the last call, in s."""
        self.stop(now)
        self._began = now
        taken, self._taken_s = self._taken_s, 0.0
        return taken


class RequestTimes:
    """Holds clients to their quotas of time.

    Args:
        limit_of: the quotas.
    """

    def __init__(self, limit_of: LimitOf) -> None:
        self._limit_of = limit_of
        self._rates = BoundedRates()

    def limit(self, broker: int, principal: str, request: Request) -> RequestLimit | None:
        """The quota that holds at a broker for who has asked, None where none holds for this."""
        found = self._limit_of(broker, principal, request.header["clientId"])
        return None if found is None or _is_exempt(request) else found

    def count(self, broker: int, limit: RequestLimit, watch: Stopwatch, now: float) -> int:
        """Counts what a request has taken; for how many ms its client is not heard.

        Args:
            broker: who was asked.
            limit: the quota of who has asked.
            watch: what the request has taken.
            now: the event loop's time in s.
        """
        percent = watch.take(now) * PERCENT
        now_ms = int(now * 1000)
        return self._rates.wait_ms(broker, limit.shared_by, percent, limit.rate, now_ms)


def _is_exempt(request: Request) -> bool:
    if request.api_key == PRODUCE.key:
        return bool(request.body["acks"] == 0)
    return Trait.QUOTA_EXEMPT in api_of_key(request.api_key).traits
