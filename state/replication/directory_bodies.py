"""What a broker tells the controller of its log directories: two requests' bodies.

Their handlers are in `state/apis/broker_heartbeat.py` and `assign_replicas_to_dirs.py`.
"""

from brokertwin.state.core.schema import Body, Int32, Int64, Uuid


class AssignedPartition(Body):
    """A partition whose replica lies there."""

    partition_index: Int32


class AssignedTopic(Body):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[AssignedPartition] = []


class AssignedDirectory(Body):
    """A log directory, and what lies there."""

    id: Uuid
    topics: list[AssignedTopic] = []


class AssignReplicasToDirsRequest(Body):
    """Where replicas of a broker lie."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[AssignedDirectory] = []


class BrokerHeartbeatRequest(Body):
    """Who is alive, how far it has read the metadata, what it wants, and what has failed."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = []
