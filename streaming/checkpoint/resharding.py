"""Changes the number of cells of each cluster in a snapshot.

A cell's name is the key of its events. All events in `requests` must therefore be processed before
the cells change.
"""

from collections import Counter
from collections.abc import Mapping

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.state.cell.resharding import resharded
from brokertwin.state.core.events import Event, Kind, decode_event
from brokertwin.state.core.settings import cluster_of
from brokertwin.streaming.checkpoint.facts import JobFacts
from brokertwin.tables.stored_states import Cells
from brokertwin.wording import counted

DRAIN = "Stop the gateways, let `brokertwin run --available-now` end, take a snapshot of that."


def redistributed(former: JobFacts, cells: Cells, count: int) -> Cells:
    """Redistribute the state of all clusters to `count` cells each.

    Args:
        former: the facts of the snapshot.
        cells: the columns of its cells.
        count: number of cells of each cluster.

    Raises:
        UserError: a cluster has too few brokers, or cannot be split now.
    """
    found: Cells = {}
    for cluster, brokers in former.brokers.items():
        mine = {name: cells[name] for name in cells if cluster_of(name) == cluster}
        placed = Placement(cluster, brokers, placement.cells_of(cluster, count, brokers), 1, 1)
        wanted = {name: placed.brokers_of(name) for name in placed.cells}
        if not mine:
            continue  # no event has reached it
        cut = resharded(mine, wanted)
        if isinstance(cut, str):
            raise UserError(f"Cannot reshard the cluster {cluster}: {cut}.", DRAIN)
        found |= cut
    return found


def names(former: JobFacts, count: int) -> list[str]:
    """Return the names of all cells. Raises UserError."""
    return [
        name
        for cluster, brokers in former.brokers.items()
        for name in placement.cells_of(cluster, count, brokers)
    ]


def loads(former: JobFacts, cells: list[str]) -> dict[str, int]:
    """Estimate the loads of new cells: a cluster's load, evenly distributed."""
    of_cluster: Counter[str] = Counter()
    for name, load in former.loads.items():
        of_cluster[cluster_of(name)] += load
    share = Counter(map(cluster_of, cells))
    clusters = {name: cluster_of(name) for name in cells}
    return {
        name: of_cluster[cluster] // share[cluster]
        for name, cluster in clusters.items()
        if cluster in of_cluster
    }


def quiet_end(
    client: ClientProperties, topic: str, read: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Return the end offsets of `requests` if only ticks follow a snapshot.

    Args:
        client: the connection to Kafka.
        topic: the full name of `requests`.
        read: the snapshot's position in each partition.

    Raises:
        UserError: other events follow, for cells that will no longer exist.
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
