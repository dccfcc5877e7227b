"""Offsets that an administrator commits for a group without members."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from brokertwin.offsets.group_offsets import NO_COORDINATOR_YET
from tests.support.patience import wait_until


def commit(
    bootstrap: str,
    group: str,
    topic: str,
    offset: int,
    partition: int = 0,
    changes: Mapping[str, str] | None = None,
) -> None:
    """Commit, as soon as the broker coordinates the group: it may have to make its topic first."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, **(changes or {})}
    consumer = Consumer(settings)

    def is_committed() -> bool:
        place = TopicPartition(topic, partition, offset)
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in NO_COORDINATOR_YET:
                return False
            raise
        return True

    wait_until(is_committed)
    consumer.close()
