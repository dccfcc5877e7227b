"""The cluster of a run, without the proxy: its topic, the end of its transactions, its logs."""

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any, Literal

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from brokertwin.clients.partitions import TopicPartition
from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import quiet
from brokertwin.testing.auditor.workload import PARTITIONS, READERS, Log, RunNames, WorkKind

TIMEOUT_S = 30.0
FETCH_WAIT_MS = 20
"""The end of an empty partition is known after this time."""

SHARE_GROUP = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": "15000",
}
"""Settings of the share group of a run; the lock has Kafka's minimum."""


class ClusterLogs:
    """The topics and groups of a run; in a `with`, which deletes them.

    Raises:
        UserError: the topic cannot be created.
    """

    def __init__(self, address: str, names: RunNames) -> None:
        self._client: dict[str, Any] = quiet(ClientProperties({"bootstrap.servers": address}))
        self._names = names
        self._admin = AdminClient(self._client)

    def __enter__(self) -> "ClusterLogs":
        topics = (self._names.topic, self._names.output)
        new = [NewTopic(topic, num_partitions=PARTITIONS) for topic in topics]
        try:
            for future in self._admin.create_topics(new, request_timeout=TIMEOUT_S).values():
                future.result()
        except KafkaException as error:
            raise UserError(
                f"Cannot create topic {self._names.topic}: {error.args[0].str()}.",
                "Pass a broker that lets this user create topics.",
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        topics = self._admin.delete_topics(
            [self._names.topic, self._names.output], request_timeout=TIMEOUT_S
        )
        names = [self._names.group_of(each) for each in READERS]
        groups = self._admin.delete_consumer_groups(names, request_timeout=TIMEOUT_S)
        for future in (*topics.values(), *groups.values()):
            with suppress(KafkaException):  # a group may not exist, or still have a member
                future.result()

    def set_share_group(self) -> None:
        """Let the share group read committed records from the first one."""
        name = self._names.group_of(WorkKind.SHARE)
        entries = [
            ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET)
            for each in SHARE_GROUP.items()
        ]
        group = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=entries)
        (future,) = self._admin.incremental_alter_configs([group]).values()
        try:
            future.result()
        except KafkaException as error:
            raise UserError(
                f"Cannot set {', '.join(SHARE_GROUP)} of group {name}: {error.args[0].str()}.",
                "Pass a broker with share groups, or leave out `share` in --work.",
            ) from None

    def end_transactions(self, transactional_ids: Iterable[str]) -> None:
        """Abort open transactions, so that read_committed reads to the end."""
        for each in transactional_ids:
            producer = Producer({**self._client, "transactional.id": each})
            producer.init_transactions(TIMEOUT_S)

    def read(
        self, topic: str, isolation: Literal["read_committed", "read_uncommitted"]
    ) -> dict[TopicPartition, Log]:
        """Return the records of each partition, to its end."""
        logs: dict[TopicPartition, Log] = {
            TopicPartition(topic, number): [] for number in range(PARTITIONS)
        }
        settings = {
            "group.id": "exam-client-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "isolation.level": isolation,
        }
        with closing(Consumer({**self._client, **settings})) as reader:
            reader.assign([Place(*at, OFFSET_BEGINNING) for at in logs])
            open_ones = set(logs)
            while open_ones:
                message = reader.poll(TIMEOUT_S)
                if message is None:
                    raise UserError(
                        f"Cannot read topic {topic} to its end in {TIMEOUT_S:.0f} s.",
                        "Check that the broker is running.",
                    )
                number, offset, value = message.partition(), message.offset(), message.value()
                assert number is not None and offset is not None, "both are known of a message"
                at = TopicPartition(topic, number)
                error = message.error()
                if error is None:
                    logs[at].append((offset, (value or b"").decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ones.discard(at)
        return logs
