"""Brokers and the controller, as their handlers see them.

Both are views of their cell's tables, whose keys start with the machine's id. Handlers read through
them; only `apply` (`state/cell/apply.py`) writes durable state.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.access import authorizer
from brokertwin.state.access.authorizer import CLUSTER_NAME, Client, Operation, ResourceType
from brokertwin.state.cluster import (
    broker_configs,
    client_quotas,
    failed_dirs,
    features,
    image,
    retention_limits,
)
from brokertwin.state.cluster.image import NO_EPOCH, Partition, Registration, Topic
from brokertwin.state.cluster.retention_limits import rolling_rules_of
from brokertwin.state.configs import codecs, listeners, log_dirs
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.configs.topic_configs import MIN_IN_SYNC, value_of
from brokertwin.state.core.decision import CONTROLLER, Request
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.logs import log, producer, record_validation
from brokertwin.state.logs.log import UNSEALED, Log, log_key
from brokertwin.state.logs.log_tail import LogTail


class TopicRules(msgspec.Struct, frozen=True):
    """Largest batch and segment in bytes, checks of records and sequences, and the codec.

    The edge recompresses batches with `codec`; None keeps them as they are.
    """

    max_message_bytes: int
    records: record_validation.RecordRules
    producers: producer.SequenceRules
    segment_bytes: int
    codec: TopicCodec | None = None


def rules_of_topic(topic: Topic, settings: BrokerSettings) -> TopicRules:
    configs = topic.configs
    policy = configs.get("cleanup.policy") or settings.given.get("log.cleanup.policy", "delete")
    kind = configs.get("message.timestamp.type", settings.log_message_timestamp_type)
    records = record_validation.RecordRules(
        "compact" in policy,
        kind == "LogAppendTime",
        int(
            configs.get(
                "message.timestamp.before.max.ms", settings.log_message_timestamp_before_max_ms
            )
        ),
        int(
            configs.get(
                "message.timestamp.after.max.ms", settings.log_message_timestamp_after_max_ms
            )
        ),
    )
    sequences = producer.SequenceRules(
        settings.brokertwin_reject_unknown_producer,
        settings.brokertwin_duplicates_below_expected,
        settings.transaction_partition_verification_enable,
    )
    most = int(configs.get("max.message.bytes", settings.message_max_bytes))
    segment_bytes = rolling_rules_of(configs, settings).segment_bytes
    return TopicRules(most, records, sequences, segment_bytes, codecs.of_topic(configs, settings))


class PartitionTail(LogTail):
    """The end of a log, with the rules of its topic.

    Attributes:
        topic_rules: if the machine leads the partition, enough replicas are in sync, and any client
            may write to the topic; None if this is not known.
    """

    __slots__ = ("topic_rules",)

    topic_rules: TopicRules | None


def tail_of(at: MachineTables, topic_id: Uuid, partition: int) -> PartitionTail | None:
    """The end of a log, or None if the machine does not have the log."""
    tail: PartitionTail | None = at.tables.tails.get((at.id, topic_id, partition))
    return tail or _opened(at, topic_id, partition)


def _opened(at: MachineTables, topic_id: Uuid, partition: int) -> PartitionTail | None:
    log = at.tables.logs.get(log_key(at.id, topic_id, partition), Log)
    if log is None:
        return None
    rules = None
    if log.topic not in UNSEALED:
        rules = retention_limits.rolling_rules_in(at, topic_id)
    is_only_replica = image.replica_count(at, topic_id, partition) == 1
    tail = PartitionTail(at, log, rules, is_only_replica)
    tail.topic_rules = None
    at.tables.tails[at.id, topic_id, partition] = tail
    return tail


HOST = "localhost"
PORT = 9092
"""Placeholders for the address of the edge; the broker's id is added to the port."""

NO_LEADER = -1

Endpoint = tuple[str, int]
"""Host and port."""

Reached = Mapping[int, Endpoint]
"""Addresses of the brokers that a client can reach."""

DESCRIBED_PARTITIONS_MAX = 10_000
"""Limit of the partitions in `Machine.described`."""

Description = TypeVar("Description")


def placeholder(broker: int) -> Endpoint:
    return HOST, PORT + broker


class Usable(NamedTuple):
    """Brokers for new partitions: live ones, and fenced ones for a lack of those.

    `racks` has the racks of brokers that have one.
    """

    alive: list[int]
    fenced: list[int]
    racks: Mapping[int, str] = {}


class Machine(MachineTables):
    """A broker or the controller at the time `now` (ms since 1970).

    Look-ups in the image are cached until `forget`; `topics_seen` has topics by id,
    `hashes` the metadata hashes of groups by topic names.
    """

    def __init__(self, machine: int, tables: CellTables, settings: CellSettings, now: int) -> None:
        super().__init__(machine, tables)
        self.cell = settings
        self.settings: BrokerSettings = broker_configs.settings_of(
            self, machine, settings.broker_settings
        )
        self.has_authorizer = bool(self.settings.authorizer_class_name)
        self.now = now
        self.topics_seen: dict[Uuid, Topic] = {}
        self._named_topics: dict[str, Topic] = {}
        self._described: dict[tuple[Uuid, Hashable], Any] = {}
        self._described_partitions = 0
        self._alive: list[int] | None = None
        self._rules: dict[Uuid, TopicRules] = {}
        self._has_quotas: bool | None = None
        self.hashes: dict[frozenset[str], int] = {}

    def forget(self) -> None:
        """Drop cached look-ups after a metadata record."""
        self.topics_seen.clear()
        self._named_topics.clear()
        self._described.clear()
        self._alive = None
        self._rules.clear()
        self._has_quotas = None
        self.hashes.clear()

    def has_feature(self, name: str) -> bool:
        """True if a feature that starts above level 0 has not been disabled."""
        return features.changed(self).get(name, 1) > 0

    def allows(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """True if the request's client may do `operation`; always without an authorizer."""
        if not self.has_authorizer or request.is_from_machine:
            return True
        return authorizer.allows(
            self,
            self.settings,
            Client(request.principal, request.host),
            operation,
            resource_type,
            name,
        )

    def allows_topic(self, request: Request, operation: Operation, name: str) -> bool:
        return self.allows(request, operation, ResourceType.TOPIC, name)

    def allows_cluster(self, request: Request, operation: Operation) -> bool:
        return self.allows(request, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any_topic(self, request: Request, operation: Operation) -> bool:
        """True if the request's client may do `operation` on any topic."""
        if not self.has_authorizer or request.is_from_machine:
            return True
        return authorizer.allows_any(
            self,
            self.settings,
            Client(request.principal, request.host),
            operation,
            ResourceType.TOPIC,
        )

    def denied_topics(
        self, request: Request, operation: Operation, names: Iterable[str]
    ) -> frozenset[str]:
        if not self.has_authorizer or request.is_from_machine:
            return frozenset()
        return frozenset(
            name for name in set(names) if not self.allows_topic(request, operation, name)
        )

    def authorized_operations(
        self, request: Request, resource_type: ResourceType, name: str
    ) -> int:
        """Operations of the request's client on a resource, a bit for each code."""
        return sum(
            1 << operation
            for operation in authorizer.OPERATIONS[resource_type]
            if self.allows(request, operation, resource_type, name)
        )

    def topic_by_name(self, name: str) -> Topic | None:
        topic = self._named_topics.get(name) or image.topic_by_name(self, name)
        if topic is not None:
            self._named_topics[name] = topic
        return topic

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        topic = self.topics_seen.get(topic_id) or image.topic_by_id(self, topic_id)
        if topic is not None:
            self.topics_seen[topic_id] = topic
        return topic

    def rules_of(self, topic: Topic) -> TopicRules:
        """The topic's checks of appended batches."""
        rules = self._rules.get(topic.topic_id)
        if rules is None:
            rules = self._rules[topic.topic_id] = rules_of_topic(topic, self.settings)
        return rules

    def described(
        self, topic: Topic, variant: Hashable, describe: Callable[[Topic], Description]
    ) -> Description:
        """A topic's description, cached until metadata changes.

        `variant` stands for everything else that the description depends on.
        """
        description: Description | None = self._described.get((topic.topic_id, variant))
        if description is None:
            self._described_partitions += len(topic.partitions)
            if not self._described or self._described_partitions > DESCRIBED_PARTITIONS_MAX:
                self._described.clear()
                self._described_partitions = len(topic.partitions)
            description = self._described[topic.topic_id, variant] = describe(topic)
        return description

    @property
    def has_quotas(self) -> bool:
        if self._has_quotas is None:
            self._has_quotas = client_quotas.are_any(self)
        return self._has_quotas

    def topic_names(self) -> list[str]:
        return image.topic_names(self)

    def topics_created(self) -> int:
        return image.topics_created(self)

    def all_topics(self) -> list[Topic]:
        return image.all_topics(self)

    def min_in_sync(self, topic: Topic, partition: int) -> int:
        config = topic.configs.get(MIN_IN_SYNC)
        minimum = int(config) if config is not None else self.settings.min_insync_replicas
        return min(minimum, len(topic.partitions[partition].replicas))

    def is_alive(self, broker: int) -> bool:
        return not self.registration(broker).is_fenced

    def is_active(self, broker: int) -> bool:
        """True if a broker is alive and not shutting down: it may lead and be in sync."""
        return self.registration(broker).is_active

    def is_replica_offline(self, partition: Partition, broker: int) -> bool:
        """True if a replica is in a failed log directory."""
        return image.is_replica_offline(self, partition, broker)

    def offline_replicas(self, partition: Partition, reached: Container[int]) -> list[int]:
        """Replicas that a client cannot reach, or in a failed log directory."""
        return [
            each
            for each in partition.replicas
            if each not in reached or self.is_replica_offline(partition, each)
        ]

    def registration(self, broker: int) -> Registration:
        return image.registration(self, broker)

    def rack_of(self, broker: int) -> str | None:
        """A broker's rack: registered, else from the settings; None if it has none."""
        registered = self.registration(broker).rack
        if registered is not None:
            return registered
        for each in self.settings.brokertwin_broker_racks:
            of_broker, _, rack = each.partition(":")
            if int(of_broker) == broker:
                return rack
        return self.settings.broker_rack or None

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """Address of a broker for a client of a listener; None if there is none.

        It is as registered, for an unknown listener ("") that of the first one. For a broker of the
        settings it is a placeholder for the edge, unless the listener was added while it ran.
        """
        registration = self.registration(broker)
        if listener and registration.listeners:
            return registration.listeners.get(listener)
        if listener and any(each.name == listener for each in listeners.opened(self.settings)):
            return None
        if registration.host:
            return registration.host, registration.port
        return placeholder(broker) if broker in self.cell.brokers else None

    def reached(self, listener: str, brokers: Iterable[int]) -> dict[int, Endpoint]:
        endpoints = ((broker, self.endpoint(broker, listener)) for broker in brokers)
        return {broker: endpoint for broker, endpoint in endpoints if endpoint is not None}

    @property
    def brokers(self) -> list[int]:
        """All brokers: those of the settings, then others that have registered."""
        broker_ids = image.registered_ids(self)
        return [*self.cell.brokers, *(each for each in broker_ids if each not in self.cell.brokers)]

    def alive_brokers(self) -> list[int]:
        """Live brokers. Do not change the list."""
        if self._alive is None:
            self._alive = [broker for broker in self.brokers if self.is_alive(broker)]
        return self._alive

    def registered_brokers(self) -> list[int]:
        return [each for each in self.brokers if self.registration(each).is_registered]


class Broker(Machine):
    """A broker: its logs, producers, sessions, groups and pending requests.

    `event_time` is the earliest time, in ms since 1970, at which another cell can receive its
    messages: the time of the event, which is later than `now` for timers due before it. Timeouts of
    waits for another cell start there. With a single cell it equals `now`.
    """

    def __init__(
        self,
        broker: int,
        tables: CellTables,
        settings: CellSettings,
        now: int,
        event_time: int | None = None,
    ) -> None:
        super().__init__(broker, tables, settings, now)
        self.event_time = event_time if settings.cells and event_time is not None else now
        self.failed_dirs = failed_dirs.of(self)

    def log(self, topic_id: Uuid, partition: int) -> Log | None:
        found = self.held_log(topic_id, partition)
        is_lost = self.failed_dirs and found is not None and self._is_failed(found)
        return None if is_lost else found

    def tail(self, topic_id: Uuid, partition: int) -> PartitionTail | None:
        """The end of a log, as `log` finds it."""
        partition_tail = tail_of(self, topic_id, partition)
        is_lost = (
            self.failed_dirs and partition_tail is not None and self._is_failed(partition_tail.log)
        )
        return None if is_lost else partition_tail

    def held_log(self, topic_id: Uuid, partition: int) -> Log | None:
        """The log of a partition, even if its directory has failed."""
        return self.tables.logs.get(log.log_key(self.id, topic_id, partition), Log)

    def has_lost(self, topic_id: Uuid, partition: int) -> bool:
        """True if the log is in a failed directory: 56 KAFKA_STORAGE_ERROR."""
        if not self.failed_dirs:  # nearly always
            return False
        log = self.held_log(topic_id, partition)
        return log is not None and self._is_failed(log)

    def storage_error(self, topic_id: Uuid, partition: int) -> Error:
        """Why there is no log: a failed directory, or this broker is not a replica."""
        is_lost = self.has_lost(topic_id, partition)
        return Error.KAFKA_STORAGE_ERROR if is_lost else Error.NOT_LEADER_OR_FOLLOWER

    def _is_failed(self, log: Log) -> bool:
        return (log.directory or self.log_dirs[0]) in self.failed_dirs

    @property
    def log_dirs(self) -> list[str]:
        """Log directories including failed ones; the first has the logs without a directory."""
        return log_dirs.of(self.settings)

    @property
    def live_dirs(self) -> list[str]:
        """Log directories that have not failed."""
        return [each for each in self.log_dirs if each not in self.failed_dirs]

    @property
    def cordoned_dirs(self) -> list[str]:
        return log_dirs.cordoned(self.settings)

    def leader_error(self, partition: Partition, current_leader_epoch: int) -> Error:
        """Error if this broker does not serve a partition as its leader.

        In Kafka's order: 74 FENCED_LEADER_EPOCH or 75 UNKNOWN_LEADER_EPOCH
        (`Partition.checkCurrentLeaderEpoch`), then 6 NOT_LEADER_OR_FOLLOWER.
        """
        error = self.epoch_error(partition, current_leader_epoch)
        if error is NONE and partition.leader != self.id:
            return Error.NOT_LEADER_OR_FOLLOWER
        return error

    def epoch_error(self, partition: Partition, current_leader_epoch: int) -> Error:
        """Error for a request's leader epoch, at the leader or a follower."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < partition.leader_epoch:
                return Error.FENCED_LEADER_EPOCH
            if current_leader_epoch > partition.leader_epoch:
                return Error.UNKNOWN_LEADER_EPOCH
        return NONE

    @property
    def epoch(self) -> int:
        return self.registration(self.id).epoch

    def log_key(self, topic_id: Uuid, partition: int) -> str:
        return log.log_key(self.id, topic_id, partition)


class Controller(Machine):
    """The controller: topics, brokers and producer id blocks."""

    def __init__(self, tables: CellTables, settings: CellSettings, now: int) -> None:
        super().__init__(CONTROLLER, tables, settings, now)

    def is_of_epoch(self, broker: int, epoch: int) -> bool:
        """True if a broker is registered in this epoch (`checkBrokerEpoch`)."""
        return broker in self.registered_brokers() and self.registration(broker).epoch == epoch

    def usable_brokers(self) -> Usable:
        """Brokers for new partitions: not shutting down, with a directory not cordoned."""
        there = [each for each in self.registered_brokers() if self._takes_logs(each)]
        fenced = [broker for broker in there if not self.is_alive(broker)]
        racks = {broker: rack for broker in there if (rack := self.rack_of(broker)) is not None}
        return Usable([broker for broker in there if self.is_active(broker)], fenced, racks)

    def _takes_logs(self, broker: int) -> bool:
        broker_settings = self.cell.broker_settings
        return log_dirs.takes_logs(
            broker_configs.settings_of(self.tables.of(CONTROLLER), broker, broker_settings)
        )

    def min_in_sync_for_eligible(self, topic: Topic) -> int | None:
        """Least in-sync replicas below which replicas become eligible; None without ELR.

        As in Kafka, the replication factor is that of the first partition
        (`ReplicationControlManager.getTopicEffectiveMinIsr`).
        """
        return self.min_in_sync(topic, 0) if self.settings.has_eligible_replicas else None

    def may_elect_unclean(self, topic: Topic) -> bool:
        """True if a replica out of sync may be elected, which loses records."""
        name = "unclean.leader.election.enable"
        return value_of(name, topic.configs, self.settings) is True
