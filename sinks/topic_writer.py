"""Writing rows to a topic outside Spark: in order, with an error for each lost row."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, made
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topics import writer_configuration
from brokertwin.state.core.packs import PACK_BYTES_MAX, packed
from brokertwin.wording import counted

FLUSH_S = 60.0
AT_ONCE = "Unable to produce message: "


class NewRow(NamedTuple):
    """A new row; a non-empty `id` is written as a header."""

    key: str
    value: bytes
    partition: int
    id: str = ""


class TopicWriter:
    """Writes rows to a topic in order; delivery reports follow later.

    Args:
        client: connection properties.
        topic: full topic name.
        on_delivered: called for each delivered row.
        on_failed: called with Kafka's reason for each failed row.
    """

    def __init__(
        self,
        client: ClientProperties,
        topic: str,
        on_delivered: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._producer = made(Producer, writer_configuration(client))
        self._topic = topic
        self._on_delivered = on_delivered
        self._on_failed = on_failed

    def write(self, row: NewRow) -> None:
        """Queue a row; wait if the producer's queue is full."""
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
        self._producer.poll(0)

    def flush(self) -> int:
        """Wait until all rows are delivered; return the number of pending ones."""
        return self._producer.flush(FLUSH_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._on_delivered()
        else:
            self._on_failed(reason_of(error))


def reason_of(error: KafkaError) -> str:
    """Return Kafka's error message for a failed row.

    librdkafka adds a prefix to immediate errors, which is removed here, so the message is the same
    as in a delivery report.
    """
    return error.str().removeprefix(AT_ONCE)


def in_packs(rows: Iterable[NewRow], events_max: int) -> Iterator[NewRow]:
    """Pack up to `events_max` events of a cell into one row, in the order of each cell."""
    return map(pack_of, packs(rows, events_max))


def packs(rows: Iterable[NewRow], events_max: int) -> Iterator[list[NewRow]]:
    """Yield the events of each pack."""
    waiting: dict[str, list[NewRow]] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        pack, size = waiting.setdefault(row.key, []), sizes.get(row.key, 0) + len(row.value)
        if pack and size > PACK_BYTES_MAX:
            yield pack
            waiting[row.key] = pack = []
            size = len(row.value)
        pack.append(row)
        sizes[row.key] = size
        if len(pack) == events_max:
            yield pack
            del waiting[row.key], sizes[row.key]
    yield from waiting.values()


def pack_of(events: list[NewRow]) -> NewRow:
    """Return one row of several events, with the id of the first."""
    if len(events) == 1:
        return events[0]
    return events[0]._replace(value=packed(event.value for event in events))


def write_all(client: ClientProperties, topic: str, rows: Iterable[NewRow]) -> None:
    """Write rows in order and wait for delivery. Raises UserError if some rows failed."""
    failures: list[str] = []
    taken = 0

    def delivered() -> None:
        nonlocal taken
        taken += 1

    writer = TopicWriter(client, topic, delivered, failures.append)
    for row in rows:
        writer.write(row)
    left = writer.flush()
    if left or failures:
        reason = failures[0] if failures else "no response"
        raise UserError(
            f"Kafka did not accept {counted(left + len(failures), 'row')}: {reason}.",
            f"It accepted {taken:,}.",
        )
