"""Proxy that injects faults: a local port for each broker, like `gateway/capture/proxy.py`."""

import asyncio
import ssl
from collections import deque

from brokertwin.gateway.capture.proxy import DocumentTaker, Proxy
from brokertwin.gateway.capture.relay import Pipe, Relay, RelayTarget
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.proxy.learned import Learned
from brokertwin.gateway.proxy.relay import FaultRelay

EXCHANGES_KEPT = 10_000
"""Maximum number of kept exchanges; the oldest is dropped."""


class KeptExchanges:
    """Keeps the last exchanges as documents, and passes them to a recorder.

    Attributes:
        documents: lines of JSON, in order of completion.
    """

    def __init__(self, recorder: DocumentTaker | None = None) -> None:
        self.documents: deque[bytes] = deque(maxlen=EXCHANGES_KEPT)
        self._recorder = recorder

    async def put(self, document: bytes) -> None:
        self.documents.append(document)
        if self._recorder is not None:
            await self._recorder.put(document)

    def lose(self, reason: str, count: int = 1) -> None:
        """Count documents that could not be made."""
        if self._recorder is not None:
            self._recorder.lose(reason, count)


class FaultProxy(Proxy):
    """Relays requests and responses of a cluster, subject to faults.

    Args:
        listen, bootstrap, advertise, tls, listen_tls: as for `Proxy`.
        faults: the faults in force; may change at any time.
        recorder: receives the documents, too; None: they are only kept in `seen`.

    Attributes:
        seen: the last exchanges.
        learned: facts about the cluster.
    """

    def __init__(
        self,
        listen: Address,
        bootstrap: Address,
        faults: FaultSet,
        recorder: DocumentTaker | None = None,
        advertise: str | None = None,
        tls: ssl.SSLContext | None = None,
        listen_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.faults = faults
        self.learned = Learned()
        self.seen = KeptExchanges(recorder)
        super().__init__(listen, bootstrap, self.seen, advertise, tls, listen_tls=listen_tls)

    def _relay(self, target: RelayTarget, name: str, client: Pipe, broker: Pipe) -> Relay:
        return FaultRelay(self, target, name, client, broker)

    def documents(self) -> list[bytes]:
        """Return the last exchanges, then the pending ones, as lines of JSON.

        Call it in the event loop.
        """
        is_one = len(self._brokers) <= 1
        documents = list(self.seen.documents)
        documents += [make(None if is_one else target.node_id) for make, target in self._held]
        now = asyncio.get_running_loop().time()
        for relay in self._relays.values():
            if isinstance(relay, FaultRelay):
                broker = None if is_one else relay.broker
                documents += [each.document(now, True, broker) for each in relay.pending]
        return documents

    async def close(self) -> None:
        """End all faults, wait briefly for pending responses, and end."""
        self.faults.clear()
        await super().close()
