"""What a broker that stops or starts has to do with: partitions, groups, transactional ids.

Partitions go by elections (`state/replication/elections.py`), and who is elected for one of an
internal topic reads it (`loading.py`). With a single replica, groups and transactional ids wait for
their broker. What a broker holds in memory is gone.
"""

from brokertwin.state.cluster.coordinators import COORDINATED
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core import waiting
from brokertwin.state.core.tables import Tables
from brokertwin.state.replication import checkpoints
from brokertwin.state.replication.copying import Place


def pairs(machine: Machine, broker: int) -> list[tuple[int, int, Place]]:
    """Leader, follower and partition wherever the broker is one of the two."""
    return [
        (partition.leader, each, (topic.topic_id, number))
        for topic in machine.all_topics()
        for number, partition in enumerate(topic.partitions)
        for each in partition.replicas
        if each != partition.leader and partition.leader >= 0 and broker in (each, partition.leader)
    ]


def coordinated(machine: Machine, broker: int) -> list[Place]:
    """The partitions of internal topics that the broker leads."""
    topics = [machine.topic_by_name(name) for name in COORDINATED]
    return [
        (topic.topic_id, number)
        for topic in topics
        if topic is not None
        for number, partition in enumerate(topic.partitions)
        if partition.leader == broker
    ]


def forget(tables: Tables, broker: int) -> None:
    """What a broker holds in memory is gone: sessions, timers, what it knows of followers."""
    for table in (tables.sessions, tables.waiting):
        for key in table.keys(f"{broker}/"):
            if not checkpoints.is_on_disk(key):
                table.drop(key)
    tables.sessions.derived.clear()
    waiting.stop_timers(tables.waiting, broker)
