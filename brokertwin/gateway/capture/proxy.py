"""The proxy: a local port for each real broker, opened when a response names it.

The first port leads to the bootstrap broker. Brokers in Metadata, FindCoordinator and
DescribeCluster responses, or in `nodeEndpoints` of Produce and Fetch responses, get the following
ports. The responses are rewritten so that clients connect to the proxy.
"""

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.capture.documents import CapturedExchange, End, fault
from brokertwin.gateway.capture.relay import Pipe, Relay, RelayTarget
from brokertwin.gateway.capture.rewriting import nodes_of
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.server import ANY_HOST, BACKLOG
from brokertwin.protocol.codec import Body
from brokertwin.protocol.kafka_apis import METADATA

CONNECT_TIMEOUT_S = 10.0
STREAM_BYTES = 1 << 18
"""Read-ahead of a connection."""

PORTS_TRIED_MAX = 100
HELD_MAX = 100
"""Maximum of exchanges held back until the first Metadata response."""


class DocumentTaker(Protocol):
    """Takes documents in order, like `Recorder`."""

    async def put(self, document: bytes) -> None:
        """Take a document; may wait for room."""

    def lose(self, reason: str, count: int = 1) -> None:
        """Count lost documents."""


Document = Callable[[int | None], bytes]
"""Creates a document, given the broker's node id, or None with only one broker."""

_log = structlog.get_logger("brokertwin.capture")


@dataclass
class ApiCounts:
    """Exchanges of one API; `ms` is the sum of their response times."""

    exchanges: int = 0
    ms: float = 0.0
    ms_max: float = 0.0
    undelivered: int = 0
    not_read: int = 0


@dataclass
class CaptureCounts:
    """Counts of a capture.

    Attributes:
        apis: counts by the API's name in the request log.
        refused: connections that no broker accepted, by reason.
    """

    connections: int = 0
    connections_all: int = 0
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def exchanges(self) -> int:
        return sum(counts.exchanges for counts in self.apis.values())

    def add(self, api: str, ms: float, is_delivered: bool, is_read: bool) -> None:
        counts = self.apis.setdefault(api, ApiCounts())
        counts.exchanges += 1
        counts.ms += ms
        counts.ms_max = max(counts.ms_max, ms)
        counts.undelivered += not is_delivered
        counts.not_read += not is_read


class Proxy:
    """Relays requests and responses and records both.

    Args:
        listen: first port, for the broker `bootstrap`; the others get the following ports. Port 0:
            any free port for each.
        bootstrap: address of a real broker.
        recorder: receives the documents.
        advertise: host that clients are given; None: the host of `listen`.
        tls: TLS to the brokers; None: plaintext.
        limits: maximum frame size, and maximum number of pending requests of a connection.
        listen_tls: TLS of the clients; None: plaintext.

    Attributes:
        addresses: the proxy's address for each real one.
        counts: relayed exchanges.
    """

    def __init__(
        self,
        listen: Address,
        bootstrap: Address,
        recorder: DocumentTaker,
        advertise: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: GatewayLimits | None = None,
        listen_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.addresses: dict[Address, Address] = {}
        self.counts = CaptureCounts()
        self.limits = limits or GatewayLimits()
        self._listen = listen
        self._advertise = advertise
        self._recorder = recorder
        self._tls = tls
        self._listen_tls = listen_tls
        self._first = RelayTarget(bootstrap)
        self._brokers: set[int] = set()
        self._held: deque[tuple[Document, RelayTarget]] = deque()
        self._holds = True
        self._servers: list[asyncio.Server] = []
        self._relays: dict[asyncio.Task[None], Relay | None] = {}
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Listen for the first broker's clients.

        Raises:
            UserError: the address cannot be bound or advertised.
        """
        host, port = self._listen
        if self._advertise is None and host in ANY_HOST:
            raise UserError(
                f"Clients cannot connect to the listen address {host}.",
                "Add --advertise-host HOST with an address that clients reach.",
            )
        try:
            self.addresses[self._first.address] = await self._serve(self._first, port)
        except OSError as error:
            raise UserError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.",
                "Pass another --listen.",
            ) from None

    async def _serve(self, target: RelayTarget, port: int) -> Address:
        """Listen for a broker's clients and return the advertised address."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(target, Pipe(reader, writer))

        server = await asyncio.start_server(
            accept,
            self._listen.host,
            port,
            limit=STREAM_BYTES,
            backlog=BACKLOG,
            ssl=self._listen_tls,
        )
        self._servers.append(server)
        bound = server.sockets[0].getsockname()[1]
        return Address(self._advertise or self._listen.host, bound)

    async def close(self) -> None:
        """Accept no more requests, wait briefly for pending responses, and end."""
        for server in self._servers:
            server.close()
        for relay in self._relays.values():
            if relay is not None:
                relay.end()
        if self._relays:
            await asyncio.gather(*self._relays, return_exceptions=True)
        await self._write_held()

    async def _accept(self, target: RelayTarget, client: Pipe) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays[task] = None
        self.counts.connections += 1
        self.counts.connections_all += 1
        name = f"c{self.counts.connections_all}"
        try:
            broker = await self._connect(target, name)
            if broker is not None:
                relay = self._relays[task] = self._relay(target, name, client, broker)
                await relay.run()
        finally:
            client.writer.close()
            del self._relays[task]
            self.counts.connections -= 1

    def _relay(self, target: RelayTarget, name: str, client: Pipe, broker: Pipe) -> Relay:
        return Relay(self, target, name, client, broker)

    async def _connect(self, target: RelayTarget, name: str) -> Pipe | None:
        """Connect to the broker; log the reason and return None if that fails."""
        if self.counts.connections > self.limits.connections:
            reason = f"there are {self.limits.connections} connections already"
        else:
            try:
                opening = asyncio.open_connection(
                    *target.address, ssl=self._tls, limit=STREAM_BYTES
                )
                return Pipe(*await asyncio.wait_for(opening, CONNECT_TIMEOUT_S))
            except (OSError, TimeoutError) as error:
                reason = str(error) or f"no response within {CONNECT_TIMEOUT_S:.0f} s"
        self.counts.refused[reason] += 1
        _log.warning("no broker accepts the connection", connection=name, reason=reason)
        return None

    async def record(
        self, exchange: CapturedExchange, ended: float, is_delivered: bool, target: RelayTarget
    ) -> None:
        """Record a completed exchange.

        The first exchanges are held until a Metadata response has listed the brokers.
        """
        ms = 0.0 if exchange.is_one_way else (ended - exchange.started) * 1000
        self.counts.add(exchange.api, ms, is_delivered, is_read=not exchange.reasons)
        await self._hold(partial(exchange.document, ended, is_delivered), target)

    async def record_end(self, end: End, target: RelayTarget) -> None:
        await self._hold(end.document, target)

    async def _hold(self, document: Document, target: RelayTarget) -> None:
        self._held.append((document, target))
        self._holds = self._holds and not self._brokers and len(self._held) < HELD_MAX
        if not self._holds:
            await self._write_held()

    async def _write_held(self) -> None:
        while self._held:
            await self._write(*self._held.popleft())

    async def _write(self, make: Document, target: RelayTarget) -> None:
        broker = target.node_id if len(self._brokers) > 1 else None
        try:
            document = make(broker)
        except Exception as error:  # noqa: BLE001 (a fault must not stop the traffic)
            self._recorder.lose(fault("a document", error))
        else:
            await self._recorder.put(document)

    async def put_addresses(self, api_key: int, response: Body) -> bool:
        """Put the proxy's addresses into a response; return whether it has any."""
        nodes = list(nodes_of(api_key, response))
        if api_key == METADATA.key:
            self._brokers |= {node.node_id for node in nodes}
        for node in nodes:
            if node.address not in self.addresses:
                async with self._opening:
                    await self._open(node.node_id, node.address)
            if node.address == self._first.address:
                self._first.node_id = node.node_id
            node.put(self.addresses.get(node.address, node.address))
        return bool(nodes)

    async def _open(self, node_id: int, address: Address) -> None:
        """Listen for a broker that a response has named, if a port is free."""
        if address in self.addresses or address in self.addresses.values():
            return  # opened meanwhile, or the broker itself advertises the proxy
        if await _is_same(self._first.address, address):
            self._first.node_id = node_id
            self.addresses[address] = self.addresses[self._first.address]
            return
        first = self._listen.port and self._listen.port + len(self._servers)
        for port in range(first, first + PORTS_TRIED_MAX):
            with suppress(OSError, OverflowError):
                local = await self._serve(RelayTarget(address, node_id), port if first else 0)
                self.addresses[address] = local
                _log.info(
                    "listening",
                    broker=node_id,
                    at=f"{local.host}:{local.port}",
                    to=f"{address.host}:{address.port}",
                )
                return
        _log.error("no free port for a broker: its clients bypass the proxy", broker=node_id)


async def _is_same(first: Address, second: Address) -> bool:
    """True if both addresses lead to the same broker."""
    if first.port != second.port:
        return False
    found = await _resolved(first)
    return bool(found) and found <= await _resolved(second)


async def _resolved(address: Address) -> set[str]:
    loop = asyncio.get_running_loop()
    try:
        return {str(info[4][0]) for info in await loop.getaddrinfo(*address)}
    except OSError:
        return set()
