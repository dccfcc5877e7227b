"""Topologies of the tests: a copy, a count of words, a join of two tables."""

from collections.abc import Iterable, Mapping

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.topology import Topology

Stores = Mapping[str, KeyValueStore]


def as_it_is(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    return [message]


def copying(*topics: str, sink: str = "out") -> Topology:
    topology = Topology()
    topology.add_source("in", topics)
    topology.add_processor("copy", as_it_is, ["in"])
    topology.add_sink("out", sink, ["copy"])
    return topology
