"""The topic `placement`: which clusters a job holds, and how its topics are cut.

`run` writes one compacted row for each cluster when it starts. Every writer of requests (`send`,
the gateway, the clock) reads it first, so none of them takes an option for it.
"""

from collections.abc import Iterable

import msgspec
from confluent_kafka import Producer

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import ID_HEADER, read_all
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    PLACEMENT,
    REQUESTS,
    full_name,
    writer_configuration,
)
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.wording import counted

_NUMBER = "."
"""Between a cluster's name and the number of its cell, where it has several."""


class Placement(msgspec.Struct, rename="camel", frozen=True):
    """A cluster of a job: its brokers, its cells, and the partitions of the job's topics.

    `event_time`, `event_time_max_skew_ms` and `broker_settings` (those that were given, by Kafka's
    names) are what the job was started with: who sends it a recording has to know whether it holds
    there, and who reads its topics when a request came. Where
    `interventions` are taken, brokers may be stopped, and gateways ask which are.
    """

    cluster: str
    brokers: list[int]
    cells: list[str]
    requests_partitions: int
    responses_partitions: int
    event_time: str = "append"
    event_time_max_skew_ms: int = 5000
    broker_settings: dict[str, str] = {}
    interventions: bool = False

    def time_of(self, event_ms: int, append_ms: int) -> int:
        """When a cell takes an event to have come, by its own time and that of its row."""
        if self.event_time == "recorded" or append_ms < 0:
            return event_ms
        skew = self.event_time_max_skew_ms
        return min(max(event_ms, append_ms - skew), append_ms + skew)

    def cell_of(self, broker: int) -> str:
        """The cell that holds a broker: its name is the key of the broker's events."""
        return self.cells[self.brokers.index(broker) % len(self.cells)]

    def brokers_of(self, cell: str) -> list[int]:
        """The brokers that a cell holds."""
        return [broker for broker in self.brokers if self.cell_of(broker) == cell]

    def partition_of(self, cell: str) -> int:
        """The partition of `requests` in which a cell's events lie."""
        return partition_of(cell.encode(), self.requests_partitions)


def cells_of(cluster: str, cells: int, brokers: list[int]) -> list[str]:
    """The names of a cluster's cells; a single cell has the cluster's name.

    Raises:
        UserError: more cells are asked for than the cluster has brokers.
    """
    if cells > len(brokers):
        count = counted(len(brokers), "broker")
        raise UserError(
            f"The cluster {cluster} has {counted(cells, 'cell')} but only {count}.",
            "Each cell needs a broker: raise --brokers, or lower --cells.",
        )
    if cells == 1:
        return [cluster]
    return [f"{cluster}{_NUMBER}{number}" for number in range(1, cells + 1)]


def cluster_of(cell: str) -> str:
    """The cluster that a cell is of; the names of clusters have no dot."""
    return cell.partition(_NUMBER)[0]


def write(client: ClientProperties, prefix: str, placements: Iterable[Placement]) -> None:
    """Write the clusters of a job; returns when Kafka has them."""
    producer = Producer(writer_configuration(client))
    for placement in placements:
        producer.produce(
            full_name(prefix, PLACEMENT),
            key=placement.cluster,
            value=msgspec.json.encode(placement),
            headers=[(ID_HEADER, f"placement/{placement.cluster}".encode())],
        )
    if producer.flush(KAFKA_TIMEOUT_S):
        raise UserError(f"Kafka at {client.bootstrap} did not accept the placement in time.")


def read(client: ClientProperties, prefix: str) -> dict[str, Placement]:
    """The clusters of a job by name, as last written.

    Raises:
        UserError: no job has run with this prefix.
    """
    rows = read_all(client, full_name(prefix, PLACEMENT))
    found = {
        row.key.decode(): msgspec.json.decode(row.value, type=Placement)
        for row in rows
        if row.key is not None and row.value is not None
    }
    if not found:
        raise UserError(
            f"The topic {full_name(prefix, PLACEMENT)} has no job's placement.",
            f"Start `brokertwin run` first: it creates {full_name(prefix, REQUESTS)}.",
        )
    return found
