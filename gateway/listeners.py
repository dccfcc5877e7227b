"""The listeners that brokers are given while they run (`listeners`), opened and closed.

A broker begins with the gateway's own listener, which has the name of what it speaks. Those that
`listeners` names beside the ones of the start are opened where it says, and speak what
`listener.security.protocol.map` says; one that is no longer named is closed, with its connections.
Clients are not told of them, as by Kafka. One that cannot be opened is warned of, and not tried
again before its settings change.

Source: `DynamicListenerConfig.reconfigure`, `SocketServer.addListeners` in Kafka.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties, prefix_of
from brokertwin.gateway.engine.engine import Engine
from brokertwin.gateway.security.altered_stores import AlteredStores
from brokertwin.gateway.security.security import Security
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.state.configs import listeners
from brokertwin.state.configs.dynamic_configs import is_secret

_log = structlog.get_logger("brokertwin.gateway")


class Listener:
    """By what connections come.

    Args:
        name: its name.
        security: how it is secured.
        start: what was given for it at the start, where it was added later.
        own: the settings that it was given then.

    Attributes:
        is_closed: whether it takes no connections any more.
        is_added: whether it was added while its broker runs; clients are not told of it.
        told: what the machines are told of it; nothing where another one has its name.
        stores: its key and trust stores, if it has TLS.
    """

    def __init__(
        self,
        name: str,
        security: Security,
        start: BrokerProperties | None = None,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = self.told = name
        self.security = security
        self.stores: AlteredStores | None = None
        self.is_closed = False
        self.is_added = start is not None
        if security.tls is not None:
            self.stores = AlteredStores(security.tls, start, own)


class _Wanted(NamedTuple):
    """What a listener is by the settings: where, and how secured, by its own settings."""

    place: listeners.BrokerListener
    protocol: str
    own: Mapping[str, str]


class _Added(NamedTuple):
    """A listener that is there; without a server it could not be opened."""

    wanted: _Wanted
    listener: Listener | None = None
    server: asyncio.Server | None = None


Open = Callable[[int, Listener, str | None, int], Awaitable[asyncio.Server]]
"""Listens for a broker, by a listener, at a host and a port. Raises OSError."""

Close = Callable[[int, Listener, asyncio.Server], None]
"""Ends that, and the connections that have come by it."""


class AddedListeners:
    """Those of all brokers, beside the gateway's own.

    Args:
        engine: has the brokers' settings.
        security: how the gateway's own listener is secured, with what else was given.
        passwords: those of stores that were altered.
        ports: how a port is opened, and closed.
    """

    def __init__(
        self,
        engine: Engine,
        security: Security,
        passwords: StorePasswords,
        ports: tuple[Open, Close],
    ) -> None:
        self._engine = engine
        self._security = security
        self._passwords = passwords
        self._open, self._close = ports
        self._added: dict[tuple[int, str], _Added] = {}
        self._is_there: dict[int, Listener] = {}
        self._turn = asyncio.Lock()
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, broker: int, own: Listener) -> None:
        """A broker is there, with the gateway's own listener."""
        self._is_there[broker] = own
        self.heed()

    def end(self, broker: int) -> None:
        """A broker has stopped: it has no listeners."""
        self._is_there.pop(broker, None)
        for each, name in list(self._added):
            if each == broker:
                self._shut(broker, name)

    def heed(self) -> None:
        """Settings may have changed: do as they say, soon."""
        if self._is_there and not self._is_due:
            self._is_due = True
            task = asyncio.get_running_loop().create_task(self.settle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all."""
        for broker in list(self._is_there):
            self.end(broker)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def of(self, broker: int) -> list[Listener]:
        """The listeners of a broker that are open, beside the gateway's own."""
        found = (added.listener for (each, _), added in self._added.items() if each == broker)
        return [each for each in found if each is not None]

    async def settle(self) -> None:
        """Have the listeners that the settings name now."""
        self._is_due = False
        async with self._turn:
            for broker, own in list(self._is_there.items()):
                if self._is_there.get(broker) is not own:
                    continue  # it has stopped while another one's were opened
                wanted = self._wanted(broker)
                own.told = "" if own.name in wanted else own.name
                for each, name in list(self._added):
                    if each == broker and name not in wanted:
                        self._shut(broker, name)
                for name, one in wanted.items():
                    known = self._added.get((broker, name))
                    if known is None or (known.server is None and known.wanted != one):
                        await self._add(broker, one)

    def _wanted(self, broker: int) -> dict[str, _Wanted]:
        settings = self._engine.settings_of(broker)
        changed, passwords = self._engine.changed_settings(broker), self._passwords.of(broker)
        known = {name: text for name, text in changed.items() if not is_secret(name)}
        known |= {name: text for name, text in passwords.items() if name in changed}
        wanted = {}
        for place in listeners.opened(settings):
            prefix, protocol = prefix_of(place.name), listeners.protocols_of(settings)[place.name]
            own = {name: text for name, text in known.items() if name.startswith(prefix)}
            wanted[place.name] = _Wanted(place, protocol, own)
        return wanted

    async def _add(self, broker: int, wanted: _Wanted) -> None:
        name, host, port = wanted.place
        said = {"broker": broker, "listener": name}
        self._added[broker, name] = _Added(wanted)
        try:
            protocol = SecurityProtocol(wanted.protocol)
            security = self._security.of_listener(name, protocol, wanted.own)
            start = self._security.properties_of(name, protocol)
            listener = Listener(name, security, start, wanted.own)
            server = await self._open(broker, listener, host or None, port)
        except Exception as error:  # noqa: BLE001 (one listener does not stop the others)
            reason = error.message if isinstance(error, UserError) else str(error)
            _log.error("cannot open a listener", **said, reason=reason)
            if broker not in self._is_there:
                self._added.pop((broker, name), None)  # it is tried again when the broker starts
            return
        _log.info("listener opened", **said, port=server.sockets[0].getsockname()[1])
        self._added[broker, name] = _Added(wanted, listener, server)
        if broker not in self._is_there:
            self._shut(broker, name)

    def _shut(self, broker: int, name: str) -> None:
        added = self._added.pop((broker, name))
        if added.listener is not None and added.server is not None:
            self._close(broker, added.listener, added.server)
            _log.info("listener closed", broker=broker, listener=name)
