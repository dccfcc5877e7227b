"""Which brokers of a cell cannot reach the others: what a test does to its cluster.

A broker that is *isolated* exchanges no fetches with other brokers; clients and the controller
reach it. It is a fact of the network, not of a machine: it lies in the table `waiting` as if it
were the controller's.
"""

import msgspec

from brokerstream.state.core.tables import Table

_KEY = "controller/network"


class Network(msgspec.Struct):
    """The brokers that are cut off from the others."""

    isolated: list[int]


def is_cut(table: Table, one: int, other: int) -> bool:
    """Whether what one broker sends does not reach the other."""
    network = table.get(_KEY, Network)
    return network is not None and (one in network.isolated or other in network.isolated)


def isolate(table: Table, broker: int) -> None:
    """Cuts a broker off."""
    if _KEY not in table:
        table.put(_KEY, Network([]))
    if not is_cut(table, broker, broker):
        table.change(_KEY, Network).isolated.append(broker)


def rejoin(table: Table, broker: int) -> None:
    """Ends what `isolate` began."""
    if not is_cut(table, broker, broker):
        return
    network = table.change(_KEY, Network)
    network.isolated.remove(broker)
    if not network.isolated:
        table.drop(_KEY)
