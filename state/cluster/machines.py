"""The two kinds of machines as their handlers see them: a broker and a controller.

Both are views on the tables of their cell: the keys of what they own begin with their id. A
handler reads through them; only `apply` (in `state/cell/apply.py`) writes durable state.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from brokertwin.state.access import authorizer
from brokertwin.state.access.authorizer import CLUSTER_NAME, Client, Operation, ResourceType
from brokertwin.state.cluster import (
    broker_configs,
    client_quotas,
    failed_dirs,
    features,
    image,
    topic_rules,
)
from brokertwin.state.cluster.image import NO_EPOCH, Partition, Registration, Topic
from brokertwin.state.cluster.topic_rules import TopicRules
from brokertwin.state.configs import listeners, log_dirs
from brokertwin.state.configs.topic_configs import MIN_IN_SYNC, value_of
from brokertwin.state.core.decision import CONTROLLER, Request
from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs import log
from brokertwin.state.logs.log import Log

HOST = "localhost"
PORT = 9092
"""Stand for where the edge is reached; to the port the broker's id is added."""

NO_LEADER = -1

Endpoint = tuple[str, int]
"""Host and port."""

Reached = Mapping[int, Endpoint]
"""The brokers that a client can reach, and where."""

PARTITIONS_TOLD_MAX = 10_000
"""What is told of so many partitions is kept for the next who asks."""

Told = TypeVar("Told")


def placeholder(broker: int) -> Endpoint:
    """Stands for where the edge is reached in the place of a broker."""
    return HOST, PORT + broker


class Usable(NamedTuple):
    """Brokers that may get partitions: those alive, then fenced ones where these are too few.

    `racks` has the rack of each that is in one.
    """

    alive: list[int]
    fenced: list[int]
    racks: Mapping[int, str] = {}


class Machine:
    """A broker or the controller at the time `now` (ms since 1970).

    What it has looked up in its image it keeps in mind until it is told to `forget`: `topics_seen`
    are topics by their ids.
    """

    def __init__(self, machine: int, tables: Tables, settings: CellSettings, now: int) -> None:
        self.id = machine
        self.tables = tables
        self.cell = settings
        self.settings: BrokerSettings = broker_configs.settings_of(
            tables.metadata, machine, machine, settings.broker_settings
        )
        self.has_authorizer = bool(self.settings.authorizer_class_name)
        self.now = now
        self.topics_seen: dict[Uuid, Topic] = {}
        self._named_topics: dict[str, Topic] = {}
        self._told: dict[tuple[Uuid, Hashable], Any] = {}
        self._partitions_told = 0
        self._alive: list[int] | None = None
        self._rules: dict[Uuid, TopicRules] = {}
        self._has_quotas: bool | None = None

    def forget(self) -> None:
        """Looks at its image again: a metadata record has come."""
        self.topics_seen.clear()
        self._named_topics.clear()
        self._told.clear()
        self._alive = None
        self._rules.clear()
        self._has_quotas = None

    @property
    def prefix(self) -> str:
        """How the keys of the machine's metadata image begin."""
        return image.machine_prefix(self.id)

    def has_feature(self, name: str) -> bool:
        """Whether a feature that begins above level 0 is there still."""
        return features.changed(self.tables.metadata, self.id).get(name, 1) > 0

    def allows(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether whoever sent `request` may do `operation`; always without an authorizer."""
        if not self.has_authorizer or request.is_from_machine:
            return True
        return authorizer.allows(
            self.tables.metadata,
            self.prefix,
            self.settings,
            Client(request.principal, request.host),
            operation,
            resource_type,
            name,
        )

    def allows_topic(self, request: Request, operation: Operation, name: str) -> bool:
        """`allows` for a topic."""
        return self.allows(request, operation, ResourceType.TOPIC, name)

    def allows_cluster(self, request: Request, operation: Operation) -> bool:
        """`allows` for the cluster."""
        return self.allows(request, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any_topic(self, request: Request, operation: Operation) -> bool:
        """Whether whoever sent `request` may do `operation` to at least one topic."""
        if not self.has_authorizer or request.is_from_machine:
            return True
        return authorizer.allows_any(
            self.tables.metadata,
            self.prefix,
            self.settings,
            Client(request.principal, request.host),
            operation,
            ResourceType.TOPIC,
        )

    def denied_topics(
        self, request: Request, operation: Operation, names: Iterable[str]
    ) -> frozenset[str]:
        """Those of the topics `names` to which `operation` is not allowed."""
        if not self.has_authorizer or request.is_from_machine:
            return frozenset()
        return frozenset(
            name for name in set(names) if not self.allows_topic(request, operation, name)
        )

    def authorized_operations(
        self, request: Request, resource_type: ResourceType, name: str
    ) -> int:
        """What whoever sent `request` may do to a resource, a bit for each operation's code."""
        return sum(
            1 << operation
            for operation in authorizer.OPERATIONS[resource_type]
            if self.allows(request, operation, resource_type, name)
        )

    def topic_by_name(self, name: str) -> Topic | None:
        """The topic with this name in the machine's metadata image."""
        found = self._named_topics.get(name)
        if found is None:
            found = image.topic_by_name(self.tables.metadata, self.id, name)
            if found is not None:
                self._named_topics[name] = found
        return found

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id in the machine's metadata image."""
        found = self.topics_seen.get(topic_id)
        if found is None:
            found = image.topic_by_id(self.tables.metadata, self.id, topic_id)
            if found is not None:
                self.topics_seen[topic_id] = found
        return found

    def rules_of(self, topic: Topic) -> TopicRules:
        """What a topic asks of what is appended to it."""
        found = self._rules.get(topic.topic_id)
        if found is None:
            found = self._rules[topic.topic_id] = topic_rules.of_topic(topic, self.settings)
        return found

    def told_of(self, topic: Topic, whom: Hashable, tell: Callable[[Topic], Told]) -> Told:
        """What is told of a topic: made when first asked for, the same until metadata changes.

        `whom` stands for what else it depends on: who is alike in that is told the same.
        """
        found: Told | None = self._told.get((topic.topic_id, whom))
        if found is None:
            self._partitions_told += len(topic.partitions)
            if not self._told or self._partitions_told > PARTITIONS_TOLD_MAX:
                self._told.clear()
                self._partitions_told = len(topic.partitions)
            found = self._told[topic.topic_id, whom] = tell(topic)
        return found

    @property
    def has_quotas(self) -> bool:
        """Whether any user or client has a quota, as far as this machine knows."""
        if self._has_quotas is None:
            self._has_quotas = client_quotas.are_any(self.tables.metadata, self.id)
        return self._has_quotas

    def topic_names(self) -> list[str]:
        """The names of all topics in the machine's metadata image, sorted."""
        return image.topic_names(self.tables.metadata, self.id)

    def topics_created(self) -> int:
        """How many topics have ever come, as far as this machine knows."""
        return image.topics_created(self.tables.metadata, self.id)

    def all_topics(self) -> list[Topic]:
        """Every topic of the machine's metadata image, by name."""
        return image.all_topics(self.tables.metadata, self.id)

    def min_in_sync(self, topic: Topic, partition: int) -> int:
        """min.insync.replicas of a partition, at most the number of its replicas."""
        given = topic.configs.get(MIN_IN_SYNC)
        wanted = int(given) if given is not None else self.settings.min_insync_replicas
        return min(wanted, len(topic.partitions[partition].replicas))

    def is_alive(self, broker: int) -> bool:
        """Whether the controller counts a broker as alive, as far as this machine knows."""
        return not self.registration(broker).is_fenced

    def is_active(self, broker: int) -> bool:
        """Whether a broker is alive and not about to go: it may lead, and be in sync."""
        return self.registration(broker).is_active

    def is_replica_offline(self, partition: Partition, broker: int) -> bool:
        """Whether a replica lies in a log directory that has failed, as far as it is known."""
        return image.is_replica_offline(self.tables.metadata, self.id, partition, broker)

    def offline_replicas(self, partition: Partition, reached: Container[int]) -> list[int]:
        """Replicas that a client does not reach, or that lie in a directory that has failed."""
        return [
            each
            for each in partition.replicas
            if each not in reached or self.is_replica_offline(partition, each)
        ]

    def registration(self, broker: int) -> Registration:
        """What the controller says of a broker, as far as this machine knows."""
        return image.registration(self.tables.metadata, self.id, broker)

    def rack_of(self, broker: int) -> str | None:
        """The rack that a broker is in: as it has said, else as the settings say; None for none."""
        registered = self.registration(broker).rack
        if registered is not None:
            return registered
        for each in self.settings.brokertwin_broker_racks:
            of_broker, _, rack = each.partition(":")
            if int(of_broker) == broker:
                return rack
        return self.settings.broker_rack or None

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """Where a client reaches a broker that has come by a listener; None where it cannot.

        It is as the broker has said, of its first listener where nobody knows by which one the
        client came (""); of a broker that the settings name a placeholder for the edge, but by a
        listener that was opened while it runs.
        """
        known = self.registration(broker)
        if listener and known.listeners:
            return known.listeners.get(listener)
        if listener and any(each.name == listener for each in listeners.opened(self.settings)):
            return None
        if known.host:
            return known.host, known.port
        return placeholder(broker) if broker in self.cell.brokers else None

    def reached(self, listener: str, brokers: Iterable[int]) -> dict[int, Endpoint]:
        """Those of the brokers that a client reaches that has come by a listener, and where."""
        found = ((broker, self.endpoint(broker, listener)) for broker in brokers)
        return {broker: endpoint for broker, endpoint in found if endpoint is not None}

    @property
    def brokers(self) -> list[int]:
        """The brokers of the cluster: those of the settings, then others that have registered."""
        told = image.brokers_told(self.tables.metadata, self.id)
        return [*self.cell.brokers, *(each for each in told if each not in self.cell.brokers)]

    def alive_brokers(self) -> list[int]:
        """The brokers of the cluster that are alive; a list that is only read."""
        if self._alive is None:
            self._alive = [broker for broker in self.brokers if self.is_alive(broker)]
        return self._alive

    def registered_brokers(self) -> list[int]:
        """The brokers that the controller knows, alive or not."""
        return [each for each in self.brokers if self.registration(each).is_registered]


class Broker(Machine):
    """A broker: the logs it leads, its producers, sessions, groups and waiting requests.

    `told_at` is when another cell hears of it at the earliest, in ms since 1970: the time of the
    event, which is later than `now` where something due before the event happens. A time-out of who
    waits for another cell counts from there. Where one cell holds all it is `now`.
    """

    def __init__(
        self,
        broker: int,
        tables: Tables,
        settings: CellSettings,
        now: int,
        event_time: int | None = None,
    ) -> None:
        super().__init__(broker, tables, settings, now)
        self.told_at = event_time if settings.cells and event_time is not None else now
        self.failed_dirs = failed_dirs.of(tables.replication, broker)

    def log(self, topic_id: Uuid, partition: int) -> Log | None:
        """The log of a partition that this broker holds, and can read."""
        found = self.held_log(topic_id, partition)
        is_lost = self.failed_dirs and found is not None and self._is_failed(found)
        return None if is_lost else found

    def held_log(self, topic_id: Uuid, partition: int) -> Log | None:
        """The log of a partition, also where its directory has failed."""
        return self.tables.logs.get(log.log_key(self.id, topic_id, partition), Log)

    def has_lost(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the log of a partition lies in a directory that has failed: 56."""
        if not self.failed_dirs:  # nearly always
            return False
        found = self.held_log(topic_id, partition)
        return found is not None and self._is_failed(found)

    def storage_error(self, topic_id: Uuid, partition: int) -> Error:
        """Why there is no log of a partition: its directory has failed, or it is no replica."""
        is_lost = self.has_lost(topic_id, partition)
        return Error.KAFKA_STORAGE_ERROR if is_lost else Error.NOT_LEADER_OR_FOLLOWER

    def _is_failed(self, found: Log) -> bool:
        return (found.directory or self.log_dirs[0]) in self.failed_dirs

    @property
    def log_dirs(self) -> list[str]:
        """The log directories, failed ones, too; the first is that of logs without a place."""
        return log_dirs.of(self.settings)

    @property
    def live_dirs(self) -> list[str]:
        """Those that have not failed."""
        return [each for each in self.log_dirs if each not in self.failed_dirs]

    @property
    def cordoned_dirs(self) -> list[str]:
        """Those that get no new logs."""
        return log_dirs.cordoned(self.settings)

    def leader_error(self, partition: Partition, current_leader_epoch: int) -> Error:
        """Why this broker does not serve a partition: 74 or 75 for its epoch, 6, or NONE.

        In Kafka's order (`Partition.checkCurrentLeaderEpoch`, then leadership).
        """
        error = self.epoch_error(partition, current_leader_epoch)
        if error is NONE and partition.leader != self.id:
            return Error.NOT_LEADER_OR_FOLLOWER
        return error

    def epoch_error(self, partition: Partition, current_leader_epoch: int) -> Error:
        """Why who names this leader epoch is not served, by the leader or by a follower."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < partition.leader_epoch:
                return Error.FENCED_LEADER_EPOCH
            if current_leader_epoch > partition.leader_epoch:
                return Error.UNKNOWN_LEADER_EPOCH
        return NONE

    @property
    def epoch(self) -> int:
        """The epoch in which the broker is registered, as far as it knows."""
        return self.registration(self.id).epoch

    def log_key(self, topic_id: Uuid, partition: int) -> str:
        """The key of a partition's log, by which requests wait for it."""
        return log.log_key(self.id, topic_id, partition)


class Controller(Machine):
    """The controller: topics, brokers and blocks of producer ids of its cluster."""

    def __init__(self, tables: Tables, settings: CellSettings, now: int) -> None:
        super().__init__(CONTROLLER, tables, settings, now)

    def is_of_epoch(self, broker: int, epoch: int) -> bool:
        """Whether a broker is registered in this epoch (`checkBrokerEpoch`); else 77."""
        return broker in self.registered_brokers() and self.registration(broker).epoch == epoch

    def usable_brokers(self) -> Usable:
        """The brokers that may get partitions: none that is about to go, or has cordoned all."""
        there = [each for each in self.registered_brokers() if self._takes_logs(each)]
        fenced = [broker for broker in there if not self.is_alive(broker)]
        racks = {broker: rack for broker in there if (rack := self.rack_of(broker)) is not None}
        return Usable([broker for broker in there if self.is_active(broker)], fenced, racks)

    def _takes_logs(self, broker: int) -> bool:
        given = self.cell.broker_settings
        metadata = self.tables.metadata
        return log_dirs.takes_logs(broker_configs.settings_of(metadata, CONTROLLER, broker, given))

    def min_in_sync_for_eligible(self, topic: Topic) -> int | None:
        """With fewer in sync replicas become eligible; None where the cluster has none of these.

        As in Kafka the number of replicas is that of the first partition
        (`ReplicationControlManager.getTopicEffectiveMinIsr`).
        """
        return self.min_in_sync(topic, 0) if self.settings.has_eligible_replicas else None

    def may_elect_unclean(self, topic: Topic) -> bool:
        """Whether a replica that is not in sync may lead: records are lost then."""
        name = "unclean.leader.election.enable"
        return value_of(name, topic.configs, self.settings) is True
