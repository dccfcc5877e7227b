"""KafkaProxy: faults between a test's clients and a real Kafka cluster."""

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import WAIT_S, FaultSpec, api_key_of
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.proxy.proxy import FaultProxy
from brokertwin.state.core.events import Kind
from brokertwin.testing.threads import LoopThread
from brokertwin.testing.verbs import FaultVerbs

HOST = "127.0.0.1"
POLL_S = 0.005


class KafkaProxy(FaultVerbs):
    """A proxy for tests, in a `with`: clients connect to `bootstrap`.

    Args:
        broker: address of a broker of the cluster, `host:port`.
        faults: initial faults, for example of `fault_file.read`.

    Raises:
        UserError: an invalid address or fault.
    """

    def __init__(self, broker: str, faults: Iterable[FaultSpec] = ()) -> None:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal():
            raise UserError(f"Invalid broker={broker!r}.", "Pass host:port of one broker.")
        self._faults = FaultSet(faults)
        self._first = Address(host.strip("[]"), int(port))
        self._thread = LoopThread("proxy")
        self._proxy = FaultProxy(Address(HOST, 0), self._first, self._faults)

    def start(self) -> "KafkaProxy":
        """Listen; a `with` does it."""
        self._thread.start()
        try:
            self._thread.run(self._proxy.start())
        except BaseException:
            self._thread.end()
            raise
        return self

    def close(self) -> None:
        """End all faults and close all connections."""
        if self._thread.is_running:
            try:
                self._thread.run(self._proxy.close())
            finally:
                self._thread.end()

    def __enter__(self) -> "KafkaProxy":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """True between `start` and `close`."""
        return self._thread.is_running

    @property
    def bootstrap(self) -> str:
        """Address for `bootstrap.servers`."""
        address = self._thread.call(lambda: self._proxy.addresses[self._first])
        return f"{address.host}:{address.port}"

    def calm(self) -> None:
        """End all faults and release held requests."""
        self._faults.clear()

    def requests(
        self,
        api: str | int | None = None,
        client: str | None = None,
        at_least: int = 0,
        timeout_s: float = WAIT_S,
    ) -> list[dict[str, Any]]:
        """Return the last 10,000 requests by arrival, in the form of Kafka's request log.

        Each has its `response` (None while pending), the `fault` that was injected, and
        `delivered: False` if the client did not receive the response.

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
            found = [each for each in self._documents() if _is_wanted(each, key, client)]
            if len(found) >= at_least:
                return found
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{len(found)} of {at_least} requests within {timeout_s} s")
            time.sleep(POLL_S)

    def _documents(self) -> list[dict[str, Any]]:
        lines = self._thread.call(self._proxy.documents)
        documents = [
            {"broker": None, "response": None, "fault": None, **msgspec.json.decode(x)}
            for x in lines
        ]
        documents = [each for each in documents if each.get("kind") != Kind.DISCONNECT]
        return sorted(documents, key=lambda each: each["time"])


def _is_wanted(document: dict[str, Any], api_key: int | None, client: str | None) -> bool:
    header = document.get("requestHeader", {})
    return api_key in (None, header.get("requestApiKey")) and client in (
        None,
        header.get("clientId"),
    )
