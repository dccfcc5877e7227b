"""Items that a broker's stop or start affects: partitions, groups, transactional ids.

Partitions get new leaders (`state/replication/elections.py`); a new leader of a partition of an
internal topic loads it (`loading.py`). With a single replica, groups and transactional ids wait for
their broker. The broker's memory is lost.
"""

from brokertwin.state.cluster.coordinators import COORDINATED
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core import pending
from brokertwin.state.core.tables import IN_MEMORY, CellTables
from brokertwin.state.replication import checkpoints
from brokertwin.state.replication.copying import Place


def pairs(machine: Machine, broker: int) -> list[tuple[int, int, Place]]:
    """Return leader, follower and partition of all pairs that include the broker."""
    return [
        (partition.leader, each, (topic.topic_id, number))
        for topic in machine.all_topics()
        for number, partition in enumerate(topic.partitions)
        for each in partition.replicas
        if each != partition.leader and partition.leader >= 0 and broker in (each, partition.leader)
    ]


def coordinated(machine: Machine, broker: int) -> list[Place]:
    """Return the partitions of internal topics that the broker leads."""
    topics = [machine.topic_by_name(name) for name in COORDINATED]
    return [
        (topic.topic_id, number)
        for topic in topics
        if topic is not None
        for number, partition in enumerate(topic.partitions)
        if partition.leader == broker
    ]


def forget(tables: CellTables, broker: int) -> None:
    """Drop a broker's memory: sessions, timers, its knowledge of followers."""
    for name in IN_MEMORY:
        for key in tables[name].keys(f"{broker}/"):
            if not checkpoints.is_on_disk(key):
                tables[name].drop(key)
    tables.fetch_sessions.derived.clear()
    tables.client_instances.derived.clear()
    pending.stop_timers(tables.pending, broker)
