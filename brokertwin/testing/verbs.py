"""What the test broker and the proxy share: their life, received requests, faults as methods."""

import time
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, TypedDict, Unpack

from brokertwin.gateway.faults.fault import WAIT_S, Effect, Fault, FaultSpec, api_key_of
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.testing.threads import LoopThread

POLL_S = 0.002
"""Poll interval of a wait."""


class Choice(TypedDict, total=False):
    """Choice of the affected requests; all parts are optional.

    Attributes:
        client: only requests with this client id.
        broker: only requests to this broker.
        topic: only requests that name this topic.
        partition: with `topic`, only this partition.
        nth: first affected one of the matching requests, from 1.
        probability: probability for each of them, from above 0 to 1.
        seed: seed of the random numbers for `probability`.
        name: name in lists and in recorded requests.
    """

    client: str
    broker: int
    topic: str
    partition: int
    nth: int
    probability: float
    seed: int
    name: str


class FaultVerbs(ABC):
    """A server in a thread, usually in a `with`, and methods that add a fault and return it.

    Each of these accepts `times` (number of affected requests; None: all until `Fault.release`) and
    the parts of a `Choice`. All raise UserError for an unknown API or a value that does not fit.
    """

    fault_set: FaultSet
    _thread: LoopThread

    @abstractmethod
    def start(self) -> Self:
        """Listen; a `with` does it."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """True between `start` and `close`."""
        return self._thread.is_running

    @abstractmethod
    def _documents(self) -> list[dict[str, Any]]:
        """Return received requests; called in any thread."""

    def requests(
        self,
        api: str | int | None = None,
        client: str | None = None,
        at_least: int = 0,
        timeout_s: float = WAIT_S,
    ) -> list[dict[str, Any]]:
        """Return received requests, oldest first, in the form of Kafka's request log.

        Each also has its `response` (None while pending) and the `fault` that was applied.
        ApiVersions and SASL requests are not included at a broker. A proxy keeps the last 10,000;
        `delivered` is False if the client did not receive the response.

        Args:
            api: only requests of this API.
            client: only requests with this client id.
            at_least: wait for this number of requests.
            timeout_s: timeout of the wait.

        Raises:
            TimeoutError: there are fewer requests.
            UserError: unknown API.
        """
        key = None if api is None else api_key_of(api)
        deadline = time.monotonic() + timeout_s
        while True:
            documents = [each for each in self._documents() if _is_wanted(each, key, client)]
            if len(documents) >= at_least:
                return documents
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{len(documents)} of {at_least} requests within {timeout_s} s")
            time.sleep(POLL_S)

    @property
    def faults(self) -> list[Fault]:
        """Faults in force, in order of evaluation."""
        return list(self.fault_set.faults)

    def add_fault(self, spec: FaultSpec) -> Fault:
        """Add a fault, given like an entry of a fault file."""
        self.fault_set.forget_ended()
        return self.fault_set.add(spec)

    def fail_next(
        self, api: str | int, error: str | int, times: int | None = 1, **which: Unpack[Choice]
    ) -> Fault:
        """Return an error to the next requests instead of processing them.

        With a topic or partition, the rest of such a request is processed. The error is in every
        error code of the response; for Fetch and Metadata in each partition or topic, except for
        errors of a whole fetch session.

        Args:
            api: Kafka's name or key of the API.
            error: Kafka's name or code of the error.
            times: number of requests; None: all until `Fault.release`.
            which: choice of the requests.
        """
        return self.add_fault(
            FaultSpec(effect=Effect.FAIL, api=api, error=error, times=_times(times), **which)
        )

    def lose_response(
        self,
        api: str | int | None = None,
        times: int | None = 1,
        closes: bool = True,
        **which: Unpack[Choice],
    ) -> Fault:
        """Process the next requests without sending their responses.

        Args:
            api: Kafka's name or key of the API; None: any.
            times: number of requests.
            closes: close the connection; otherwise the client waits until its timeout, and later
                requests on this connection get no response.
            which: choice of the requests.
        """
        return self.add_fault(
            FaultSpec(effect=Effect.LOSE, api=api, times=_times(times), closes=closes, **which)
        )

    def drop_connection(
        self, api: str | int | None = None, times: int | None = 1, **which: Unpack[Choice]
    ) -> Fault:
        """Close the connections of the next requests without processing them."""
        return self.add_fault(FaultSpec(effect=Effect.CUT, api=api, times=_times(times), **which))

    def duplicate(
        self, api: str | int | None = None, times: int | None = 1, **which: Unpack[Choice]
    ) -> Fault:
        """Process the next requests twice and send the second response, as after a repeat."""
        return self.add_fault(
            FaultSpec(effect=Effect.DUPLICATE, api=api, times=_times(times), **which)
        )

    def delay(
        self,
        api: str | int | None,
        milliseconds: int,
        times: int | None = 1,
        before: bool = False,
        **which: Unpack[Choice],
    ) -> Fault:
        """Delay the responses of the next requests, or with `before` the requests, in real time.

        Can be combined with other effects: an error can be delayed.
        """
        return self.add_fault(
            FaultSpec(
                effect=Effect.DELAY,
                api=api,
                ms=milliseconds,
                times=_times(times),
                before=before,
                **which,
            )
        )

    def hold(
        self,
        api: str | int | None = None,
        times: int | None = 1,
        before: bool = False,
        **which: Unpack[Choice],
    ) -> Fault:
        """Hold the responses of the next requests until `Fault.release`.

        With `before`, the requests are held: they are processed after the release, even if their
        client has disconnected. Later requests and responses of the connection wait, too.
        """
        return self.add_fault(
            FaultSpec(effect=Effect.HOLD, api=api, times=_times(times), before=before, **which)
        )

    def throttle(
        self,
        milliseconds: int,
        api: str | int | None = None,
        times: int | None = 1,
        **which: Unpack[Choice],
    ) -> Fault:
        """Report a throttle time, and wait so long before the connection's next request."""
        return self.add_fault(
            FaultSpec(
                effect=Effect.THROTTLE, api=api, ms=milliseconds, times=_times(times), **which
            )
        )


def _times(times: int | None) -> int | Literal["all"]:
    return "all" if times is None else times


def _is_wanted(document: dict[str, Any], api_key: int | None, client: str | None) -> bool:
    header = document.get("requestHeader", {})
    return api_key in (None, header.get("requestApiKey")) and client in (
        None,
        header.get("clientId"),
    )
