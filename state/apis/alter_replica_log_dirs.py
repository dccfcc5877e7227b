"""AlterReplicaLogDirs (key 34, versions 1 to 2): move logs on a broker.

Source: KIP-113; `ReplicaManager.alterReplicaLogDirs`, `LogManager.maybeUpdatePreferredLogDir` in
Kafka; responses of 4.3.1. For each partition, in this order:

    no ALTER on the cluster                       31 CLUSTER_AUTHORIZATION_FAILED
    topic name too long for a moving log          17 INVALID_TOPIC_EXCEPTION
    unknown directory                             57 LOG_DIR_NOT_FOUND
    cordoned directory                            39 INVALID_REPLICA_ASSIGNMENT
    the directory or the current one has failed   56 KAFKA_STORAGE_ERROR
    the broker has no such replica                3 UNKNOWN_TOPIC_OR_PARTITION; until the broker
                                                  stops, a new replica is created in the directory
    the log would move, any directory has failed  56 KAFKA_STORAGE_ERROR

The move takes effect at once; Kafka copies the log and lets it catch up. If a partition is listed
for two directories, the last one applies.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import LogPlaced
from brokertwin.state.replication import directories, disk

FILE_NAME_MAX = 255
FUTURE_SUFFIX = 40
"""Length of a moving log's suffix: a dot, 32 digits and `-future`."""


def handle(broker: Broker, request: Request) -> Decision:
    """Move the logs that pass the checks."""
    body: AlterReplicaLogDirsRequest = request.body
    moves: dict[str, dict[int, str]] = {}
    for directory in body.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                moves.setdefault(topic.name, {})[partition] = directory.path
    is_denied = not broker.allows_cluster(request, Operation.ALTER)
    records: list[LogPlaced] = []
    results = [
        AlterReplicaLogDirTopicResult(
            topic_name=name,
            partitions=[
                AlterReplicaLogDirPartitionResult(
                    partition_index=partition,
                    error_code=Error.CLUSTER_AUTHORIZATION_FAILED
                    if is_denied
                    else _move(broker, name, partition, path, records),
                )
                for partition, path in paths.items()
            ],
        )
        for name, paths in moves.items()
    ]
    response = AlterReplicaLogDirsResponse(results=results)
    return Decision(
        records=list(records), response=response, messages=directories.moves(broker, records)
    )


def _move(broker: Broker, name: str, partition: int, path: str, records: list[LogPlaced]) -> Error:
    if len(f"{name}-{partition}") + FUTURE_SUFFIX > FILE_NAME_MAX:
        return Error.INVALID_TOPIC_EXCEPTION
    if path not in broker.log_dirs:
        return Error.LOG_DIR_NOT_FOUND
    if path in broker.cordoned_dirs:
        return Error.INVALID_REPLICA_ASSIGNMENT
    topic = broker.topic_by_name(name)
    is_lost = topic is not None and broker.has_lost(topic.topic_id, partition)
    if path in broker.failed_dirs or is_lost:
        return Error.KAFKA_STORAGE_ERROR
    log = broker.log(topic.topic_id, partition) if topic is not None else None
    if topic is None or log is None:
        disk.request_directory(broker, name, partition, path)
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if disk.directory_of(broker, log) != path:
        if broker.failed_dirs:
            return Error.KAFKA_STORAGE_ERROR
        records.append(LogPlaced(topic.topic_id, partition, path))
    return Error.NONE


API = Api(kafka_apis.ALTER_REPLICA_LOG_DIRS, handle)
