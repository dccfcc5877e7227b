"""Creation of internal topics.

A broker creates an internal topic at the first FindCoordinator, or at a Metadata of a client that
may create topics. Kafka uses the configured replication factor and fails with fewer brokers. Here
it is at most the number of brokers, so that one broker works with Kafka's default of 3.

Source: `DefaultAutoTopicCreationManager` in Kafka.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.core.decision import CONTROLLER, Message

_PREFIXES = {
    GROUP_TOPIC: "offsets.topic",
    TRANSACTION_TOPIC: "transaction.state.log",
    SHARE_TOPIC: "share.coordinator.state.topic",
}


def creation(machine: Machine, names: list[str]) -> list[Message]:
    if not names:
        return []
    body = CreateTopicsRequest(topics=[_new_topic(machine, name) for name in names])
    return [Message(machine.id, CONTROLLER, kafka_apis.CREATE_TOPICS.key, body)]


def on_first_use(machine: Machine) -> list[str]:
    """The offsets topic, if OffsetCommit and OffsetFetch create it and it does not exist."""
    creates = machine.settings.brokertwin_create_offsets_topic
    return [GROUP_TOPIC] if creates and machine.topic_by_name(GROUP_TOPIC) is None else []


def _new_topic(machine: Machine, name: str) -> CreatableTopic:
    prefix = _PREFIXES.get(name)
    if prefix is None:
        return CreatableTopic(name=name)
    factor = int(_setting(machine, f"{prefix}.replication.factor"))
    return CreatableTopic(
        name=name,
        num_partitions=int(_setting(machine, f"{prefix}.num.partitions")),
        replication_factor=min(factor, len(machine.cell.brokers)),
        configs=[
            CreatableTopicConfig(name=key, value=value)
            for key, value in _configs(machine, name, prefix)
        ],
    )


def _configs(machine: Machine, name: str, prefix: str) -> list[tuple[str, str]]:
    size = _setting(machine, f"{prefix}.segment.bytes")
    if name == GROUP_TOPIC:
        return [
            ("cleanup.policy", "compact"),
            ("segment.bytes", size),
            ("compression.type", "producer"),
        ]
    in_sync = _setting(machine, f"{prefix}.min.isr")
    if name == TRANSACTION_TOPIC:
        return [
            ("unclean.leader.election.enable", "false"),
            ("compression.type", "uncompressed"),
            ("cleanup.policy", "compact"),
            ("min.insync.replicas", in_sync),
            ("segment.bytes", size),
        ]
    return [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("segment.bytes", size),
        ("min.insync.replicas", in_sync),
        ("retention.ms", "-1"),
    ]


def _setting(machine: Machine, name: str) -> str:
    """A broker's setting as text: typed, else given, else Kafka's default."""
    typed = getattr(machine.settings, name.replace(".", "_"), None)
    if typed is not None:
        return str(typed)
    return machine.settings.given.get(name) or KAFKA_SETTINGS[name].default or ""
