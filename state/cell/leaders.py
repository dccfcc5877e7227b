"""A partition moves to another leader, in one step, when a test double is told so.

In Kafka a partition moves by a reassignment: the new replica copies the log until it is in sync,
then the controller names it the leader, in a new leader epoch (PartitionChangeRecord). There are no
followers yet, so here what the old leader holds goes over with that record, whole:

    any partition           the log with its index, and its producers
    of __consumer_offsets   also the groups that it coordinates, with their committed offsets
    of __transaction_state  also the transactional ids

What clients see is Kafka's: the leader epoch goes up, the old leader answers
NOT_LEADER_OR_FOLLOWER and names the new one (KIP-951), or NOT_COORDINATOR; requests that wait at
the old leader are answered at once. A new leader that was no replica takes the old one's place
among the replicas; where it was one, the old leader stays, as a follower whose log is empty.

Only an event of the kind `move-leader` asks for a move, and only where `CellSettings.may_intervene`
holds.
"""

from collections.abc import Callable

from brokerstream.state.cluster import image
from brokerstream.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokerstream.state.cluster.machines import Controller
from brokerstream.state.core.events import Move, Reason, Refusal
from brokerstream.state.core.records import PartitionChanged
from brokerstream.state.core.schema import Uuid
from brokerstream.state.core.tables import Table, Tables
from brokerstream.state.groups import committed_offsets
from brokerstream.state.logs import log
from brokerstream.state.transactions import transactional_ids


def decide(controller: Controller, move: Move) -> PartitionChanged | Refusal:
    """The record that names the new leader, or why there is none."""
    topic = controller.topic_by_name(move.topic)
    if topic is None or not 0 <= move.partition < len(topic.partitions):
        return Refusal(Reason.NOT_POSSIBLE, f"there is no partition {move.topic}-{move.partition}")
    if move.leader not in controller.cell.brokers:
        return Refusal(
            Reason.UNKNOWN_BROKER,
            f"broker {move.leader} is not one of {controller.cell.brokers}",
        )
    partition = topic.partitions[move.partition]
    if partition.leader == move.leader:
        return Refusal(
            Reason.NOT_POSSIBLE,
            f"broker {move.leader} leads {move.topic}-{move.partition} already",
        )
    replicas = list(partition.replicas)
    if move.leader not in replicas:
        replicas = [move.leader if each == partition.leader else each for each in replicas]
    return PartitionChanged(
        topic.topic_id,
        move.partition,
        partition.leader,
        move.leader,
        partition.leader_epoch + 1,
        replicas,
    )


def apply_changed(tables: Tables, machine: int, record: PartitionChanged) -> None:
    """The machine knows the new leader; the new leader takes over what the old one has."""
    topic = image.topic_by_id(tables.metadata, machine, record.topic_id)
    assert topic is not None, record.topic_id
    image.apply_partition_changed(tables.metadata, machine, record)
    if machine != record.leader:
        return
    place = (record.topic_id, record.partition)
    log.remove(tables.logs, record.leader, *place)
    for table in (tables.logs, tables.producers):
        _take(table, record, lambda key: _place_of(key) == place)
    log.begin_epoch(tables.logs.change(log.log_key(machine, *place), log.Log), record.leader_epoch)
    if record.former_leader in record.replicas:
        log.create(tables.logs, record.former_leader, record.topic_id, topic.name, record.partition)
    count = len(topic.partitions)
    if topic.name == GROUP_TOPIC:
        _take_keyed(tables.groups, record, committed_offsets.group_of, count)
    elif topic.name == TRANSACTION_TOPIC:
        _take_keyed(tables.transactions, record, transactional_ids.transactional_id_of, count)


def _place_of(key: str) -> tuple[Uuid, int]:
    """The topic id and partition in the key of a log, of a part of its index, of a producer."""
    _, _, topic_id, partition, *_ = key.split("/")
    return topic_id, int(partition)


def _take_keyed(
    table: Table, record: PartitionChanged, name_of: Callable[[str], str], partition_count: int
) -> None:
    """What belongs to the partition of an internal topic, by the group or id in its key."""
    _take(
        table,
        record,
        lambda key: partition_for(name_of(key), partition_count) == record.partition,
    )


def _take(table: Table, record: PartitionChanged, belongs: Callable[[str], bool]) -> None:
    """The new leader gets the items of the old one whose keys belong to the partition."""
    former = f"{record.former_leader}/"
    for key in filter(belongs, table.keys(former)):
        table.rename(key, f"{record.leader}/{key.removeprefix(former)}")
