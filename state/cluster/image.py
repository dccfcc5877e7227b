"""The metadata image: topics, partitions and leaders, as a machine knows them.

The controller writes metadata records. Every machine applies them to its own image, like Kafka's
brokers with `__cluster_metadata`. The replicas in sync with the leader are the partition's ISR.
Source: `MetadataImage`, `TopicsImage`, `PartitionRegistration` in Kafka.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.shared import LeaderIdAndEpoch
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    ConfigChanged,
    PartitionAltered,
    PartitionChanged,
    PartitionsAdded,
    ReplicasAssigned,
    TopicCreated,
    TopicRemoved,
)
from brokertwin.state.core.tables import MachineTables, cached_key, machine_prefix

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_ALTERABLE = (
    *("isr", "leader", "leader_recovery_state"),
    *("replicas", "adding_replicas", "removing_replicas"),
    *("eligible_leader_replicas", "last_known_elr"),
)

TOPICS_CREATED = "topics-created"
"""Kind of the item with the number of created topics."""

MIGRATING, UNASSIGNED, LOST = (f"{'A' * 21}{last}" for last in "AQg")
"""Reserved directory ids (`DirectoryId`): the numbers 0, 1 and 2."""

NO_EPOCH = -1
"""No leader epoch in a request."""


class Partition(msgspec.Struct, array_like=True):
    """A partition; `leader` is -1 if there is none.

    Attributes:
        leader_recovery_state: 1 from an unclean election until the leader has recovered.
        adding_replicas, removing_replicas: changes of `replicas` by an ongoing reassignment.
        eligible_leader_replicas: out of sync, but with all committed records (KIP-966).
        last_known_elr: the last leader, while there is none.
        directories: ids of the replicas' log directories by broker, as far as reported.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: list[int]
    isr: list[int]
    leader_recovery_state: int = 0
    adding_replicas: list[int] = []
    removing_replicas: list[int] = []
    eligible_leader_replicas: list[int] = []
    last_known_elr: list[int] = []
    directories: dict[int, Uuid] = {}


def leader_of(partition: Partition) -> LeaderIdAndEpoch:
    """The current leader in a response of another broker (KIP-951)."""
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


class Topic(msgspec.Struct):
    """A topic; `configs` are its own settings.

    `created` is in ms since 1970; 0 in older checkpoints.
    """

    topic_id: Uuid
    name: str
    partitions: list[Partition]
    configs: dict[str, str]
    created: int = 0


class Registration(msgspec.Struct, array_like=True, frozen=True):
    """A broker's registration; each incarnation has its own epoch.

    Brokers that have run since the start have no item: the defaults apply.
    """

    is_fenced: bool = False
    epoch: int = 0
    incarnation_id: Uuid = ""
    in_controlled_shutdown: bool = False
    log_dirs: list[Uuid] = []
    is_registered: bool = True
    sends_heartbeats: bool = False
    host: str = ""
    port: int = -1
    rack: str | None = None
    listeners: dict[str, tuple[str, int]] = {}

    @property
    def is_active(self) -> bool:
        """True if the broker may lead and be in sync."""
        return not self.is_fenced and not self.in_controlled_shutdown


class TopicsCreated(msgspec.Struct, array_like=True):
    """Number of topics ever created."""

    count: int = 0


class TopicName(msgspec.Struct, array_like=True):
    topic_id: Uuid


@cached_key
def topic_key(machine: int, topic_id: Uuid) -> str:
    return f"{machine_prefix(machine)}/topic/{topic_id}"


@cached_key
def _name_key(machine: int, name: str) -> str:
    return f"{machine_prefix(machine)}/name/{name}"


def _registration_key(at: MachineTables, broker: int) -> str:
    return f"{at.prefix}/broker/{broker}"


def topic_by_id(at: MachineTables, topic_id: Uuid) -> Topic | None:
    return at.tables.metadata.get(topic_key(at.id, topic_id), Topic)


_SINCE_THE_BEGINNING = Registration()


def registration(at: MachineTables, broker: int) -> Registration:
    item = at.tables.metadata.get(_registration_key(at, broker), Registration)
    return item if item is not None else _SINCE_THE_BEGINNING


def registered_ids(at: MachineTables) -> list[int]:
    prefix = f"{at.prefix}/broker/"
    return sorted(int(key.removeprefix(prefix)) for key in at.tables.metadata.keys(prefix))


def topics_created(at: MachineTables) -> int:
    """Number of topics ever created; older checkpoints count from 0."""
    item = at.tables.metadata.get(f"{at.prefix}/{TOPICS_CREATED}", TopicsCreated)
    return item.count if item is not None else 0


@applies(BrokerRegistered)
def apply_registered(at: MachineTables, record: BrokerRegistered) -> None:
    item = Registration(
        record.is_fenced,
        record.broker_epoch,
        record.incarnation_id,
        record.in_controlled_shutdown,
        list(record.log_dirs),
        sends_heartbeats=record.sends_heartbeats,
        host=record.host,
        port=record.port,
        rack=record.rack,
        listeners=record.listeners,
    )
    at.tables.metadata.put(_registration_key(at, record.broker), item)


@applies(BrokerUnregistered)
def apply_unregistered(at: MachineTables, record: BrokerUnregistered) -> None:
    """Remove a registration; its epoch is kept."""
    epoch = registration(at, record.broker).epoch
    item = Registration(is_fenced=True, epoch=epoch, is_registered=False)
    at.tables.metadata.put(_registration_key(at, record.broker), item)


@applies(BrokerRegistrationChanged)
def apply_registration_changed(at: MachineTables, record: BrokerRegistrationChanged) -> None:
    item = registration(at, record.broker)
    changed = msgspec.structs.replace(
        item,
        is_fenced=record.is_fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=list(record.log_dirs) or item.log_dirs,
    )
    at.tables.metadata.put(_registration_key(at, record.broker), changed)


def replica_count(at: MachineTables, topic_id: Uuid, partition: int) -> int:
    """Number of a partition's replicas; 1 if the machine does not know the topic."""
    topic = at.tables.metadata.get(topic_key(at.id, topic_id), Topic)
    return len(topic.partitions[partition].replicas) if topic is not None else 1


def topic_by_name(at: MachineTables, name: str) -> Topic | None:
    item = at.tables.metadata.get(_name_key(at.id, name), TopicName)
    return topic_by_id(at, item.topic_id) if item is not None else None


def topic_names(at: MachineTables) -> list[str]:
    prefix = _name_key(at.id, "")
    return [key.removeprefix(prefix) for key in at.tables.metadata.keys(prefix)]


def all_topics(at: MachineTables) -> list[Topic]:
    topics = [topic for _, topic in at.tables.metadata.items(f"{at.prefix}/topic/", Topic)]
    return sorted(topics, key=lambda topic: topic.name)


def apply_topic_created(at: MachineTables, record: TopicCreated) -> None:
    """Create a topic: the first live replica of each partition leads in epoch 0."""
    partitions = [_new_partition(at, replicas) for replicas in record.replicas]
    configs = dict(record.configs)
    topic = Topic(record.topic_id, record.name, partitions, configs, record.created)
    at.tables.metadata.put(topic_key(at.id, record.topic_id), topic)
    at.tables.metadata.put(_name_key(at.id, record.name), TopicName(record.topic_id))
    created = TopicsCreated(topics_created(at) + 1)
    at.tables.metadata.put(f"{at.prefix}/{TOPICS_CREATED}", created)


def apply_partitions_added(at: MachineTables, record: PartitionsAdded) -> None:
    topic = at.tables.metadata.change(topic_key(at.id, record.topic_id), Topic)
    topic.partitions.extend(_new_partition(at, replicas) for replicas in record.replicas)


def apply_partition_changed(at: MachineTables, record: PartitionChanged) -> None:
    """Set a new leader in a new leader epoch."""
    topic = at.tables.metadata.change(topic_key(at.id, record.topic_id), Topic)
    partition = topic.partitions[record.partition]
    in_sync = {*partition.isr, record.leader} - {record.former_leader}
    partition.leader = record.leader
    partition.leader_epoch = record.leader_epoch
    partition.partition_epoch += 1
    partition.replicas = list(record.replicas)
    partition.directories = _those_of(partition.directories, record.replicas)
    partition.isr = [broker for broker in record.replicas if broker in in_sync]
    eligible = partition.eligible_leader_replicas
    partition.eligible_leader_replicas = [each for each in eligible if each not in in_sync]


def apply_partition_altered(at: MachineTables, record: PartitionAltered) -> None:
    """Change in-sync set, leader or replicas of a partition."""
    topic = at.tables.metadata.change(topic_key(at.id, record.topic_id), Topic)
    former = topic.partitions[record.partition]
    now = topic.partitions[record.partition] = altered(former, record)
    if record.replicas is not None:
        new = [broker for broker in record.replicas if broker not in former.replicas]
        now.directories = _those_of(former.directories, record.replicas)
        now.directories |= default_directories(at, new)


def altered(partition: Partition, record: PartitionAltered) -> Partition:
    """The partition after a record, without the directories of new replicas."""
    changes = {name: value for name in _ALTERABLE if (value := getattr(record, name)) is not None}
    begins_epoch = record.leader is not None
    return msgspec.structs.replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        leader_epoch=partition.leader_epoch + begins_epoch,
        **changes,
    )


@applies(ReplicasAssigned)
def apply_replicas_assigned(at: MachineTables, record: ReplicasAssigned) -> None:
    """Set the log directories of a broker's replicas."""
    topic = at.tables.metadata.change(topic_key(at.id, record.topic_id), Topic)
    for number, directory in record.directories.items():
        partition = topic.partitions[number]
        partition.directories = {**partition.directories, record.broker: directory}
        partition.partition_epoch += 1


def apply_config_changed(at: MachineTables, record: ConfigChanged) -> None:
    """Set or remove a topic's setting."""
    topic = topic_by_name(at, record.resource_name)
    if topic is None:
        return
    configs = at.tables.metadata.change(topic_key(at.id, topic.topic_id), Topic).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


def apply_topic_removed(at: MachineTables, record: TopicRemoved) -> None:
    """Remove a topic; its name can be used again."""
    topic = topic_by_id(at, record.topic_id)
    if topic is not None:
        at.tables.metadata.drop(topic_key(at.id, record.topic_id))
        at.tables.metadata.drop(_name_key(at.id, topic.name))


def _new_partition(at: MachineTables, replicas: list[int]) -> Partition:
    """A partition whose live replicas are in sync; the first of them leads."""
    alive = [broker for broker in replicas if registration(at, broker).is_active]
    directories = default_directories(at, replicas)
    return Partition(alive[0], 0, 0, list(replicas), alive, directories=directories)


def default_directories(at: MachineTables, brokers: list[int]) -> dict[int, Uuid]:
    log_dirs = {broker: registration(at, broker).log_dirs for broker in brokers}
    return {broker: dirs[0] for broker, dirs in log_dirs.items() if len(dirs) == 1}


def _those_of(directories: dict[int, Uuid], replicas: list[int]) -> dict[int, Uuid]:
    return {broker: each for broker, each in directories.items() if broker in replicas}


def is_dir_online(log_dirs: list[Uuid], directory: Uuid | None) -> bool:
    """True if a replica's directory is online (`DirectoryId.isOnline`).

    None means not reported. An empty `log_dirs` means that all directories are online.
    """
    if directory in (None, UNASSIGNED, MIGRATING):
        return True
    return directory != LOST and (not log_dirs or directory in log_dirs)


def is_replica_offline(at: MachineTables, partition: Partition, broker: int) -> bool:
    """True if a replica is in a failed log directory, as the machine knows it."""
    if broker not in partition.directories:  # nearly always, and quick
        return False
    log_dirs = registration(at, broker).log_dirs
    return not is_dir_online(log_dirs, partition.directories[broker])
