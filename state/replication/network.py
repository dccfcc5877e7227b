"""Stopped and unreachable brokers of a cell, as set by tests and interventions.

    isolated   exchanges no fetches with other brokers; clients and the controller reach it
    severed    does not reach the controller either: reads no metadata, its requests to the
               controller wait, its session ends
    stopped    reads no metadata until it starts, then everything it missed, in order

These are facts about the cluster, not a machine's state. They are in the table `cluster`, under the
controller's keys.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.state.core.pending import LateMessage
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import Table

_KEY = "controller/network"


class NetworkState(msgspec.Struct):
    """Unreachable and stopped brokers; the encoded names are part of the state format.

    Attributes:
        isolated: isolated brokers.
        missed: metadata records not read by stopped brokers.
        unread: metadata records not read by severed brokers.
        unsent: messages of severed brokers to the controller.
        starting: stopped brokers that start once the session of their former process is over.
        killed: stopped brokers that did not shut down cleanly.
        registering: the number of starts of brokers that have not read their registration yet.
    """

    isolated: list[int]
    missed: dict[int, list[Record]]
    unread: dict[int, list[Record]] = {}
    unsent: dict[int, list[LateMessage]] = msgspec.field(default_factory=dict, name="unsaid")
    starting: list[int] = []
    killed: list[int] = []
    registering: dict[int, int] = {}


def is_cut(table: Table, one: int, other: int) -> bool:
    """True if messages between two brokers are lost."""
    network = table.get(_KEY, NetworkState)
    if network is None:
        return False
    gone = (*network.isolated, *network.unread, *network.missed)
    return one in gone or other in gone


def is_isolated(table: Table, broker: int) -> bool:
    network = table.get(_KEY, NetworkState)
    return network is not None and broker in (*network.isolated, *network.unread)


def is_severed(table: Table, broker: int) -> bool:
    """True if a broker cannot reach the controller."""
    network = table.get(_KEY, NetworkState)
    return network is not None and broker in network.unread


def is_starting(table: Table, broker: int) -> bool:
    """True if a stopped broker starts as soon as it can register."""
    network = table.get(_KEY, NetworkState)
    return network is not None and broker in network.starting


def is_stopped(table: Table, broker: int) -> bool:
    network = table.get(_KEY, NetworkState)
    return network is not None and broker in network.missed


def serves(table: Table, broker: int) -> bool:
    network = table.get(_KEY, NetworkState)
    return network is None or not (broker in network.missed or broker in network.registering)


def stopped(table: Table) -> list[int]:
    network = table.get(_KEY, NetworkState)
    return sorted(network.missed) if network is not None else []


def isolate(table: Table, broker: int) -> None:
    if not is_isolated(table, broker):
        _network(table).isolated.append(broker)


def sever(table: Table, broker: int) -> None:
    _network(table).unread.setdefault(broker, [])


def rejoin(table: Table, broker: int) -> tuple[list[Record], list[LateMessage]]:
    """End `isolate` or `sever`; returns unread metadata and unsent messages."""
    if not is_isolated(table, broker):
        return [], []
    network = _network(table)
    network.isolated = [each for each in network.isolated if each != broker]
    late = network.unread.pop(broker, []), network.unsent.pop(broker, [])
    _tidy(table)
    return late


def send_later(table: Table, message: LateMessage) -> None:
    """Keep a severed broker's message to the controller until it rejoins."""
    _network(table).unsent.setdefault(message.sender, []).append(message)


def is_killed(table: Table, broker: int) -> bool:
    """True if a stopped broker did not shut down cleanly."""
    network = table.get(_KEY, NetworkState)
    return network is not None and broker in network.killed


def stop(table: Table, broker: int, is_killed: bool) -> None:
    network = _network(table)
    if is_killed:
        network.killed.append(broker)
    unread = network.unread.get(broker, [])
    network.missed.setdefault(broker, list(unread))
    unread.clear()
    network.unsent.pop(broker, None)


def start_later(table: Table, broker: int, is_starting_later: bool) -> None:
    """Let a stopped broker start as soon as it can register, or cancel that."""
    if is_starting(table, broker) != is_starting_later:
        starting = _network(table).starting
        (starting.append if is_starting_later else starting.remove)(broker)


def missed_by(table: Table, record: Record, brokers: Iterable[int]) -> list[int]:
    """Keep a metadata record for brokers that cannot read it; returns the others."""
    there = []
    for broker in brokers:
        if is_stopped(table, broker):
            _network(table).missed[broker].append(record)
        elif is_severed(table, broker):
            _network(table).unread[broker].append(record)
        else:
            there.append(broker)
    return there


def start(table: Table, broker: int) -> list[Record]:
    """Start a broker, which then registers; returns the metadata that it missed."""
    start_later(table, broker, False)
    network = _network(table)
    network.registering[broker] = registering_by(table, broker) + 1
    missed = network.missed.pop(broker)
    network.killed = [each for each in network.killed if each != broker]
    _tidy(table)
    return missed


def registering_by(table: Table, broker: int) -> int:
    """Number of the start whose registration a broker has not read yet, or 0."""
    network = table.get(_KEY, NetworkState)
    return network.registering.get(broker, 0) if network is not None else 0


def registered(table: Table, broker: int, start: int) -> bool:
    """A broker reads a registration; true if it is that of its last start.

    After several starts only the last one counts. A registration by a request (0) is that of
    another process.
    """
    if not start or registering_by(table, broker) != start:
        return False
    del _network(table).registering[broker]
    _tidy(table)
    return True


def _network(table: Table) -> NetworkState:
    if _KEY not in table:
        table.put(_KEY, NetworkState([], {}))
    return table.change(_KEY, NetworkState)


def _tidy(table: Table) -> None:
    network = table.change(_KEY, NetworkState)
    if network == NetworkState([], {}):
        table.drop(_KEY)
