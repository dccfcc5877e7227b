"""Another number of cells for each cluster of a job: what its snapshot becomes.

A cell's name is the key of its events, so every event has to be decided before its cell goes: the
snapshot has to be of all that is in `requests`.
"""

from collections import Counter
from collections.abc import Mapping

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.sinks.stored_states import Cells
from brokertwin.state.cell.resharding import resharded
from brokertwin.state.core.events import Event, Kind, decode_event
from brokertwin.streaming.checkpoint.facts import Facts
from brokertwin.wording import counted

DRAIN = "Stop the gateways, let `brokertwin run --available-now` end, take a snapshot of that."


def cut_anew(former: Facts, cells: Cells, count: int) -> Cells:
    """The state of all clusters, each in so many cells.

    Args:
        former: of the job until now.
        cells: its cells' columns.
        count: cells of each cluster.

    Raises:
        UserError: a cluster has fewer brokers, or cannot be cut now.
    """
    found: Cells = {}
    for cluster, brokers in former.brokers.items():
        mine = {name: cells[name] for name in cells if placement.cluster_of(name) == cluster}
        placed = Placement(cluster, brokers, placement.cells_of(cluster, count, brokers), 1, 1)
        wanted = {name: placed.brokers_of(name) for name in placed.cells}
        if not mine:
            continue  # no event has reached it
        cut = resharded(mine, wanted)
        if isinstance(cut, str):
            raise UserError(f"Cannot reshard the cluster {cluster}: {cut}.", DRAIN)
        found |= cut
    return found


def names(former: Facts, count: int) -> list[str]:
    """The names of all cells, where each cluster has so many. Raises UserError."""
    return [
        name
        for cluster, brokers in former.brokers.items()
        for name in placement.cells_of(cluster, count, brokers)
    ]


def loads(former: Facts, cells: list[str]) -> dict[str, int]:
    """What is to be expected of the load of new cells: a cluster's, shared out evenly to its own.

    Args:
        former: of the job until now.
        cells: the names of the new cells.
    """
    of_cluster: Counter[str] = Counter()
    for name, load in former.loads.items():
        of_cluster[placement.cluster_of(name)] += load
    share = Counter(map(placement.cluster_of, cells))
    clusters = {name: placement.cluster_of(name) for name in cells}
    return {
        name: of_cluster[cluster] // share[cluster]
        for name, cluster in clusters.items()
        if cluster in of_cluster
    }


def quiet_end(
    client: ClientProperties, topic: str, read: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Where `requests` ends, if nothing but ticks has come since a snapshot.

    Args:
        client: how to reach Kafka.
        topic: the full name of `requests`.
        read: partition to the offset of the first event that the snapshot does not have.

    Raises:
        UserError: there are others; they name cells that will not be there any more.
    """
    ends = dict(read)
    others = 0
    for row in read_all(client, topic, {int(number): at for number, at in read.items()}):
        ends[str(row.partition)] = row.offset + 1
        event = decode_event(row.value or b"")
        others += not (isinstance(event, Event) and event.kind is Kind.TICK)
    if others:
        raise UserError(f"{topic} has {counted(others, 'event')} after the snapshot.", DRAIN)
    return {topic: ends}
