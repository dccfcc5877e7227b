"""Reading a topic of ours outside Spark, from its beginning to where it ends now."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    METADATA_POLL_S,
    admin_client,
    existing,
    quiet,
)

T = TypeVar("T")

ID_HEADER = "id"
POLL_MESSAGES = 1000
POLL_S = 0.1
NO_LEADER_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class Row(NamedTuple):
    """A row of a topic. `id` is its header of that name, by which repeats are dropped."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    id: str


def consumer(client: ClientProperties, changes: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer that belongs to no group, commits nothing, and tells of a partition's end.

    Args:
        client: how to reach Kafka.
        changes: further settings by librdkafka's names.
    """
    return Consumer(
        {
            **quiet(client),
            "group.id": "brokertwin-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **(changes or {}),
        }
    )


def partitions_of(client: ClientProperties, topic: str) -> int:
    """How many partitions a topic has.

    Raises:
        UserError: there is no such topic, or Kafka does not answer.
    """
    found = existing(admin_client(client), client).get(topic)
    if found is None:
        raise UserError(
            f"Kafka at {client.bootstrap} has no topic {topic}.",
            "Check --prefix; `brokertwin run` creates the topics.",
        )
    return found


def end_offsets(reader: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """For each partition that holds rows the offset after its last."""
    found = {
        number: first_and_end(reader, TopicPartition(topic, number)) for number in range(partitions)
    }
    return {number: end for number, (first, end) in found.items() if end > first}


def first_and_end(reader: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """First and end offset; waits for the leader of a topic that was created a moment ago."""
    return when_there(
        lambda: reader.get_watermark_offsets(partition, KAFKA_TIMEOUT_S), NO_LEADER_YET
    )


def offsets_at(reader: Consumer, topic: str, partitions: int, since_ms: int) -> dict[int, int]:
    """For each partition that has a row of that time or later the offset of the first."""
    asked = [TopicPartition(topic, number, since_ms) for number in range(partitions)]
    found = reader.offsets_for_times(asked, KAFKA_TIMEOUT_S)
    return {each.partition: each.offset for each in found if each.offset >= 0}


def when_there(ask: Callable[[], T], not_yet: Collection[int]) -> T:
    """What Kafka answers once it has what a new topic or cluster has to get first.

    Raises:
        KafkaException: another error than those of `not_yet`, or one of them for too long.
    """
    deadline = time.monotonic() + KAFKA_TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in not_yet or time.monotonic() >= deadline:
                raise
        time.sleep(METADATA_POLL_S)


def read_all(
    client: ClientProperties,
    topic: str,
    first: Mapping[int, int] | None = None,
    observe: Callable[[int], None] = lambda _: None,
) -> Iterator[Row]:
    """Every row that is in the topic now, each partition in offset order.

    Args:
        client: how to reach Kafka.
        topic: its full name.
        first: for partitions that are not read from their beginning, where to begin.
        observe: is told first how many offsets are to be read, then how many are left.

    Raises:
        UserError: there is no such topic, or Kafka does not answer.
    """
    partitions = partitions_of(client, topic)
    with closing(consumer(client)) as reader:
        begun = first or {}
        ends = {
            number: end
            for number, end in end_offsets(reader, topic, partitions).items()
            if begun.get(number, 0) < end
        }
        starts = {number: begun.get(number, OFFSET_BEGINNING) for number in ends}
        reader.assign([TopicPartition(topic, number, at) for number, at in starts.items()])
        left = {number: end - max(starts[number], 0) for number, end in ends.items()}
        while ends:
            observe(sum(left.values()))
            for message in reader.consume(POLL_MESSAGES, POLL_S):
                at_end, row = is_end(message), row_of(message)
                end = ends.get(row.partition, 0)
                left[row.partition] = max(end - row.offset - 1, 0)
                if at_end or row.offset >= end - 1:
                    ends.pop(row.partition, None)
                if not at_end and row.offset < end:
                    yield row
        observe(0)


def is_end(message: Message) -> bool:
    """Whether this is no row but the news that a partition ends here.

    Raises:
        KafkaException: it is the news of an error.
    """
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def without_repeats(rows: Iterator[Row]) -> Iterator[Row]:
    """The rows without those whose id was there before: what a reader of our topics sees."""
    seen: set[str] = set()
    for row in rows:
        if row.id not in seen:
            seen.add(row.id)
            yield row


def row_of(message: Message) -> Row:
    """The row in a confluent-kafka message."""
    headers = dict(message.headers() or [])
    row_id = headers.get(ID_HEADER) or b""
    return Row(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        id=row_id.decode("utf-8", "replace") if isinstance(row_id, bytes) else row_id,
    )
