"""Bodies of AssignReplicasToDirs and BrokerHeartbeat.

The handlers are in `state/apis/broker_heartbeat.py` and `assign_replicas_to_dirs.py`.
"""

from brokertwin.state.core.schema import Body, Int32, Int64, Uuid


class AssignedPartition(Body):
    """A partition with a replica in the directory."""

    partition_index: Int32


class AssignedTopic(Body):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[AssignedPartition] = []


class AssignedDirectory(Body):
    """A log directory and its replicas."""

    id: Uuid
    topics: list[AssignedTopic] = []


class AssignReplicasToDirsRequest(Body):
    """Directories of a broker's replicas."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[AssignedDirectory] = []


class BrokerHeartbeatRequest(Body):
    """A broker's metadata offset, wanted state and failed directories."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = []
