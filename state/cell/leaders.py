"""A partition moves to another leader: by an election, or when a test double is told so.

An election needs nothing but the record that names the new leader: it has the log, and that of an
internal topic says what it coordinates (`loading.py`).

A test double moves a partition to any broker at once, where Kafka would reassign it: the leader
gives the new one all that it holds, whole; then the controller names that one. Each writes
its own items alone: the new leader takes over by `PartitionTaken`, the former one drops its own
where it reads of the change:

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

from brokertwin.state.cell import loading
from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Move, Reason, Refusal
from brokertwin.state.core.records import PartitionAltered, PartitionChanged, PartitionTaken
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs import log, producer
from brokertwin.state.replication.copying import Place
from brokertwin.state.transactions import transaction_verification as verifications
from brokertwin.state.transactions import transactional_offsets


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
    if controller.cell.brokers_here != controller.cell.brokers:
        return Refusal(Reason.NOT_POSSIBLE, "leaders move only where one cell holds all brokers")
    if partition.leader < 0:
        return Refusal(Reason.NOT_POSSIBLE, f"nobody leads {move.topic}-{move.partition}")
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


def held(leader: Broker, record: PartitionChanged) -> PartitionTaken:
    """What the leader holds of a partition, as the record of the one that takes it over."""
    keys = _keys_of(leader.tables, leader.id, record.topic_id, record.partition)
    return _taken(leader, (record.topic_id, record.partition), keys)


def coordinated(leader: Broker, place: Place) -> PartitionTaken:
    """What a leader coordinates, as a record that its first followers find in the log."""
    return _taken(leader, place, loading.coordinated_keys(leader.tables, leader.id, *place))


def _taken(leader: Broker, place: Place, keys: dict[str, list[str]]) -> PartitionTaken:
    tables, prefix = leader.tables, f"{leader.id}/"
    items = {
        name: {key.removeprefix(prefix): tables[name].encoded(key) for key in of_table}
        for name, of_table in keys.items()
    }
    return PartitionTaken(*place, items)


def apply_taken(tables: Tables, machine: int, record: PartitionTaken) -> None:
    """The broker that is to lead has what the leader has."""
    if "logs" in record.items:
        log.remove(tables.logs, machine, record.topic_id, record.partition)
    for name, items in record.items.items():
        for key, encoded in items.items():
            tables[name].put_encoded(f"{machine}/{key}", encoded)
    if "logs" in record.items:
        key = log.log_key(machine, record.topic_id, record.partition)
        tables.logs.change(key, log.Log).directory = ""  # it lies on another broker's disks
    for key in record.items.get("groups", {}):
        transactional_offsets.index(tables.groups, machine, f"{machine}/{key}")


def apply_changed(tables: Tables, machine: int, record: PartitionChanged) -> None:
    """The machine knows the new leader, which begins its epoch; the former one drops its items."""
    if machine == record.former_leader:
        _drop(tables, machine, record)
    image.apply_partition_changed(tables.metadata, machine, record)
    if machine == record.leader:
        log_key = log.log_key(machine, record.topic_id, record.partition)
        log.begin_epoch(tables.logs.change(log_key, log.Log), record.leader_epoch)


def apply_altered(tables: Tables, machine: int, record: PartitionAltered) -> None:
    """The machine knows what a partition has become; it has a log exactly where it is a replica."""
    topic = image.topic_by_id(tables.metadata, machine, record.topic_id)
    assert topic is not None, record.topic_id
    former = topic.partitions[record.partition]
    image.apply_partition_altered(tables.metadata, machine, record)
    if machine == CONTROLLER:
        return
    place = (record.topic_id, record.partition)
    now = image.altered(former, record)
    if machine in now.replicas and machine not in former.replicas:
        log.create(tables.logs, machine, record.topic_id, topic.name, record.partition)
    elif machine not in now.replicas and machine in former.replicas:
        _drop_replica(tables, machine, *place)
    if record.leader == machine:
        key = log.log_key(machine, *place)
        log.begin_epoch(tables.logs.change(key, log.Log), now.leader_epoch)


def _drop_replica(tables: Tables, machine: int, topic_id: Uuid, partition: int) -> None:
    log.remove(tables.logs, machine, topic_id, partition)
    producer.remove_partition(tables.producers, machine, topic_id, partition)
    verifications.forget_partition(tables.waiting, machine, topic_id, partition)


def _drop(tables: Tables, machine: int, record: PartitionChanged) -> None:
    loading.forget(tables, machine, record.topic_id, record.partition)
    keys = _keys_of(tables, machine, record.topic_id, record.partition)
    for name, of_table in keys.items():
        for key in of_table:
            tables[name].drop(key)
    verifications.forget_partition(tables.waiting, machine, record.topic_id, record.partition)
    if machine in record.replicas:
        topic = image.topic_by_id(tables.metadata, machine, record.topic_id)
        assert topic is not None, record.topic_id
        log.create(tables.logs, machine, record.topic_id, topic.name, record.partition)


def _keys_of(tables: Tables, machine: int, topic_id: Uuid, partition: int) -> dict[str, list[str]]:
    """The keys of all that a machine holds of a partition, by table."""
    prefix, place = f"{machine}/", (topic_id, partition)
    found = {
        name: [key for key in tables[name].keys(prefix) if _place_of(key) == place]
        for name in ("logs", "producers")
    }
    return {**found, **loading.coordinated_keys(tables, machine, topic_id, partition)}


def _place_of(key: str) -> tuple[Uuid, int]:
    """The topic id and partition in the key of a log, of a part of its index, of a producer."""
    _, _, topic_id, partition, *_ = key.split("/")
    return topic_id, int(partition)
