"""Finds the broker of a log line.

A request log does not name its broker. It is taken, in this order, from

1. `--broker`;
2. addresses: Metadata and DescribeCluster responses have the brokers' addresses, and each
   connection in the log has a local address;
3. names around the line, of a container, pod, host or file: `kafka-2  |`, `[pod/kafka-0/kafka]`;
4. the file's name: `broker-1.kafka-request.log`, `kafka-2/kafka-request.log`, `controller-100...`.

If nothing shows that a file has lines of several brokers, the broker of one line applies to all.
Documents of captures may name their broker; the default is broker 1.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.patterns import later
from brokertwin.protocol.kafka_apis import DESCRIBE_CLUSTER, METADATA
from brokertwin.recordings.formats.documents import Document, is_controllers, listener_of

DOCUMENTS_LOOKED_AT_MAX = 20_000
IN_NAME = later(r"(?:broker|controller|kafka|node|server)[-_.]?(\d+)(?![\d.]*\d)", re.IGNORECASE)
AT_END = later(r"^[A-Za-z_./-]*[-_.](\d{1,5})$")
LOOPBACK = ("127.", "0:0:0:0:0:0:0:1", "localhost")


class _Address(msgspec.Struct, rename="camel"):
    host: str
    port: int
    node_id: int = -1
    broker_id: int = -1


class _Response(msgspec.Struct):
    brokers: list[_Address] = []


class _Local(NamedTuple):
    """The broker's side of a connection."""

    host: str
    port: str


_decoder = msgspec.json.Decoder(_Response)


class Brokers:
    """Finds the brokers of a file's lines.

    Args:
        path: the file.
        name: its name in messages.
        again: reads the file from its beginning again.
    """

    def __init__(self, path: Path, name: str, again: Callable[[], Iterator[Document]]) -> None:
        self._path = path
        self._name = name
        self._again = again
        self._ahead: Iterator[Document] | None = None
        self._addresses: dict[_Local, set[int]] = {}
        self._known: dict[tuple[str, str, _Local], int | None] = {}
        self._labels: dict[str, set[int]] = {}
        self._listeners: dict[str, set[_Local]] = {}
        self._controllers: set[str] = set()
        self._seen: set[str] = set()

    @property
    def addresses(self) -> dict[str, int]:
        found = self._addresses.items()
        return {f"{at.host}:{at.port}": min(brokers) for at, brokers in found if len(brokers) == 1}

    def learn(self, address: str, broker: int) -> None:
        """Take the address of a broker, `host:port`."""
        host, _, port = address.rpartition(":")
        self._addresses.setdefault(_Local(host, port), set()).add(broker)

    def of(self, document: Document) -> int | None:
        """Return the broker of a line; None for a controller among several brokers.

        Raises:
            UserError: it is unknown.
        """
        label, local = document.label, _local(document.connection)
        key = document.source, label, local
        if key not in self._known:
            self._known[key] = self._find(document, label, local)
        return self._known[key]

    def _find(self, document: Document, label: str, local: _Local) -> int | None:
        self.note(document)
        broker = self._by_address(label, local)
        if self._ahead is None:
            self._ahead = islice(self._again(), DOCUMENTS_LOOKED_AT_MAX)
        while broker is None and (ahead := next(self._ahead, None)) is not None:
            if self.note(ahead):
                broker = self._by_address(label, local)
        if broker is not None:
            return broker
        several = self.is_of_several()
        if not several:
            others = {self._by_address("", each) for each in self._locals()} - {None}
            broker = others.pop() if len(others) == 1 else None
        broker = _first(
            broker,
            number_in(label, IN_NAME),
            None if document.source == self._name else by_name(Path(document.source)),
            None if several else by_name(self._path),
            number_in(label, AT_END),
        )
        if broker is None and several and listener_of(document) in self._controllers:
            return None
        if broker is None:
            raise _unknown(self._name, several)
        return broker

    def _by_address(self, label: str, local: _Local) -> int | None:
        """The broker with the local address of a connection, or its name.

        Behind a port mapping only the port is equal; it is used unless several hosts have it.
        """
        is_loopback = local.host.startswith(LOOPBACK)
        hosts_on_port = {each.host for each in self._locals() if each.port == local.port}
        names = [name for name in label.split("/") if name]
        candidates = (
            self._addresses.get(local, set()),
            self._labels.get(label, set()),
            self._at(lambda each: each.host == local.host and not is_loopback),
            self._at(lambda each: any(f"{each.host}.".startswith(f"{name}.") for name in names)),
            self._at(lambda each: each.port == local.port and len(hosts_on_port) == 1),
        )
        found = next((next(iter(each)) for each in candidates if len(each) == 1), None)
        if found is not None and label:
            self._labels.setdefault(label, set()).add(found)
        return found

    def _at(self, matches: Callable[[_Local], bool]) -> set[int]:
        brokers = [brokers for each, brokers in self._addresses.items() if matches(each)]
        return set().union(*brokers)

    def _locals(self) -> set[_Local]:
        return set().union(*self._listeners.values())

    def is_of_several(self) -> bool:
        numbers = {number for label in self._seen for number in [number_in(label, IN_NAME, AT_END)]}
        if len(numbers - {None}) > 1:
            return True
        return any(
            len({each.port for each in locals_}) > 1
            or any(len(hosts) > 1 for hosts in _by_family(locals_))
            for listener, locals_ in self._listeners.items()
            if listener
        )

    def note(self, document: Document) -> bool:
        """Learn from a line; returns whether it has addresses of brokers."""
        local, listener = _local(document.connection), listener_of(document)
        self._listeners.setdefault(listener, set()).add(local)
        self._seen.add(document.label)
        if is_controllers(document.header, bytes(document.request)):
            self._controllers.add(listener)
        if document.header.request_api_key not in (METADATA.key, DESCRIBE_CLUSTER.key):
            return False
        try:
            brokers = _decoder.decode(document.response).brokers
        except (msgspec.MsgspecError, RecursionError):
            return False
        for each in brokers:
            broker = each.node_id if each.node_id >= 0 else each.broker_id
            self._addresses.setdefault(_Local(each.host, str(each.port)), set()).add(broker)
        return bool(brokers)


def _by_family(locals_: Iterable[_Local]) -> tuple[set[str], set[str]]:
    """IPv4 and IPv6 hosts; a broker may have one of each."""
    hosts = {each.host for each in locals_ if not each.host.startswith(LOOPBACK)}
    six = {host for host in hosts if ":" in host}
    return hosts - six, six


def by_name(path: Path) -> int | None:
    """The number in the name of the file or its directory."""
    return _first(*(number_in(name, IN_NAME) for name in (path.name, path.absolute().parent.name)))


def number_in(name: str, *forms: re.Pattern[str]) -> int | None:
    match = next(filter(None, (form.search(name) for form in forms)), None)
    return int(match[1]) if match is not None else None


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


@lru_cache(maxsize=10_000)
def _local(connection: str) -> _Local:
    host, _, port = connection.split("-")[0].rpartition(":")
    return _Local(host, port)


def _unknown(name: str, is_of_several: bool) -> UserError:
    if is_of_several:
        return UserError(
            f"{name} has lines of several brokers, and some do not show which broker they are of.",
            "Neither addresses in Metadata responses nor names before the lines tell it. Give one"
            " file for each broker, like broker-1.log, or --broker N if all lines are of one.",
        )
    return UserError(
        f"Cannot tell which broker {name} belongs to: neither its Metadata responses nor its name"
        " have the id.",
        "Pass --broker ID with the logs of one broker, or rename the file: broker-1.log,"
        " controller-100.log.",
    )
