"""The metadata image: what a machine knows of topics, partitions and their leaders.

The controller writes metadata records; every machine applies them to an image of its own, as
Kafka's brokers do with `__cluster_metadata`. A broker that leads a partition keeps its log. Of a
partition's replicas those in sync with its leader are its ISR.
Source: `MetadataImage`, `TopicsImage`, `PartitionRegistration` in Kafka.
"""

import msgspec

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
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Table, kept
from brokertwin.state.core.wire.generated.shared import LeaderIdAndEpoch

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_ALTERABLE = (
    *("isr", "leader", "leader_recovery_state"),
    *("replicas", "adding_replicas", "removing_replicas"),
    *("eligible_leader_replicas", "last_known_elr"),
)

TOPICS_CREATED = "topics-created"
"""The kind of the item that counts them."""

MIGRATING, UNASSIGNED, LOST = (f"{'A' * 21}{last}" for last in "AQg")
"""Ids that are none of a log directory (`DirectoryId`): the numbers 0, 1 and 2."""

NO_EPOCH = -1
"""In a request: no leader epoch is given."""


class Partition(msgspec.Struct, array_like=True):
    """A partition as metadata shows it; `leader` is -1 where there is none.

    `leader_recovery_state` is 1 from an unclean election until the leader says that it is over.
    While the partition is reassigned, `adding_replicas` and `removing_replicas` say who of the
    `replicas` comes and who goes. `eligible_leader_replicas` have left the in-sync set with all
    that is committed; while nobody leads `last_known_elr` has who led last. `directories` has the
    ids of the log directories in which replicas lie, by broker, as far as it was said.
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
    """A topic in an image; `configs` are the settings that were given for it.

    `created` is when, in ms since 1970; 0 in checkpoints that are older than this field.
    """

    topic_id: Uuid
    name: str
    partitions: list[Partition]
    configs: dict[str, str]
    created: int = 0


class Registration(msgspec.Struct, array_like=True, frozen=True):
    """A broker as the controller has registered it.

    Those that run since the cluster began have no item: they are as the defaults say. A broker of
    another incarnation has another epoch.
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
        """Whether the broker may lead, and be in sync."""
        return not self.is_fenced and not self.in_controlled_shutdown


class TopicsCreated(msgspec.Struct, array_like=True):
    """How many topics have been created; those that are gone are counted, too."""

    count: int = 0


class TopicName(msgspec.Struct, array_like=True):
    """The id that a topic name stands for now."""

    topic_id: Uuid


def machine_prefix(machine: int) -> str:
    """How the keys of a machine's image begin: `controller` or the broker's id."""
    return str(machine) if machine >= 0 else "controller"


@kept
def topic_key(machine: int, topic_id: Uuid) -> str:
    """The key of a topic in a machine's image."""
    return f"{machine if machine >= 0 else 'controller'}/topic/{topic_id}"


@kept
def _name_key(machine: int, name: str) -> str:
    return f"{machine if machine >= 0 else 'controller'}/name/{name}"


def _registration_key(machine: int, broker: int) -> str:
    return f"{machine_prefix(machine)}/broker/{broker}"


def topic_by_id(table: Table, machine: int, topic_id: Uuid) -> Topic | None:
    """The topic with this id, if the machine knows one."""
    return table.get(topic_key(machine, topic_id), Topic)


_SINCE_THE_BEGINNING = Registration()


def registration(table: Table, machine: int, broker: int) -> Registration:
    """What the controller says of a broker, as far as the machine knows."""
    known = table.get(_registration_key(machine, broker), Registration)
    return known if known is not None else _SINCE_THE_BEGINNING


def brokers_told(table: Table, machine: int) -> list[int]:
    """The brokers of which the controller has said something."""
    prefix = f"{machine_prefix(machine)}/broker/"
    return sorted(int(key.removeprefix(prefix)) for key in table.keys(prefix))


def topics_created(table: Table, machine: int) -> int:
    """How many topics have been created; checkpoints that are older count from 0."""
    known = table.get(f"{machine_prefix(machine)}/{TOPICS_CREATED}", TopicsCreated)
    return known.count if known is not None else 0


def apply_registered(table: Table, machine: int, record: BrokerRegistered) -> None:
    """A broker has registered, maybe in another incarnation."""
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
    table.put(_registration_key(machine, record.broker), item)


def apply_unregistered(table: Table, machine: int, record: BrokerUnregistered) -> None:
    """The controller does not know the broker any more; what it leaves is the last epoch."""
    epoch = registration(table, machine, record.broker).epoch
    item = Registration(is_fenced=True, epoch=epoch, is_registered=False)
    table.put(_registration_key(machine, record.broker), item)


def apply_registration_changed(
    table: Table, machine: int, record: BrokerRegistrationChanged
) -> None:
    """A broker has gone, is about to go, or has come back."""
    known = registration(table, machine, record.broker)
    changed = msgspec.structs.replace(
        known,
        is_fenced=record.is_fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=list(record.log_dirs) or known.log_dirs,
    )
    table.put(_registration_key(machine, record.broker), changed)


def replica_count(table: Table, machine: int, topic_id: Uuid, partition: int) -> int:
    """How many replicas a partition has; 1 where the machine does not know the topic."""
    topic = table.get(topic_key(machine, topic_id), Topic)
    return len(topic.partitions[partition].replicas) if topic is not None else 1


def topic_by_name(table: Table, machine: int, name: str) -> Topic | None:
    """The topic that this name stands for now, if there is one."""
    known = table.get(_name_key(machine, name), TopicName)
    return table.get(topic_key(machine, known.topic_id), Topic) if known is not None else None


def topic_names(table: Table, machine: int) -> list[str]:
    """The names of all topics of the image, sorted; no topic is decoded for it."""
    prefix = _name_key(machine, "")
    return [key.removeprefix(prefix) for key in table.keys(prefix)]


def all_topics(table: Table, machine: int) -> list[Topic]:
    """Every topic of the image, by name."""
    topics = [topic for _, topic in table.items(f"{machine_prefix(machine)}/topic/", Topic)]
    return sorted(topics, key=lambda topic: topic.name)


def apply_topic_created(table: Table, machine: int, record: TopicCreated) -> None:
    """A new topic: the first living replica of each partition leads it in leader epoch 0."""
    partitions = [_new_partition(table, machine, replicas) for replicas in record.replicas]
    configs = dict(record.configs)
    topic = Topic(record.topic_id, record.name, partitions, configs, record.created)
    table.put(topic_key(machine, record.topic_id), topic)
    table.put(_name_key(machine, record.name), TopicName(record.topic_id))
    created = TopicsCreated(topics_created(table, machine) + 1)
    table.put(f"{machine_prefix(machine)}/{TOPICS_CREATED}", created)


def apply_partitions_added(table: Table, machine: int, record: PartitionsAdded) -> None:
    """More partitions of a topic."""
    topic = table.change(topic_key(machine, record.topic_id), Topic)
    topic.partitions.extend(
        _new_partition(table, machine, replicas) for replicas in record.replicas
    )


def apply_partition_changed(table: Table, machine: int, record: PartitionChanged) -> None:
    """A partition has a new leader in a new leader epoch."""
    topic = table.change(topic_key(machine, record.topic_id), Topic)
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


def apply_partition_altered(table: Table, machine: int, record: PartitionAltered) -> None:
    """A partition has another in-sync set, another leader, or other replicas."""
    topic = table.change(topic_key(machine, record.topic_id), Topic)
    former = topic.partitions[record.partition]
    now = topic.partitions[record.partition] = altered(former, record)
    if record.replicas is not None:
        new = [broker for broker in record.replicas if broker not in former.replicas]
        now.directories = _those_of(former.directories, record.replicas)
        now.directories |= default_directories(table, machine, new)


def altered(partition: Partition, record: PartitionAltered) -> Partition:
    """The partition as a record leaves it, but for the log directories of new replicas."""
    changes = {name: value for name in _ALTERABLE if (value := getattr(record, name)) is not None}
    begins_epoch = record.leader is not None
    return msgspec.structs.replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        leader_epoch=partition.leader_epoch + begins_epoch,
        **changes,
    )


def apply_replicas_assigned(table: Table, machine: int, record: ReplicasAssigned) -> None:
    """A broker has said in which log directories its replicas lie."""
    topic = table.change(topic_key(machine, record.topic_id), Topic)
    for number, directory in record.directories.items():
        partition = topic.partitions[number]
        partition.directories = {**partition.directories, record.broker: directory}
        partition.partition_epoch += 1


def apply_config_changed(table: Table, machine: int, record: ConfigChanged) -> None:
    """A topic has another value of a setting, or none of its own."""
    topic = topic_by_name(table, machine, record.resource_name)
    if topic is None:
        return
    configs = table.change(topic_key(machine, topic.topic_id), Topic).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


def apply_topic_removed(table: Table, machine: int, record: TopicRemoved) -> None:
    """The topic is gone; its name is free for another one with another id."""
    topic = topic_by_id(table, machine, record.topic_id)
    if topic is not None:
        table.drop(topic_key(machine, record.topic_id))
        table.drop(_name_key(machine, topic.name))


def _new_partition(table: Table, machine: int, replicas: list[int]) -> Partition:
    """All that are alive are in sync; the first of them leads."""
    alive = [broker for broker in replicas if registration(table, machine, broker).is_active]
    directories = default_directories(table, machine, replicas)
    return Partition(alive[0], 0, 0, list(replicas), alive, directories=directories)


def default_directories(table: Table, machine: int, brokers: list[int]) -> dict[int, Uuid]:
    """Where replicas lie of which nobody has said it: on brokers that have one directory alone."""
    known = {broker: registration(table, machine, broker).log_dirs for broker in brokers}
    return {broker: dirs[0] for broker, dirs in known.items() if len(dirs) == 1}


def _those_of(directories: dict[int, Uuid], replicas: list[int]) -> dict[int, Uuid]:
    return {broker: each for broker, each in directories.items() if broker in replicas}


def is_dir_online(log_dirs: list[Uuid], directory: Uuid | None) -> bool:
    """Whether a replica's directory is there, of a broker that has these (`DirectoryId.isOnline`).

    None: nobody has said where the replica lies. A broker that has said no directories has all.
    """
    if directory in (None, UNASSIGNED, MIGRATING):
        return True
    return directory != LOST and (not log_dirs or directory in log_dirs)


def is_replica_offline(table: Table, machine: int, partition: Partition, broker: int) -> bool:
    """Whether a replica lies in a log directory that has failed, as far as a machine knows."""
    if broker not in partition.directories:  # nearly always, and quick
        return False
    log_dirs = registration(table, machine, broker).log_dirs
    return not is_dir_online(log_dirs, partition.directories[broker])
