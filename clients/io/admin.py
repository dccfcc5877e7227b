"""An admin over sockets: `Admin(kafka).run(list_offsets({...}))`, on any Kafka.

Source: `Admin` in Kafka. The machines are `clients/admin_client.py` and `clients/admin_calls.py`.
"""

import random
from types import TracebackType

from brokertwin.clients.admin_calls import Call, Outcomes
from brokertwin.clients.admin_client import API_TIMEOUT_MS, AdminClient
from brokertwin.clients.driver import Driver
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms


class Admin:
    """One admin; times in ms. Not for several threads."""

    def __init__(self, kafka: Kafka, *, client_id: str = "brokertwin-admin") -> None:
        self._sockets = SocketNetwork(kafka, client_id)
        self.client = AdminClient(random.random)
        self.client.metadata.bootstrap(addresses_to(kafka), monotonic_ms())
        self._driver = Driver(self.client, self._sockets, monotonic_ms)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sockets.close()

    def run(self, call: Call, timeout_ms: int = API_TIMEOUT_MS) -> Outcomes:
        """What became of each key. Raises AuthenticationError where a broker has not let it in."""
        begun = self.client.begin(call, self._driver.now, timeout_ms)
        while not begun.is_done:
            self._driver.turn(timeout_ms)
        return begun.results
