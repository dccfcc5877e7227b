"""Log directories that fail: what the broker does, and what the controller makes of it.

Source: KIP-112, KIP-858; `ReplicaManager.handleLogDirFailure`, `LogManager.handleLogDirFailure`,
`AssignmentsManager`, `BrokerLifecycleManager.propagateDirectoryFailure`,
`ReplicationControlManager.handleDirectoriesOffline` and `handleAssignReplicasToDirs` in Kafka.

A broker with several log directories tells the controller in which of them each of its replicas
lies (AssignReplicasToDirs). When one fails, what lies there is answered with 56
KAFKA_STORAGE_ERROR, and the next heartbeat names it; the controller takes these replicas out of
the in-sync sets, elects others, and elects nobody whose directory has failed. Until the broker
starts again it does not look at the directory; then all is there as it was.

    the directory of the metadata log fails, or the last one     the broker halts
    another one                                                  the broker goes on with the others

A broker with one directory says nothing of where its replicas lie: it halts with it. Directories
have ids, which clients never see.
"""

from collections.abc import Callable, Iterable, Iterator

from brokertwin.state.cluster import failed_dirs, topics
from brokertwin.state.cluster.image import Partition, is_dir_online
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.records import BrokerRegistrationChanged, LogPlaced, Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import disk, elections
from brokertwin.state.replication.directory_bodies import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
)
from brokertwin.state.replication.registrations import State
from brokertwin.state.replication.throttles import Place

_ANY_OFFSET = -1
"""In a heartbeat that names directories: the broker does not say how far it has read."""


def directory_id(cell: CellSettings, broker: int, path: str) -> Uuid:
    """The id of a log directory of a broker that the settings name."""
    first = cell.broker_settings.log_dirs[:1]
    names = ["directory", cell.cluster, str(broker)]
    return topics.derive_uuid(*names, *(() if path in first else (path,)))


def refusal(broker: Broker, path: str) -> str | None:
    """Why a log directory cannot fail; None where it can."""
    alive = broker.live_dirs
    if path in alive:
        return None
    return f"broker {broker.id} has no log directory {path!r}; those that have not failed: {alive}"


def is_fatal(broker: Broker, path: str) -> bool:
    """Whether a broker halts when a directory fails: its metadata lies there, or it is the last."""
    metadata_dir = broker.settings.given.get("metadata.log.dir") or broker.log_dirs[0]
    return path == metadata_dir or broker.live_dirs == [path]


def fail(broker: Broker, path: str) -> list[Place]:
    """A directory of a broker fails; the partitions whose logs lie there."""
    failed_dirs.note(broker.tables.replication, broker.id, path)
    broker.failed_dirs = failed_dirs.of(broker.tables.replication, broker.id)
    places = [_place_of(each) for each in disk.logs_of(broker)]
    return [each for each in places if broker.has_lost(*each)]


def _place_of(log: Log) -> Place:
    return log.topic_id, log.partition


def told(broker: Broker) -> list[Message]:
    """What the broker tells the controller when a directory has failed."""
    offline = [directory_id(broker.cell, broker.id, each) for each in broker.failed_dirs]
    body = BrokerHeartbeatRequest(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        current_metadata_offset=_ANY_OFFSET,
        offline_log_dirs=offline,
    )
    return [
        *assignments(broker),
        Message(broker.id, CONTROLLER, kafka_apis.BROKER_HEARTBEAT.key, body),
    ]


def assignments(broker: Broker, topic_ids: Iterable[Uuid] | None = None) -> list[Message]:
    """Where replicas lie of which the broker has read nothing, or that they lie elsewhere.

    Of some topics, or of all.
    """
    if len(broker.cell.broker_settings.log_dirs) < 2:
        return []
    return _assign(broker, [(_place_of(log), path) for log, path in _misplaced(broker, topic_ids)])


def moves(broker: Broker, moved: Iterable[LogPlaced]) -> list[Message]:
    """Where logs lie that have just moved."""
    return _assign(broker, [((each.topic_id, each.partition), each.directory) for each in moved])


def _assign(broker: Broker, found: Iterable[tuple[Place, str]]) -> list[Message]:
    wanted: dict[str, dict[Uuid, list[int]]] = {}
    for (topic_id, number), path in found:
        wanted.setdefault(path, {}).setdefault(topic_id, []).append(number)
    if not wanted:
        return []
    directories = [
        AssignedDirectory(
            id=directory_id(broker.cell, broker.id, path),
            topics=[
                AssignedTopic(
                    topic_id=topic_id,
                    partitions=[AssignedPartition(partition_index=each) for each in numbers],
                )
                for topic_id, numbers in of_topics.items()
            ],
        )
        for path, of_topics in wanted.items()
    ]
    body = AssignReplicasToDirsRequest(
        broker_id=broker.id, broker_epoch=broker.epoch, directories=directories
    )
    return [Message(broker.id, CONTROLLER, kafka_apis.ASSIGN_REPLICAS_TO_DIRS.key, body)]


def _misplaced(broker: Broker, topic_ids: Iterable[Uuid] | None) -> Iterator[tuple[Log, str]]:
    ids = topic_ids if topic_ids is not None else [t.topic_id for t in broker.all_topics()]
    for topic_id in ids:
        topic = broker.topic_by_id(topic_id)
        for number, partition in enumerate(topic.partitions if topic is not None else ()):
            log = broker.held_log(topic_id, number)
            if log is None:
                continue
            known, path = partition.directories.get(broker.id), disk.directory_of(broker, log)
            if known != directory_id(broker.cell, broker.id, path):
                yield log, path


def online(controller: Controller, broker: int) -> list[Uuid]:
    """The ids of a broker's directories that are there, as far as the controller knows."""
    known = controller.registration(broker).log_dirs
    if known or broker not in controller.cell.brokers:
        return known
    paths = controller.cell.broker_settings.log_dirs
    return [directory_id(controller.cell, broker, path) for path in paths]


def offline(
    controller: Controller, broker: int, named: Iterable[Uuid], state: State
) -> list[Record]:
    """What the controller writes when a broker in this state says that directories have failed.

    A broker that has none left is known with those that it had: it halts anyway.
    """
    there, gone = online(controller, broker), set(named)
    new = [each for each in there if each in gone]
    if not new:
        return []
    records: list[Record] = []
    for directory in new:
        records += elections.without_replicas(controller, broker, _lying_at(broker, directory))
    left = [each for each in there if each not in gone]
    is_leaving = state is State.CONTROLLED_SHUTDOWN
    return [*records, BrokerRegistrationChanged(broker, state.is_fenced, is_leaving, left)]


def _lying_at(broker: int, directory: Uuid) -> Callable[[Place, Partition], bool]:
    return lambda _place, partition: partition.directories.get(broker) == directory


def has(controller: Controller, broker: int, directory: Uuid) -> bool:
    """Whether a directory of a broker is there (`BrokerRegistration.hasOnlineDir`)."""
    return is_dir_online(online(controller, broker), directory)
