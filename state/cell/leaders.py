"""A partition gets another leader, by an election or by a test double.

An election needs only the record that names the new leader. The leader has the log, and the log of
an internal topic has the coordinator's state (`loading.py`).

A test double moves a partition to any broker at once, where Kafka would reassign it. The leader
gives its items to the new one, then the controller names that one. Each broker writes only its own
items: the new leader with `PartitionTaken`; the former one drops its items when it reads the
change:

    any partition           the log with its index, and its producers
    of __consumer_offsets   also the groups that it coordinates, with their committed offsets
    of __transaction_state  also the transactional ids

Clients see the behaviour of Kafka. The leader epoch increases. The old leader responds with 6
NOT_LEADER_OR_FOLLOWER and names the new one (KIP-951); a coordinator responds NOT_COORDINATOR.
Pending requests at the old leader resume at once. A new leader that was not a replica replaces the
old one among the replicas. Otherwise the old leader becomes a follower with an empty log.

Only a `move-leader` event moves a leader, and only with `CellSettings.may_intervene`.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cell import loading
from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.applying import applies
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Move, Reason, Refusal
from brokertwin.state.core.records import PartitionAltered, PartitionChanged, PartitionTaken
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import log, producer
from brokertwin.state.replication.copying import Place
from brokertwin.state.transactions import transaction_verification as verifications
from brokertwin.state.transactions import transactional_offsets


def decide(controller: Controller, move: Move) -> PartitionChanged | Refusal:
    """Return the record that names the new leader, or a refusal."""
    topic = controller.topic_by_name(move.topic)
    if topic is None or not 0 <= move.partition < len(topic.partitions):
        return Refusal(Reason.NOT_POSSIBLE, f"there is no partition {move.topic}-{move.partition}")
    if move.leader not in controller.cell.brokers:
        return Refusal(
            Reason.UNKNOWN_BROKER, f"broker {move.leader} is not one of {controller.cell.brokers}"
        )
    partition = topic.partitions[move.partition]
    if controller.cell.brokers_here != controller.cell.brokers:
        return Refusal(Reason.NOT_POSSIBLE, "leaders move only where one cell holds all brokers")
    if partition.leader < 0:
        return Refusal(Reason.NOT_POSSIBLE, f"nobody leads {move.topic}-{move.partition}")
    if partition.leader == move.leader:
        return Refusal(
            Reason.NOT_POSSIBLE, f"broker {move.leader} leads {move.topic}-{move.partition} already"
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
    """Return the leader's items of a partition, as a record for the new leader."""
    keys = _keys_of(leader, record.topic_id, record.partition)
    return _taken(leader, (record.topic_id, record.partition), keys)


def coordinated(leader: Broker, place: Place) -> PartitionTaken:
    """Return the state of a leader's coordinator, as a record for its first followers."""
    return _taken(leader, place, loading.coordinated_keys(leader, *place))


def _taken(leader: Broker, place: Place, keys: dict[str, list[str]]) -> PartitionTaken:
    tables, prefix = leader.tables, f"{leader.id}/"
    items = {
        name: {key.removeprefix(prefix): tables[name].encoded(key) for key in of_table}
        for name, of_table in keys.items()
    }
    return PartitionTaken(*place, items)


@applies(PartitionTaken)
def apply_taken(at: MachineTables, record: PartitionTaken) -> None:
    """Give the leader's items to the new leader."""
    if "logs" in record.items:
        log.remove(at, record.topic_id, record.partition)
    for name, items in record.items.items():
        for key, encoded in items.items():
            at.tables[name].put_encoded(f"{at.id}/{key}", encoded)
    if "logs" in record.items:
        key = log.log_key(at.id, record.topic_id, record.partition)
        at.tables.logs.change(key, log.Log).directory = ""  # it is on another broker's disks
    for key in record.items.get("groups", {}):
        transactional_offsets.index(at, f"{at.id}/{key}")


@applies(PartitionChanged)
def apply_changed(at: MachineTables, record: PartitionChanged) -> None:
    """Begin the new leader's epoch; the former leader drops its items."""
    if at.id == record.former_leader:
        _drop(at, record)
    image.apply_partition_changed(at, record)
    if at.id == record.leader:
        log_key = log.log_key(at.id, record.topic_id, record.partition)
        log.begin_epoch(at.tables.logs.change(log_key, log.Log), record.leader_epoch)


@applies(PartitionAltered)
def apply_altered(at: MachineTables, record: PartitionAltered) -> None:
    """Apply a change of a partition; a broker has a log exactly if it is a replica."""
    topic = image.topic_by_id(at, record.topic_id)
    assert topic is not None, record.topic_id
    former = topic.partitions[record.partition]
    image.apply_partition_altered(at, record)
    if at.id == CONTROLLER:
        return
    place = (record.topic_id, record.partition)
    now = image.altered(former, record)
    if at.id in now.replicas and at.id not in former.replicas:
        log.create(at, record.topic_id, topic.name, record.partition)
    elif at.id not in now.replicas and at.id in former.replicas:
        _drop_replica(at, *place)
    if record.leader == at.id:
        key = log.log_key(at.id, *place)
        log.begin_epoch(at.tables.logs.change(key, log.Log), now.leader_epoch)


def _drop_replica(at: MachineTables, topic_id: Uuid, partition: int) -> None:
    log.remove(at, topic_id, partition)
    producer.remove_partition(at, topic_id, partition)
    verifications.forget_partition(at, topic_id, partition)


def _drop(at: MachineTables, record: PartitionChanged) -> None:
    loading.forget(at, record.topic_id, record.partition)
    keys = _keys_of(at, record.topic_id, record.partition)
    for name, of_table in keys.items():
        for key in of_table:
            at.tables[name].drop(key)
    verifications.forget_partition(at, record.topic_id, record.partition)
    if at.id in record.replicas:
        topic = image.topic_by_id(at, record.topic_id)
        assert topic is not None, record.topic_id
        log.create(at, record.topic_id, topic.name, record.partition)


def _keys_of(at: MachineTables, topic_id: Uuid, partition: int) -> dict[str, list[str]]:
    """Return the keys of a machine's items of a partition, by table."""
    prefix, place = f"{at.id}/", (topic_id, partition)
    keys = {
        name: [key for key in at.tables[name].keys(prefix) if _place_of(key) == place]
        for name in ("logs", "producers")
    }
    return {**keys, **loading.coordinated_keys(at, topic_id, partition)}


def _place_of(key: str) -> tuple[Uuid, int]:
    """Return the topic id and partition in the key of a log, of its index, or of a producer."""
    _, _, topic_id, partition, *_ = key.split("/")
    return topic_id, int(partition)
