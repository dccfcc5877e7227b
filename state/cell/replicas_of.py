"""What a broker that stops or starts has to do with: partitions, groups, transactional ids.

The groups and transactional ids of a broker are no records of internal topics yet. So when a
coordinator stops, it first gives them to the in-sync replica that will be elected (`leaders.py`);
where there is none they wait for it. Everything else goes by elections
(`state/replication/elections.py`), and what a broker holds in memory is gone.
"""

from brokerstream.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from brokerstream.state.cluster.image import Topic
from brokerstream.state.cluster.machines import Broker, Controller
from brokerstream.state.configs.topic_configs import value_of
from brokerstream.state.core import waiting
from brokerstream.state.core.events import Move
from brokerstream.state.core.records import PartitionAltered, PartitionChanged
from brokerstream.state.core.tables import Tables
from brokerstream.state.replication import checkpoints, elections, network
from brokerstream.state.replication.copying import Place

COORDINATED = (GROUP_TOPIC, TRANSACTION_TOPIC)
NOBODY = -1


def pairs(controller: Controller, broker: int) -> list[tuple[int, int, Place]]:
    """Leader, follower and partition wherever the broker is one of the two."""
    return [
        (partition.leader, each, (topic.topic_id, number))
        for topic in controller.all_topics()
        for number, partition in enumerate(topic.partitions)
        for each in partition.replicas
        if each != partition.leader and partition.leader >= 0 and broker in (each, partition.leader)
    ]


def moves(controller: Controller, broker: int) -> list[Move]:
    """Where what the broker coordinates goes when it stops."""
    table = controller.tables.waiting
    found = []
    for topic, number in _led_and_coordinated(controller, broker):
        partition = topic.partitions[number]
        for each in partition.replicas:
            is_there = controller.is_alive(each) and not network.is_cut(table, each, each)
            if each != broker and each in partition.isr and is_there:
                found.append(Move(topic.name, number, each))
                break
    return found


def coordinated(controller: Controller, broker: int) -> list[PartitionChanged]:
    """What the broker still coordinates, as changes by which nobody does."""
    return [
        PartitionChanged(topic.topic_id, number, broker, NOBODY, 0, [])
        for topic, number in _led_and_coordinated(controller, broker)
    ]


def as_led(broker: Broker, record: PartitionAltered) -> PartitionChanged:
    """An election of this broker, as a change by which it begins to coordinate."""
    return PartitionChanged(record.topic_id, record.partition, NOBODY, broker.id, 0, [])


def altered(controller: Controller, gone: int | None) -> list[PartitionAltered]:
    """The partitions that change with a broker that has gone, or has come."""
    found = []
    for topic in controller.all_topics():
        may_be_unclean = _may_be_unclean(controller, topic)
        for number, partition in enumerate(topic.partitions):
            record = elections.change(
                (topic.topic_id, number), partition, gone, controller.is_alive, may_be_unclean
            )
            if record is not None:
                found.append(record)
    return found


def forget(tables: Tables, broker: int) -> None:
    """What a broker holds in memory is gone: sessions, timers, what it knows of followers."""
    for table in (tables.sessions, tables.waiting):
        for key in table.keys(f"{broker}/"):
            if not checkpoints.is_on_disk(key):
                table.drop(key)
    waiting.stop_timers(tables.waiting, broker)


def _led_and_coordinated(controller: Controller, broker: int) -> list[tuple[Topic, int]]:
    topics = [controller.topic_by_name(name) for name in COORDINATED]
    return [
        (topic, number)
        for topic in topics
        if topic is not None
        for number, partition in enumerate(topic.partitions)
        if partition.leader == broker
    ]


def _may_be_unclean(controller: Controller, topic: Topic) -> bool:
    """What is coordinated is no record of the log, and would be lost with an unclean election."""
    name = "unclean.leader.election.enable"
    is_allowed = value_of(name, topic.configs, controller.settings) is True
    return is_allowed and topic.name not in COORDINATED
