"""The body of CreateTopics.

Source: `CreateTopicsRequest.json` in Kafka.
"""

from msgspec import field

from brokertwin.state.core.schema import Body, Int16, Int32

BY_DEFAULT = -1
"""The broker's default of `numPartitions` and `replicationFactor`."""


class ReplicaAssignment(Body):
    """Requested brokers of a partition."""

    partition_index: Int32
    broker_ids: list[Int32] = field(default_factory=list)


class CreatableConfig(Body):
    """A setting of a new topic."""

    name: str
    value: str | None = None


class CreatableTopic(Body):
    """A topic to create."""

    name: str
    num_partitions: Int32 = BY_DEFAULT
    replication_factor: Int16 = BY_DEFAULT
    assignments: list[ReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableConfig] = field(default_factory=list)


class CreateTopicsRequest(Body):
    """The topics to create."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = False
