"""Failed log directories: reactions of the broker and the controller.

Source: KIP-112, KIP-858; `ReplicaManager.handleLogDirFailure`, `LogManager.handleLogDirFailure`,
`AssignmentsManager`, `BrokerLifecycleManager.propagateDirectoryFailure`,
`ReplicationControlManager.handleDirectoriesOffline` and `handleAssignReplicasToDirs` in Kafka.

A broker with several log directories reports the directory of each replica to the controller
(AssignReplicasToDirs). After a failure, the replicas in the directory return
56 KAFKA_STORAGE_ERROR, and the next heartbeat reports the directory. The controller removes these
replicas from the in-sync sets, elects other leaders, and elects no replica in a failed directory.
After a restart of the broker the directory is back with its content.

    the directory of the metadata log fails, or the last one     the broker halts
    another one fails                                            the broker continues without it

A broker with one directory reports nothing, because it halts with the directory. Directories have
ids, which clients never see.
"""

from collections.abc import Callable, Iterable, Iterator

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from brokertwin.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from brokertwin.state.cluster import failed_dirs, topics
from brokertwin.state.cluster.image import Partition, is_dir_online
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.records import BrokerRegistrationChanged, LogPlaced, Record
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import disk, elections
from brokertwin.state.replication.registrations import BrokerControlState
from brokertwin.state.replication.throttles import Place

_ANY_OFFSET = -1
"""In a heartbeat that reports directories: the offset is not checked."""


def directory_id(cell: CellSettings, broker: int, path: str) -> Uuid:
    first = cell.broker_settings.log_dirs[:1]
    names = ["directory", cell.cluster, str(broker)]
    return topics.derive_uuid(*names, *(() if path in first else (path,)))


def refusal(broker: Broker, path: str) -> str | None:
    """Why a log directory cannot fail, or None."""
    alive = broker.live_dirs
    if path in alive:
        return None
    return f"broker {broker.id} has no log directory {path!r}; those that have not failed: {alive}"


def is_fatal(broker: Broker, path: str) -> bool:
    """True if the broker halts with a directory: it has the metadata, or is the last one."""
    metadata_dir = broker.settings.given.get("metadata.log.dir") or broker.log_dirs[0]
    return path == metadata_dir or broker.live_dirs == [path]


def fail(broker: Broker, path: str) -> list[Place]:
    """Fail a directory; returns the partitions in it."""
    failed_dirs.note(broker, path)
    broker.failed_dirs = failed_dirs.of(broker)
    places = [_place_of(each) for each in disk.logs_of(broker)]
    return [each for each in places if broker.has_lost(*each)]


def _place_of(log: Log) -> Place:
    return log.topic_id, log.partition


def heartbeat_request(broker: Broker) -> list[Message]:
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
    """Report replicas whose directory differs from the broker's metadata.

    Of some topics, or of all.
    """
    if len(broker.cell.broker_settings.log_dirs) < 2:
        return []
    return _assign(broker, [(_place_of(log), path) for log, path in _misplaced(broker, topic_ids)])


def moves(broker: Broker, moved: Iterable[LogPlaced]) -> list[Message]:
    return _assign(broker, [((each.topic_id, each.partition), each.directory) for each in moved])


def _assign(broker: Broker, places: Iterable[tuple[Place, str]]) -> list[Message]:
    wanted: dict[str, dict[Uuid, list[int]]] = {}
    for (topic_id, number), path in places:
        wanted.setdefault(path, {}).setdefault(topic_id, []).append(number)
    if not wanted:
        return []
    directories = [
        AssignReplicasToDirsRequestDirectoryData(
            id=directory_id(broker.cell, broker.id, path),
            topics=[
                AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=[
                        AssignReplicasToDirsRequestPartitionData(partition_index=each)
                        for each in numbers
                    ],
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
            directory, path = partition.directories.get(broker.id), disk.directory_of(broker, log)
            if directory != directory_id(broker.cell, broker.id, path):
                yield log, path


def online(controller: Controller, broker: int) -> list[Uuid]:
    """Ids of a broker's live directories, as the controller knows them."""
    log_dirs = controller.registration(broker).log_dirs
    if log_dirs or broker not in controller.cell.brokers:
        return log_dirs
    paths = controller.cell.broker_settings.log_dirs
    return [directory_id(controller.cell, broker, path) for path in paths]


def offline(
    controller: Controller, broker: int, named: Iterable[Uuid], state: BrokerControlState
) -> list[Record]:
    """Records of the controller after a heartbeat with failed directories.

    If none is left, the registration keeps the former ones: the broker halts anyway.
    """
    there, failed = online(controller, broker), set(named)
    new = [each for each in there if each in failed]
    if not new:
        return []
    records: list[Record] = []
    for directory in new:
        records += elections.lost_replica_changes(controller, broker, _is_in(broker, directory))
    left = [each for each in there if each not in failed]
    is_leaving = state is BrokerControlState.CONTROLLED_SHUTDOWN
    return [*records, BrokerRegistrationChanged(broker, state.is_fenced, is_leaving, left)]


def _is_in(broker: int, directory: Uuid) -> Callable[[Place, Partition], bool]:
    return lambda _place, partition: partition.directories.get(broker) == directory


def has(controller: Controller, broker: int, directory: Uuid) -> bool:
    """True if a directory of a broker is online (`BrokerRegistration.hasOnlineDir`)."""
    return is_dir_online(online(controller, broker), directory)
