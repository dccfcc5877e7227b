"""Listeners that are added to brokers while they run (`listeners`).

A broker starts with the gateway's own listener, named after its security protocol. A listener that
is added to `listeners` is opened at its address with its protocol in
`listener.security.protocol.map`. A removed listener is closed with its connections. As in Kafka,
clients do not learn these addresses. If a listener cannot be opened, a warning is logged, and the
next attempt follows a change of its settings.

Source: `DynamicListenerConfig.reconfigure`, `SocketServer.addListeners` in Kafka.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties, prefix_of
from brokertwin.gateway.engine.engine import BrokerEngine
from brokertwin.gateway.security.altered_stores import AlteredStores
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.state.configs import listeners
from brokertwin.state.configs.dynamic_configs import is_secret

_log = structlog.get_logger("brokertwin.gateway")


class GatewayListener:
    """Listener of a broker.

    Args:
        start: settings given at the start, for a listener added later.
        own: settings it was added with.

    Attributes:
        is_closed: whether it accepts no more connections.
        is_added: whether it was added while its broker runs; its address is not advertised.
        known_as: name in requests to the state machine; empty if another listener has this name.
        stores: its key and trust stores, if it has TLS.
    """

    def __init__(
        self,
        name: str,
        security: GatewaySecurity,
        start: BrokerProperties | None = None,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = self.known_as = name
        self.security = security
        self.stores: AlteredStores | None = None
        self.is_closed = False
        self.is_added = start is not None
        if security.tls is not None:
            self.stores = AlteredStores(security.tls, start, own)


class _Wanted(NamedTuple):
    """A listener in the settings: address, protocol and its own settings."""

    place: listeners.BrokerListener
    protocol: str
    own: Mapping[str, str]


class _Added(NamedTuple):
    """An added listener; it has no server if it could not be opened."""

    wanted: _Wanted
    listener: GatewayListener | None = None
    server: asyncio.Server | None = None


Open = Callable[[int, GatewayListener, str | None, int], Awaitable[asyncio.Server]]
"""Open a listener's port. Raises OSError."""

Close = Callable[[int, GatewayListener, asyncio.Server], None]
"""Close a listener's port and its connections."""


class AddedListeners:
    """Added listeners of all brokers.

    Args:
        engine: provides the brokers' settings.
        security: security of the gateway's own listener, and other settings from the start.
        passwords: passwords of altered stores.
        ports: functions that open and close a port.
    """

    def __init__(
        self,
        engine: BrokerEngine,
        security: GatewaySecurity,
        passwords: StorePasswords,
        ports: tuple[Open, Close],
    ) -> None:
        self._engine = engine
        self._security = security
        self._passwords = passwords
        self._open, self._close = ports
        self._added: dict[tuple[int, str], _Added] = {}
        self._is_there: dict[int, GatewayListener] = {}
        self._turn = asyncio.Lock()
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, broker: int, own: GatewayListener) -> None:
        self._is_there[broker] = own
        self.schedule()

    def end(self, broker: int) -> None:
        self._is_there.pop(broker, None)
        for each, name in list(self._added):
            if each == broker:
                self._shut(broker, name)

    def schedule(self) -> None:
        """Schedule `settle` because settings may have changed."""
        if self._is_there and not self._is_due:
            self._is_due = True
            task = asyncio.get_running_loop().create_task(self.settle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for broker in list(self._is_there):
            self.end(broker)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def of(self, broker: int) -> list[GatewayListener]:
        listeners = (added.listener for (each, _), added in self._added.items() if each == broker)
        return [each for each in listeners if each is not None]

    async def settle(self) -> None:
        """Open and close listeners according to the current settings."""
        self._is_due = False
        async with self._turn:
            for broker, own in list(self._is_there.items()):
                if self._is_there.get(broker) is not own:
                    continue  # the broker stopped while another listener was opened
                wanted = self._wanted(broker)
                own.known_as = "" if own.name in wanted else own.name
                for each, name in list(self._added):
                    if each == broker and name not in wanted:
                        self._shut(broker, name)
                for name, one in wanted.items():
                    listener = self._added.get((broker, name))
                    if listener is None or (listener.server is None and listener.wanted != one):
                        await self._add(broker, one)

    def _wanted(self, broker: int) -> dict[str, _Wanted]:
        now = self._engine.known(broker)
        settings, changed = now.of(broker), now.changed(broker)
        passwords = self._passwords.of(broker)
        texts = {name: text for name, text in changed.items() if not is_secret(name)}
        texts |= {name: text for name, text in passwords.items() if name in changed}
        wanted = {}
        for place in listeners.opened(settings):
            prefix, protocol = prefix_of(place.name), listeners.protocols_of(settings)[place.name]
            own = {name: text for name, text in texts.items() if name.startswith(prefix)}
            wanted[place.name] = _Wanted(place, protocol, own)
        return wanted

    async def _add(self, broker: int, wanted: _Wanted) -> None:
        name, host, port = wanted.place
        context = {"broker": broker, "listener": name}
        self._added[broker, name] = _Added(wanted)
        try:
            protocol = SecurityProtocol(wanted.protocol)
            security = self._security.of_listener(name, protocol, wanted.own)
            start = self._security.properties_of(name, protocol)
            listener = GatewayListener(name, security, start, wanted.own)
            server = await self._open(broker, listener, host or None, port)
        except Exception as error:  # noqa: BLE001 (one listener does not stop the others)
            reason = error.message if isinstance(error, UserError) else str(error)
            _log.error("cannot open a listener", **context, reason=reason)
            if broker not in self._is_there:
                self._added.pop((broker, name), None)  # retry when the broker starts
            return
        _log.info("listener opened", **context, port=server.sockets[0].getsockname()[1])
        self._added[broker, name] = _Added(wanted, listener, server)
        if broker not in self._is_there:
            self._shut(broker, name)

    def _shut(self, broker: int, name: str) -> None:
        added = self._added.pop((broker, name))
        if added.listener is not None and added.server is not None:
            self._close(broker, added.listener, added.server)
            _log.info("listener closed", broker=broker, listener=name)
