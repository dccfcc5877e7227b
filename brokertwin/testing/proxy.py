"""KafkaProxy: faults between a test's clients and a real Kafka cluster."""

from collections.abc import Iterable
from typing import Any, Self

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import FaultSpec
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.proxy.proxy import FaultProxy
from brokertwin.state.core.events import Kind
from brokertwin.testing.threads import LoopThread
from brokertwin.testing.verbs import FaultVerbs

HOST = "127.0.0.1"


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
        self.fault_set = FaultSet(faults)
        self._first = Address(host.strip("[]"), int(port))
        self._thread = LoopThread("proxy")
        self._proxy = FaultProxy(Address(HOST, 0), self._first, self.fault_set)

    def start(self) -> Self:
        """Listen; a `with` does it."""
        self._thread.start()
        try:
            self._thread.run(self._proxy.start())
        except BaseException:
            self._thread.end()
            raise
        return self

    def close(self) -> None:
        if self._thread.is_running:
            try:
                self._thread.run(self._proxy.close())
            finally:
                self._thread.end()

    @property
    def bootstrap(self) -> str:
        """Address for `bootstrap.servers`."""
        address = self._thread.call(lambda: self._proxy.addresses[self._first])
        return f"{address.host}:{address.port}"

    def calm(self) -> None:
        """End all faults and release held requests."""
        self.fault_set.clear()

    def _documents(self) -> list[dict[str, Any]]:
        lines = self._thread.call(self._proxy.documents)
        documents = [
            {"broker": None, "response": None, "fault": None, **msgspec.json.decode(x)}
            for x in lines
        ]
        documents = [each for each in documents if each.get("kind") != Kind.DISCONNECT]
        return sorted(documents, key=lambda each: each["time"])
