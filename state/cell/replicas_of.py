"""What a broker that stops or starts has to do with: partitions, groups, transactional ids.

Partitions go by elections (`state/replication/elections.py`), and with those of internal topics
what is coordinated by them (`leaders.py`); where nobody is elected that waits for the broker. What
a broker holds in memory is gone.
"""

from brokerstream.state.cell.leaders import NOBODY
from brokerstream.state.cluster.coordinators import COORDINATED
from brokerstream.state.cluster.image import Partition
from brokerstream.state.cluster.machines import Controller
from brokerstream.state.core import waiting
from brokerstream.state.core.records import PartitionAltered, PartitionChanged
from brokerstream.state.core.tables import Tables
from brokerstream.state.replication import checkpoints
from brokerstream.state.replication.copying import Place


def pairs(controller: Controller, broker: int) -> list[tuple[int, int, Place]]:
    """Leader, follower and partition wherever the broker is one of the two."""
    return [
        (partition.leader, each, (topic.topic_id, number))
        for topic in controller.all_topics()
        for number, partition in enumerate(topic.partitions)
        for each in partition.replicas
        if each != partition.leader and partition.leader >= 0 and broker in (each, partition.leader)
    ]


def coordinated(controller: Controller, broker: int) -> list[PartitionChanged]:
    """What the broker coordinates, as changes by which nobody does."""
    topics = [controller.topic_by_name(name) for name in COORDINATED]
    return [
        PartitionChanged(topic.topic_id, number, broker, NOBODY, 0, [])
        for topic in topics
        if topic is not None
        for number, partition in enumerate(topic.partitions)
        if partition.leader == broker
    ]


def as_changed(former: Partition, record: PartitionAltered) -> PartitionChanged | None:
    """An election, as a change by which one coordinator ends and another begins."""
    if record.leader is None or record.leader == former.leader:
        return None
    place = (record.topic_id, record.partition)
    return PartitionChanged(*place, former.leader, record.leader, 0, [])


def forget(tables: Tables, broker: int) -> None:
    """What a broker holds in memory is gone: sessions, timers, what it knows of followers."""
    for table in (tables.sessions, tables.waiting):
        for key in table.keys(f"{broker}/"):
            if not checkpoints.is_on_disk(key):
                table.drop(key)
    waiting.stop_timers(tables.waiting, broker)
