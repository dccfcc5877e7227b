"""The proxy: a local port for each real broker, opened when an answer names it.

The first port leads to the broker that was given. Brokers that Metadata, FindCoordinator and
DescribeCluster answers name, or the `nodeEndpoints` of Produce and Fetch answers, get the ports
after it; the answers are rewritten, so that clients stay with the proxy.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.answers import Address
from brokertwin.gateway.capture.counts import Counts
from brokertwin.gateway.capture.documents import End, Exchange, fault
from brokertwin.gateway.capture.recorder import Recorder
from brokertwin.gateway.capture.relay import Pipe, Relay, Target
from brokertwin.gateway.capture.rewriting import nodes_of
from brokertwin.gateway.limits import Limits
from brokertwin.gateway.protocol.codec import Body
from brokertwin.gateway.server import ANY_HOST, BACKLOG
from brokertwin.state.core.kafka_apis import METADATA

CONNECT_TIMEOUT_S = 10.0
STREAM_BYTES = 1 << 18
"""How much of a connection is read ahead of what is passed on."""

PORTS_TRIED_MAX = 100
HELD_MAX = 100
"""How many exchanges wait at most for the first Metadata answer."""

Document = Callable[[int | None], bytes]
"""Makes a document, given the broker's node id, None where it goes without saying."""

_log = structlog.get_logger("brokertwin.capture")


class Proxy:
    """Passes on what clients and brokers say, and records it.

    Args:
        listen: the first port, for the broker `bootstrap`; the others have ports after it. Port
            0: any free port for each.
        bootstrap: a real broker.
        recorder: takes the documents.
        advertise: the host that clients are told; None: the one of `listen`.
        tls: how to speak TLS to the brokers; None: plain.
        limits: the largest frame that is read, and how many requests of a connection wait for
            answers.

    Attributes:
        addresses: the proxy's address for each real one.
        counts: what has passed through.
    """

    def __init__(
        self,
        listen: Address,
        bootstrap: Address,
        recorder: Recorder,
        advertise: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.addresses: dict[Address, Address] = {}
        self.counts = Counts()
        self.limits = limits or Limits()
        self._listen = listen
        self._advertise = advertise
        self._recorder = recorder
        self._tls = tls
        self._first = Target(bootstrap)
        self._brokers: set[int] = set()
        self._held: deque[tuple[Document, Target]] = deque()
        self._holds = True
        self._servers: list[asyncio.Server] = []
        self._relays: dict[asyncio.Task[None], Relay | None] = {}
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Listen for the first broker's clients.

        Raises:
            UserError: the address cannot be listened on, or not be told to clients.
        """
        host, port = self._listen
        if self._advertise is None and host in ANY_HOST:
            raise UserError(
                f"Clients cannot connect to the listen address {host}.",
                "Add --advertise HOST with an address that clients reach.",
            )
        try:
            self.addresses[self._first.address] = await self._serve(self._first, port)
        except OSError as error:
            raise UserError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.",
                "Pass another --listen.",
            ) from None

    async def _serve(self, target: Target, port: int) -> Address:
        """Listen for a broker's clients; gives back the address that they are told."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(target, Pipe(reader, writer))

        server = await asyncio.start_server(
            accept, self._listen.host, port, limit=STREAM_BYTES, backlog=BACKLOG
        )
        self._servers.append(server)
        bound = server.sockets[0].getsockname()[1]
        return Address(self._advertise or self._listen.host, bound)

    async def close(self) -> None:
        """Take no more requests, wait a little for the answers to those there are, and end."""
        for server in self._servers:
            server.close()
        for relay in self._relays.values():
            if relay is not None:
                relay.end()
        if self._relays:
            await asyncio.gather(*self._relays, return_exceptions=True)
        await self._write_held()

    async def _accept(self, target: Target, client: Pipe) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays[task] = None
        self.counts.connections += 1
        self.counts.connections_all += 1
        name = f"c{self.counts.connections_all}"
        try:
            broker = await self._connect(target, name)
            if broker is not None:
                relay = self._relays[task] = Relay(self, target, name, client, broker)
                await relay.run()
        finally:
            client.writer.close()
            del self._relays[task]
            self.counts.connections -= 1

    async def _connect(self, target: Target, name: str) -> Pipe | None:
        """A connection to the broker; None, with a reason in the log, where there is none."""
        if self.counts.connections > self.limits.connections:
            reason = f"there are {self.limits.connections} connections already"
        else:
            try:
                opening = asyncio.open_connection(
                    *target.address, ssl=self._tls, limit=STREAM_BYTES
                )
                return Pipe(*await asyncio.wait_for(opening, CONNECT_TIMEOUT_S))
            except (OSError, TimeoutError) as error:
                reason = str(error) or f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
        self.counts.refused[reason] += 1
        _log.warning("no broker accepts the connection", connection=name, reason=reason)
        return None

    async def record(
        self, exchange: Exchange, ended: float, is_delivered: bool, target: Target
    ) -> None:
        """Record an exchange that has ended.

        The first ones are held until a Metadata answer has told which brokers there are.
        """
        ms = 0.0 if exchange.is_one_way else (ended - exchange.started) * 1000
        self.counts.add(exchange.api, ms, is_delivered, is_read=not exchange.reasons)
        await self._hold(partial(exchange.document, ended, is_delivered), target)

    async def record_end(self, end: End, target: Target) -> None:
        """Record that a connection has ended, behind all of its exchanges."""
        await self._hold(end.document, target)

    async def _hold(self, document: Document, target: Target) -> None:
        self._held.append((document, target))
        self._holds = self._holds and not self._brokers and len(self._held) < HELD_MAX
        if not self._holds:
            await self._write_held()

    async def _write_held(self) -> None:
        while self._held:
            await self._write(*self._held.popleft())

    async def _write(self, make: Document, target: Target) -> None:
        broker = target.node_id if len(self._brokers) > 1 else None
        try:
            document = make(broker)
        except Exception as error:  # noqa: BLE001 (traffic goes on, whatever is wrong here)
            self._recorder.lose(fault("a document", error))
        else:
            await self._recorder.put(document)

    async def put_addresses(self, api_key: int, response: Body) -> bool:
        """Put the proxy's addresses into an answer; gives back whether there are any in it."""
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
        """Listen for a broker that an answer has named; nothing where no port is to be had."""
        if address in self.addresses or address in self.addresses.values():
            return  # opened meanwhile; or the broker itself advertises the proxy
        if await _is_same(self._first.address, address):
            self._first.node_id = node_id
            self.addresses[address] = self.addresses[self._first.address]
            return
        first = self._listen.port and self._listen.port + len(self._servers)
        for port in range(first, first + PORTS_TRIED_MAX):
            with suppress(OSError, OverflowError):
                local = await self._serve(Target(address, node_id), port if first else 0)
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
    """Whether an address leads to no other broker than a second one."""
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
