"""The topic `placement`: clusters of a job, and partition counts of its topics.

`run` writes one compacted row for each cluster at its start. Every writer of requests (`send`, the
gateway, the clock) reads it first, so none of them needs options for it.
"""

from collections.abc import Iterable

import msgspec
from confluent_kafka import Producer

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, made
from brokertwin.kafka_io.topic_reader import ID_HEADER, read_all
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    PLACEMENT,
    REQUESTS,
    full_name,
    writer_configuration,
)
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.settings import CELL_NUMBER
from brokertwin.wording import counted


class Placement(msgspec.Struct, rename="camel", frozen=True):
    """A cluster of a job: brokers, cells, and partition counts of the job's topics.

    `event_time`, `event_time_max_skew_ms` and `broker_settings` (non-default ones, by Kafka's
    names) are those of the job's start; senders of recordings and readers of its topics need them.
    With `interventions`, brokers can be stopped, and gateways query which are.
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
        """Return the event time that a cell uses, from its own time and its row's."""
        if self.event_time == "recorded" or append_ms < 0:
            return event_ms
        skew = self.event_time_max_skew_ms
        return min(max(event_ms, append_ms - skew), append_ms + skew)

    def cell_of(self, broker: int) -> str:
        """Return the cell of a broker: its name is the key of the broker's events."""
        return self.cells[self.brokers.index(broker) % len(self.cells)]

    def brokers_of(self, cell: str) -> list[int]:
        return [broker for broker in self.brokers if self.cell_of(broker) == cell]

    def partition_of(self, cell: str) -> int:
        """Return the partition of `requests` with a cell's events."""
        return partition_of(cell.encode(), self.requests_partitions)


def cells_of(cluster: str, cells: int, brokers: list[int]) -> list[str]:
    """Return the names of a cluster's cells; a single cell has the cluster's name.

    Raises:
        UserError: there are more cells than brokers.
    """
    if cells > len(brokers):
        count = counted(len(brokers), "broker")
        raise UserError(
            f"The cluster {cluster} has {counted(cells, 'cell')} but only {count}.",
            "Each cell needs a broker: raise --brokers, or lower --cells.",
        )
    if cells == 1:
        return [cluster]
    return [f"{cluster}{CELL_NUMBER}{number}" for number in range(1, cells + 1)]


def write(client: ClientProperties, prefix: str, placements: Iterable[Placement]) -> None:
    """Write the clusters of a job; return after Kafka has acknowledged them."""
    producer = made(Producer, writer_configuration(client))
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
    """Read the clusters of a job by name, as last written.

    Raises:
        UserError: no job has run with this prefix.
    """
    rows = read_all(client, full_name(prefix, PLACEMENT))
    placements = {
        row.key.decode(): msgspec.json.decode(row.value, type=Placement)
        for row in rows
        if row.key is not None and row.value is not None
    }
    if not placements:
        raise UserError(
            f"The topic {full_name(prefix, PLACEMENT)} has no job's placement.",
            f"Start `brokertwin run` first: it creates {full_name(prefix, REQUESTS)}.",
        )
    return placements
