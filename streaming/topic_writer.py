"""Writing rows of ours to a topic outside Spark: in order, and none lost without a word."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from brokerstream.errors import UserError
from brokerstream.streaming.kafka_clients import ClientProperties
from brokerstream.streaming.topic_reader import ID_HEADER
from brokerstream.streaming.topics import writer_configuration

FLUSH_S = 60.0


class NewRow(NamedTuple):
    """A row to be written; the header `id` is written where there is one."""

    key: str
    value: bytes
    partition: int
    id: str = ""


def write_all(
    client: ClientProperties,
    topic: str,
    rows: Iterable[NewRow],
    on_delivered: Callable[[], None] = lambda: None,
) -> None:
    """Write rows in their order and wait until Kafka has them.

    Args:
        client: how to reach Kafka.
        topic: its full name.
        rows: what to write.
        on_delivered: called for each row that Kafka has taken.

    Raises:
        UserError: Kafka did not take all of them.
    """
    failures: list[str] = []
    taken = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal taken
        if error is not None:
            failures.append(error.str())
            return
        taken += 1
        on_delivered()

    producer = Producer(writer_configuration(client))
    for row in rows:
        _write(producer, topic, row, delivered)
    left = producer.flush(FLUSH_S)
    if left or failures:
        reason = failures[0] if failures else "no answer"
        raise UserError(
            f"{left + len(failures)} events were not taken by Kafka: {reason}.",
            f"{taken} were.",
        )


def _write(
    producer: Producer,
    topic: str,
    row: NewRow,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Hand over one row; where the producer's buffer is full, once there is room."""
    headers: dict[str, str | bytes | None] = {ID_HEADER: row.id.encode()} if row.id else {}
    while True:
        try:
            producer.produce(
                topic,
                key=row.key,
                value=row.value,
                partition=row.partition,
                headers=headers,
                on_delivery=delivered,
            )
        except BufferError:
            producer.poll(1)
        else:
            producer.poll(0)
            return
