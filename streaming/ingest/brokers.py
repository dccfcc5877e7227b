"""Which broker a file is of.

A request log does not name its broker. In this order it is taken from

1. `--broker`;
2. the content: answers to Metadata name every broker's address, and each connection of the log says
   on which address it came in. Behind port mapping they differ, then this finds nothing;
3. the file's name: `broker-1.kafka-request.log`, `kafka-2/kafka-request.log`, `controller-100...`.

Documents of captures may name their broker themselves; where nothing does, it is broker 1.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.streaming.ingest.request_log import MARK
from brokertwin.streaming.lines import STDIN, Line, lines_of

LINES_LOOKED_AT_MAX = 20_000
IN_NAME = re.compile(
    r"(?:broker|controller|kafka|node|server)[-_.]?(\d+)(?![\d.]*\d)", re.IGNORECASE
)
METADATA = b'"requestApiKeyName":"METADATA"'


class _Address(msgspec.Struct, rename="camel"):
    node_id: int
    host: str
    port: int


class _Response(msgspec.Struct):
    brokers: list[_Address] = []


class _Logged(msgspec.Struct):
    connection: str
    response: _Response


class Found(NamedTuple):
    """A broker, and what told it: words for a message."""

    broker: int
    by: str


_decoder = msgspec.json.Decoder(_Logged)


def broker_of(path: Path) -> Found | None:
    """The broker whose request log a file is; None where neither content nor name tells.

    Raises:
        UserError: the file cannot be read.
    """
    if path == STDIN:
        return None
    broker = by_addresses(lines_of(path, path.name))
    if broker is not None:
        return Found(broker, "the addresses in its Metadata answers")
    broker = by_name(path)
    return Found(broker, "its name") if broker is not None else None


def by_name(path: Path) -> int | None:
    """The number that the file's name says, or the name of its directory."""
    for name in (path.name, path.absolute().parent.name):
        found = IN_NAME.search(name)
        if found:
            return int(found[1])
    return None


def by_addresses(lines: Iterable[Line]) -> int | None:
    """The only broker whose address is where the log's connections came in."""
    candidates: set[int] = set()
    for count, line in enumerate(lines):
        if count >= LINES_LOOKED_AT_MAX:
            break
        if METADATA not in line.text or MARK not in line.text:
            continue
        start, end = line.text.find(b"{"), line.text.rfind(b"}")
        try:
            logged = _decoder.decode(line.text[start : end + 1])
        except (msgspec.MsgspecError, RecursionError):
            continue
        candidates = _at(logged)
        if len(candidates) == 1:
            return candidates.pop()
    return None


def _at(logged: _Logged) -> set[int]:
    """The brokers that are at the local address of a connection; by port where hosts are names."""
    host, _, port = logged.connection.split("-")[0].rpartition(":")
    brokers = [broker for broker in logged.response.brokers if str(broker.port) == port]
    same_host = {broker.node_id for broker in brokers if broker.host == host}
    return same_host or {broker.node_id for broker in brokers}


def unknown(name: str) -> UserError:
    """The error for a request log of which nobody can tell the broker."""
    return UserError(
        f"Cannot tell which broker {name} belongs to: neither its Metadata responses nor its name"
        " have the id.",
        "Pass --broker ID with the logs of one broker, or rename the file: broker-1.log.",
    )
