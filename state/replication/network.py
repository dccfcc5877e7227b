"""Which brokers of a cell are stopped, and which cannot reach the others: what a test does.

A broker that is *isolated* exchanges no fetches with other brokers; clients and the controller
reach it. One that is *stopped* is not there for anybody: it reads no metadata until it starts, then
all that there was, in its order. Both are facts of the cluster around the machines: they lie in the
table `waiting` as if they were the controller's.
"""

from collections.abc import Iterable

import msgspec

from brokerstream.state.core.records import Record
from brokerstream.state.core.tables import Table

_KEY = "controller/network"


class Network(msgspec.Struct):
    """The brokers that are cut off or stopped; `missed` is what those have not read, by broker."""

    isolated: list[int]
    missed: dict[int, list[Record]]


def is_cut(table: Table, one: int, other: int) -> bool:
    """Whether what one broker sends does not reach the other."""
    network = table.get(_KEY, Network)
    if network is None:
        return False
    return any(each in network.isolated or each in network.missed for each in (one, other))


def is_isolated(table: Table, broker: int) -> bool:
    """Whether a broker is cut off from the others."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.isolated


def is_stopped(table: Table, broker: int) -> bool:
    """Whether a broker is not there."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.missed


def stopped(table: Table) -> list[int]:
    """The brokers that are not there."""
    network = table.get(_KEY, Network)
    return sorted(network.missed) if network is not None else []


def isolate(table: Table, broker: int) -> None:
    """Cuts a broker off."""
    if not is_isolated(table, broker):
        _network(table).isolated.append(broker)


def rejoin(table: Table, broker: int) -> None:
    """Ends what `isolate` began."""
    if is_isolated(table, broker):
        _network(table).isolated.remove(broker)
        _tidy(table)


def stop(table: Table, broker: int) -> None:
    """The broker is not there from now on."""
    _network(table).missed.setdefault(broker, [])


def missed_by(table: Table, record: Record, brokers: Iterable[int]) -> list[int]:
    """Keeps a metadata record for those of the brokers that are stopped; gives back the others."""
    gone = stopped(table)
    held_here = list(brokers)
    for broker in held_here:
        if broker in gone:
            _network(table).missed[broker].append(record)
    return [broker for broker in held_here if broker not in gone]


def start(table: Table, broker: int) -> list[Record]:
    """The broker is back; what it has missed."""
    missed = _network(table).missed.pop(broker)
    _tidy(table)
    return missed


def _network(table: Table) -> Network:
    if _KEY not in table:
        table.put(_KEY, Network([], {}))
    return table.change(_KEY, Network)


def _tidy(table: Table) -> None:
    network = table.change(_KEY, Network)
    if not network.isolated and not network.missed:
        table.drop(_KEY)
