"""Writing rows of ours to a topic outside Spark: in order, and none lost without a word."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topics import writer_configuration
from brokertwin.wording import counted

FLUSH_S = 60.0
AT_ONCE = "Unable to produce message: "


class NewRow(NamedTuple):
    """A row to be written; the header `id` is written where there is one."""

    key: str
    value: bytes
    partition: int
    id: str = ""


class TopicWriter:
    """Writes rows to a topic in their order; what became of each comes later.

    Args:
        client: how to reach Kafka.
        topic: its full name.
        on_delivered: called for each row that Kafka has taken.
        on_failed: called, with Kafka's reason, for each that it has not.
    """

    def __init__(
        self,
        client: ClientProperties,
        topic: str,
        on_delivered: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._producer = Producer(writer_configuration(client))
        self._topic = topic
        self._on_delivered = on_delivered
        self._on_failed = on_failed

    def write(self, row: NewRow) -> None:
        """Hand over a row; where the producer's buffer is full, once there is room."""
        headers: dict[str, str | bytes | None] = {ID_HEADER: row.id.encode()} if row.id else {}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=row.key,
                    value=row.value,
                    partition=row.partition,
                    headers=headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(1)
            else:
                self._producer.poll(0)
                return

    def poll(self) -> None:
        """Hear what became of rows that were handed over."""
        self._producer.poll(0)

    def flush(self) -> int:
        """Wait until Kafka has everything; gives back how many rows have no answer yet."""
        return self._producer.flush(FLUSH_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._on_delivered()
        else:
            self._on_failed(reason_of(error))


def reason_of(error: KafkaError) -> str:
    """Kafka's words for why a row was not taken.

    The same whether the producer says it at once, where it knows the topic already, or later in the
    delivery report: librdkafka puts words of its own before the first.
    """
    return error.str().removeprefix(AT_ONCE)


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

    def delivered() -> None:
        nonlocal taken
        taken += 1
        on_delivered()

    writer = TopicWriter(client, topic, delivered, failures.append)
    for row in rows:
        writer.write(row)
    left = writer.flush()
    if left or failures:
        reason = failures[0] if failures else "no response"
        raise UserError(
            f"Kafka did not accept {counted(left + len(failures), 'event')}: {reason}.",
            f"It accepted {taken:,}.",
        )
