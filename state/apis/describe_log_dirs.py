"""DescribeLogDirs (key 35, versions 1 to 5): directories and log sizes.

Source: KIP-113, KIP-827; `KafkaApis.handleDescribeLogDirsRequest`, `ReplicaManager.describeLogDirs`
in Kafka.

    no DESCRIBE on the cluster      31 CLUSTER_AUTHORIZATION_FAILED, included from version 3
    the directory has failed        56 KAFKA_STORAGE_ERROR, without its logs

Partitions without a replica on the broker are omitted. There are no files: the size of a log is the
size of its batches, the size of the disk is unknown (-1), and no replica is moving to another
directory. `state/replication/disk.py` assigns logs to directories.
"""

from collections.abc import Iterator

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.logs import rolling
from brokertwin.state.logs.log import Log


def handle(broker: Broker, request: Request) -> Decision:
    body: DescribeLogDirsRequest = request.body
    if not broker.allows_cluster(request, Operation.DESCRIBE):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    requested = None
    if body.topics is not None:
        requested = {(each.topic, number) for each in body.topics for number in each.partitions}
    names = broker.log_dirs
    by_dir: dict[str, dict[str, list[DescribeLogDirsPartition]]] = {name: {} for name in names}
    for log in _logs(broker, requested):
        size = rolling.size_in_bytes(log)
        described = DescribeLogDirsPartition(partition_index=log.partition, partition_size=size)
        of_directory = by_dir.setdefault(log.directory or names[0], {})
        of_directory.setdefault(log.topic, []).append(described)
    cordoned = broker.cordoned_dirs
    results = [
        DescribeLogDirsResult(
            error_code=Error.KAFKA_STORAGE_ERROR if name in broker.failed_dirs else Error.NONE,
            log_dir=name,
            topics=[
                DescribeLogDirsTopic(name=topic, partitions=logs) for topic, logs in topics.items()
            ],
            is_cordoned=name in cordoned,
        )
        for name, topics in by_dir.items()
    ]
    return Decision(response=DescribeLogDirsResponse(results=results))


def _logs(broker: Broker, requested: set[tuple[str, int]] | None) -> Iterator[Log]:
    """Yield the requested logs of the broker, by topic and partition."""
    for topic in broker.all_topics():
        for number in range(len(topic.partitions)):
            log = broker.log(topic.topic_id, number)
            if log is not None and (requested is None or (topic.name, number) in requested):
                yield log


API = Api(kafka_apis.DESCRIBE_LOG_DIRS, handle)
