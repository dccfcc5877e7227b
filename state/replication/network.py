"""Which brokers of a cell are stopped, and which cannot reach the others: what a test does.

A broker that is *isolated* exchanges no fetches with other brokers; clients and the controller
reach it. One that is *severed* does not reach the controller either: it reads no metadata, what it
asks the controller waits, and its session ends. One that is *stopped* is not there for anybody: it
reads no metadata until it starts, then all that there was, in its order. All are facts of the
cluster around the machines: they lie in the table `cluster` as if they were the controller's.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.state.core.pending import LateMessage
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import Table

_KEY = "controller/network"


class Network(msgspec.Struct):
    """The brokers that are cut off or stopped; `missed` is what those have not read, by broker.

    `unread` is the same of severed brokers, `unsaid` what they ask the controller. Those that are
    `starting` run, but may not register before the session of the process before them is over.
    Those that were `killed` have not ended in order. Those that are `registering` have started, so
    many times, and have not read yet that they are registered by the last of these starts.
    """

    isolated: list[int]
    missed: dict[int, list[Record]]
    unread: dict[int, list[Record]] = {}
    unsaid: dict[int, list[LateMessage]] = {}
    starting: list[int] = []
    killed: list[int] = []
    registering: dict[int, int] = {}


def is_cut(table: Table, one: int, other: int) -> bool:
    """Whether what one broker sends does not reach the other."""
    network = table.get(_KEY, Network)
    if network is None:
        return False
    gone = (*network.isolated, *network.unread, *network.missed)
    return one in gone or other in gone


def is_isolated(table: Table, broker: int) -> bool:
    """Whether a broker is cut off from the others."""
    network = table.get(_KEY, Network)
    return network is not None and broker in (*network.isolated, *network.unread)


def is_severed(table: Table, broker: int) -> bool:
    """Whether a broker is cut off from the controller, too."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.unread


def is_starting(table: Table, broker: int) -> bool:
    """Whether a broker that is stopped starts as soon as it may register."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.starting


def is_stopped(table: Table, broker: int) -> bool:
    """Whether a broker is not there."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.missed


def stopped(table: Table) -> list[int]:
    """The brokers that are not there."""
    network = table.get(_KEY, Network)
    return sorted(network.missed) if network is not None else []


def isolate(table: Table, broker: int) -> None:
    """Cuts a broker off from the other brokers."""
    if not is_isolated(table, broker):
        _network(table).isolated.append(broker)


def sever(table: Table, broker: int) -> None:
    """Cuts a broker off from the other brokers and from the controller."""
    _network(table).unread.setdefault(broker, [])


def rejoin(table: Table, broker: int) -> tuple[list[Record], list[LateMessage]]:
    """Ends what `isolate` or `sever` began; what the broker has not read, and not said."""
    if not is_isolated(table, broker):
        return [], []
    network = _network(table)
    network.isolated = [each for each in network.isolated if each != broker]
    told = network.unread.pop(broker, []), network.unsaid.pop(broker, [])
    _tidy(table)
    return told


def say_later(table: Table, message: LateMessage) -> None:
    """Keeps what a severed broker asks the controller until it rejoins."""
    _network(table).unsaid.setdefault(message.sender, []).append(message)


def is_killed(table: Table, broker: int) -> bool:
    """Whether a broker that is stopped has not ended in order."""
    network = table.get(_KEY, Network)
    return network is not None and broker in network.killed


def stop(table: Table, broker: int, is_killed: bool) -> None:
    """The broker is not there from now on."""
    network = _network(table)
    if is_killed:
        network.killed.append(broker)
    unread = network.unread.get(broker, [])
    network.missed.setdefault(broker, list(unread))
    unread.clear()
    network.unsaid.pop(broker, None)


def start_later(table: Table, broker: int, is_to_start: bool) -> None:
    """The broker that is stopped starts as soon as it may register, or does not any more."""
    if is_starting(table, broker) != is_to_start:
        starting = _network(table).starting
        (starting.append if is_to_start else starting.remove)(broker)


def missed_by(table: Table, record: Record, brokers: Iterable[int]) -> list[int]:
    """Keeps a metadata record for those of the brokers that do not read; gives back the others."""
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
    """The broker is back, and is to register; what it has missed."""
    start_later(table, broker, False)
    network = _network(table)
    network.registering[broker] = registering_by(table, broker) + 1
    missed = network.missed.pop(broker)
    network.killed = [each for each in network.killed if each != broker]
    _tidy(table)
    return missed


def registering_by(table: Table, broker: int) -> int:
    """The start, counted from 1, by which a broker is yet to read that it registers; 0: none."""
    network = table.get(_KEY, Network)
    return network.registering.get(broker, 0) if network is not None else 0


def registered(table: Table, broker: int, start: int) -> bool:
    """A broker reads that a start has registered it; whether it has waited for this one.

    One that was started, stopped and started again begins with its last start, whatever became of
    those before; who registers under its id by a request (0) is another process.
    """
    if not start or registering_by(table, broker) != start:
        return False
    del _network(table).registering[broker]
    _tidy(table)
    return True


def _network(table: Table) -> Network:
    if _KEY not in table:
        table.put(_KEY, Network([], {}))
    return table.change(_KEY, Network)


def _tidy(table: Table) -> None:
    network = table.change(_KEY, Network)
    if network == Network([], {}):
        table.drop(_KEY)
