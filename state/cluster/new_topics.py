"""The body of a CreateTopics request: what a client, or a broker for its own topics, asks for.

Source: `CreateTopicsRequest.json` in Kafka.
"""

from msgspec import field

from brokertwin.state.core.schema import Body, Int16, Int32

BY_DEFAULT = -1
"""Stands for the broker's default in `numPartitions` and `replicationFactor`."""


class ReplicaAssignment(Body):
    """The brokers that a client wants for a partition."""

    partition_index: Int32
    broker_ids: list[Int32] = field(default_factory=list)


class Config(Body):
    """A setting that a client gives a topic."""

    name: str
    value: str | None = None


class NewTopic(Body):
    """A topic to create; -1 in both numbers stands for the broker's default."""

    name: str
    num_partitions: Int32 = BY_DEFAULT
    replication_factor: Int16 = BY_DEFAULT
    assignments: list[ReplicaAssignment] = field(default_factory=list)
    configs: list[Config] = field(default_factory=list)


class CreateTopicsRequest(Body):
    """The topics to create."""

    topics: list[NewTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = False
