"""The gateway: a port for each logical broker, in front of one engine."""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.altered_settings import AlteredSettings
from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.admin.releases import Release
from brokertwin.gateway.bounded_rates import RateLimit
from brokertwin.gateway.connection import BrokerConnection
from brokertwin.gateway.connection_quotas import Arrival, ConnectionQuotas
from brokertwin.gateway.context import GatewayContext
from brokertwin.gateway.edge_fields import Address, Addresses
from brokertwin.gateway.engine.engine import BrokerEngine
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.listeners import AddedListeners, GatewayListener
from brokertwin.gateway.request_times import RequestTimes
from brokertwin.gateway.security.altered_stores import AlteredStores
from brokertwin.gateway.security.credentials import KeptUsers, Users
from brokertwin.gateway.security.delegation_tokens import Tokens
from brokertwin.gateway.security.denials import DenialLog
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.gateway.security.tls import TlsHandshake
from brokertwin.gateway.traffic import Traffic

BACKLOG = 512
_UNKNOWN_END_POINT = re.compile(r"BrokerEndPoint\((\d+),,-1\)")
ANY_HOST = frozenset({"0.0.0.0", "::"})
"""Wildcard addresses, to which no client can connect."""

IDLE_CHECKS = 4
"""Checks of idle connections within `connections.max.idle.ms`."""

IDLE_CHECK_LEAST_S = 0.01

_log = structlog.get_logger("brokertwin.gateway")


class Gateway:
    """Serves the brokers of an engine.

    Args:
        listen: host and port of the first broker; the others get the following ports. Port 0: any
            free port for each broker.
        advertise: host and port that clients are given; None: `listen`.
        security: security of the ports; None: PLAINTEXT.
        release: release of Kafka whose API versions are offered; None: 4.3.

    Attributes:
        addresses: advertised address of each broker, after `start`.
    """

    def __init__(
        self,
        engine: BrokerEngine,
        listen: Address,
        advertise: Address | None = None,
        limits: GatewayLimits | None = None,
        security: GatewaySecurity | None = None,
        release: Release | None = None,
    ) -> None:
        self.addresses: Addresses = {}
        self.traffic = Traffic()
        self._engine = engine
        self._listen = listen
        self._advertise = advertise
        self._limits = limits or GatewayLimits()
        self._security = security or GatewaySecurity()
        self._own: dict[int, GatewayListener] = {}
        self._passwords = StorePasswords(self._security.secrets)
        ports = self._listen_at, self._end_listener
        self._added = AddedListeners(engine, self._security, self._passwords, ports)
        self._altered = AlteredSettings(
            engine, self._stores_of, self._passwords, self._added.schedule
        )
        self._tokens = Tokens(engine, self._security.token_key)
        sasl = self._security.sasl
        credentials = sasl.credentials if sasl is not None else None
        self._users: Users = credentials or KeptUsers(engine.users_file)
        self.features = Features(engine, release)
        self._handshakes: dict[TlsHandshake, BrokerConnection] = {}
        self._connections: dict[BrokerConnection, str] = {}
        self._times = RequestTimes()
        self._arrivals = ConnectionQuotas(self._limits_of, self._connection_limit)
        self._servers: dict[int, asyncio.Server] = {}
        self._bound: dict[int, Address] = {}
        self._stopped: set[int] = set()
        self._opens = asyncio.Lock()
        self._large = asyncio.Lock()
        self._openings: set[asyncio.Task[None]] = set()
        engine.on_broker = self._on_broker
        engine.on_settings = self._on_settings
        self._watch: asyncio.Task[None] | None = None
        self._count = 0

    async def start(self, ports: Mapping[int, int] | None = None) -> None:
        """Bind the ports, start the engine and listen.

        A port that cannot be bound leaves no file of the engine behind.

        Args:
            ports: port of each broker; None: as `listen` says.

        Raises:
            UserError: an address cannot be bound or advertised, or the engine does not start.
        """
        if self._advertise is None and self._listen.host in ANY_HOST:
            raise UserError(
                f"Clients cannot connect to the listen address {self._listen.host}.",
                "Add --advertise HOST:PORT with an address that clients reach.",
            )
        asyncio.get_running_loop().set_exception_handler(_log_fault)
        servers: dict[int, asyncio.Server] = {}
        with ExitStack() as bound:
            with self._refusals():
                for place, broker in enumerate(self._engine.brokers):
                    self._own[broker] = GatewayListener(self._security.protocol, self._security)
                    port = self._listen.port + place if self._listen.port else 0
                    servers[broker] = await self._bind(broker, ports[broker] if ports else port)
                    bound.callback(servers[broker].close)
            await self._engine.start()
            self.features.begin()
            for place, (broker, server) in enumerate(servers.items()):
                at = Address(self._listen.host, server.sockets[0].getsockname()[1])
                self._bound[broker] = self.addresses[broker] = at
                if self._advertise is not None:
                    advertised = Address(self._advertise.host, self._advertise.port + place)
                    self.addresses[broker] = advertised
            try:
                with self._refusals():
                    for broker, server in servers.items():
                        await self._serve(broker, server)
            except UserError:  # another program listened on a bound port while the engine started
                await self.close()
                raise
            bound.pop_all()
        if self._limits.idle_ms >= 0:
            self._watch = asyncio.get_running_loop().create_task(self._close_idle())
        for broker in self._stopped:
            self._shut(broker)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn an OSError of a port into a UserError."""
        try:
            yield
        except OSError as error:
            host, port = self._listen
            raise UserError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.",
                "Pass another --listen.",
            ) from None

    async def _bind(self, broker: int, port: int) -> asyncio.Server:
        return await self._listen_at(
            broker, self._own[broker], self._listen.host, port, is_serving=False
        )

    async def _serve(self, broker: int, server: asyncio.Server) -> None:
        try:
            await server.start_serving()
        except OSError:
            server.close()
            raise
        self._servers[broker] = server
        self._added.begin(broker, self._own[broker])

    async def _listen_at(
        self,
        broker: int,
        listener: GatewayListener,
        host: str | None,
        port: int,
        is_serving: bool = True,
    ) -> asyncio.Server:
        context = self.context(listener)
        return await asyncio.get_running_loop().create_server(
            lambda: Arrival(broker, partial(self._accept, context), self._arrivals, listener),
            host,
            port,
            backlog=BACKLOG,
            start_serving=is_serving,
        )

    def context(self, listener: GatewayListener) -> GatewayContext:
        """Return the shared objects of a listener's connections."""
        return GatewayContext(
            self._engine,
            self.addresses,
            self._limits,
            listener,
            self._lost,
            self.traffic,
            DenialLog(),
            self.features,
            self._tokens,
            self._times,
            self._altered,
            self._users,
            self._large,
        )

    def _end_listener(self, broker: int, listener: GatewayListener, server: asyncio.Server) -> None:
        listener.is_closed = True
        _stop_listening(server)
        self.disconnect([broker], listener)

    def _stores_of(self, broker: int) -> list[AlteredStores]:
        """Return the key and trust stores of a broker's listeners."""
        stores = (each.stores for each in (self._own[broker], *self._added.of(broker)))
        return [each for each in stores if each is not None]

    def _on_settings(self) -> None:
        self._arrivals.limits_changed()
        self._added.schedule()

    def _limits_of(self, broker: int) -> GatewayLimits:
        changed = self._engine.known(broker).changed(broker)
        return self._limits.changed(changed, self._security.protocol) if changed else self._limits

    def _connection_limit(self, broker: int, host: str) -> RateLimit | None:
        return self._engine.known(broker).connection_limit(broker, host)

    def _on_broker(self, broker: int, is_stopped: bool) -> None:
        """Close the port and connections of a stopped broker; reopen them when it starts."""
        if is_stopped == (broker in self._stopped):
            return
        if is_stopped:
            self._stopped.add(broker)
            self._shut(broker)
            return
        self._stopped.remove(broker)
        if broker in self._bound:
            opening = asyncio.get_running_loop().create_task(self._open_again(broker))
            self._openings.add(opening)
            opening.add_done_callback(self._openings.discard)

    def _shut(self, broker: int) -> None:
        server = self._servers.pop(broker, None)
        if server is not None:
            _log.info("broker stopped", broker=broker)
            _stop_listening(server)
            self._added.end(broker)
            self.disconnect([broker])

    async def _open_again(self, broker: int) -> None:
        """Listen on the same port again, unless the broker has stopped meanwhile."""
        async with self._opens:
            if broker in self._servers:
                return
            try:
                await self._serve(broker, await self._bind(broker, self._bound[broker].port))
            except OSError as error:
                _log.error("cannot listen on a port again", broker=broker, error=str(error))
                return
            _log.info("broker started", broker=broker)
            if broker in self._stopped:
                self._shut(broker)

    def _accept(self, context: GatewayContext, arrival: Arrival) -> asyncio.Protocol | None:
        broker = arrival.broker
        if broker in self._stopped:
            arrival.refuse(f"broker {broker} is stopped")
            return None
        if context.listener.is_closed:
            arrival.refuse(f"listener {context.listener.name} is closed")
            return None
        stores, tls = context.listener.stores, None
        if stores is not None:
            now = self._engine.known(broker).changed(broker), self._passwords.of(broker)
            tls = stores.context(broker, now)
        self._count += 1
        connection = BrokerConnection(context, broker, f"c{self._count}")
        self._connections[connection] = arrival.host
        if tls is None:
            return connection
        handshake = TlsHandshake(connection, tls, self._security.time_max_s, self._shaken)
        self._handshakes[handshake] = connection
        return handshake

    def _lost(self, connection: BrokerConnection) -> None:
        host = self._connections.pop(connection, None)
        if host is not None:
            self._arrivals.ended(connection.broker, host)

    def _shaken(self, handshake: TlsHandshake, is_done: bool) -> None:
        """Finish a TLS handshake; if it failed, forget the connection."""
        connection = self._handshakes.pop(handshake)
        if not is_done:
            self._lost(connection)

    @property
    def stopped(self) -> list[int]:
        return sorted(self._stopped)

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def waiting(self) -> int:
        return sum(connection.is_busy for connection in list(self._connections))

    def disconnect(self, brokers: Collection[int], by: GatewayListener | None = None) -> None:
        """Close all connections to brokers, or only those of one listener."""
        for connection in list(self._connections):
            if connection.broker in brokers and by in (None, connection.listener):
                connection.abort()
        for handshake, connection in list(self._handshakes.items()):
            if connection.broker in brokers and by in (None, connection.listener):
                handshake.abort()
        self._arrivals.abort(brokers, by)

    def addressed(self, line: str) -> str:
        """Return a logged line with the addresses of brokers: the state does not have them."""

        def end_point(match: re.Match[str]) -> str:
            host, port = self.addresses.get(int(match[1]), Address("", -1))
            return f"BrokerEndPoint({match[1]},{host},{port})"

        return _UNKNOWN_END_POINT.sub(end_point, line)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.gather(*self._openings)
        await self._added.close()
        for server in self._servers.values():
            _stop_listening(server)
        self._arrivals.end()
        for handshake in list(self._handshakes):
            handshake.abort()
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.finished()
        await self._engine.close()

    async def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        idle_s = self._limits.idle_ms / 1000
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(max(idle_s / IDLE_CHECKS, IDLE_CHECK_LEAST_S))
                before = loop.time() - idle_s
                for connection in list(self._connections):
                    connection.end_if_idle(before, f"more than {self._limits.idle_ms} ms")


def _stop_listening(server: asyncio.Server) -> None:
    """Stop accepting, and close the server after already accepted connections have started.

    A connection whose server closes in between is neither served nor closed (CPython gh-109564), so
    its client would wait for its own timeout.
    """
    loop = server.get_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    loop.call_soon(server.close)


def _log_fault(loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
    """Log what asyncio reports, such as an accept without a free descriptor, in one line."""
    error = fault.get("exception")
    if isinstance(error, OSError):
        _log.error("network fault", what=fault["message"], error=str(error))
    else:
        _log.error("fault", what=fault["message"], error=repr(error), exc_info=error)
