"""Reading a topic outside Spark, from its beginning to its current end."""

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
from brokertwin.kafka_io.kafka_clients import ClientProperties, made
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    METADATA_POLL_S,
    admin_client,
    existing,
    quiet,
)
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.packs import is_packed, unpacked

T = TypeVar("T")

ID_HEADER = "id"
POLL_MESSAGES = 1000
POLL_S = 0.1
QUEUED_MESSAGES = 100_000
"""Messages that librdkafka reads ahead, in all partitions: its default is as many for each."""

READ_AHEAD = {"fetch.max.bytes": 4 * 1024 * 1024, "queued.max.messages.kbytes": 16 * 1024}
"""Small, because a short message takes several times its size in librdkafka's queue."""

NO_LEADER_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class TopicRow(NamedTuple):
    """A row of a topic. `id` is its header, by which repeats are dropped.

    Each event of a pack is read as a row, with its index in the pack; `id` contains it, too.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    id: str
    pack_index: int = 0

    @property
    def position(self) -> Position:
        return Position(self.partition, self.offset, self.timestamp, self.key, self.pack_index)


def consumer(client: ClientProperties, changes: Mapping[str, Any] | None = None) -> Consumer:
    """Create a consumer without a group that reports the end of partitions.

    `changes`: further settings by librdkafka's names.
    """
    return made(
        Consumer,
        {
            **quiet(client),
            "group.id": "brokertwin-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **(changes or {}),
        },
    )


def partitions_of(client: ClientProperties, topic: str) -> int:
    """Return the number of partitions of a topic.

    Raises:
        UserError: the topic does not exist, or Kafka does not respond.
    """
    count = existing(admin_client(client), client).get(topic)
    if count is None:
        raise UserError(
            f"Kafka at {client.bootstrap} has no topic {topic}.",
            "Check --prefix; `brokertwin run` creates the topics.",
        )
    return count


def end_offsets(reader: Consumer, topic: str, partitions: int) -> dict[int, int]:
    ends = {
        number: first_and_end(reader, TopicPartition(topic, number)) for number in range(partitions)
    }
    return {number: end for number, (first, end) in ends.items() if end > first}


def first_and_end(reader: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Return first and end offset; wait for the leader of a new topic."""
    return when_there(
        lambda: reader.get_watermark_offsets(partition, KAFKA_TIMEOUT_S), NO_LEADER_YET
    )


def offsets_at(reader: Consumer, topic: str, partitions: int, since_ms: int) -> dict[int, int]:
    lookups = [TopicPartition(topic, number, since_ms) for number in range(partitions)]
    offsets = reader.offsets_for_times(lookups, KAFKA_TIMEOUT_S)
    return {each.partition: each.offset for each in offsets if each.offset >= 0}


def when_there(request: Callable[[], T], not_yet: Collection[int]) -> T:
    """Retry a request that a new topic or cluster cannot serve yet.

    Raises:
        KafkaException: an error other than `not_yet`, or a timeout.
    """
    deadline = time.monotonic() + KAFKA_TIMEOUT_S
    while True:
        try:
            return request()
        except KafkaException as error:
            if error.args[0].code() not in not_yet or time.monotonic() >= deadline:
                raise
        time.sleep(METADATA_POLL_S)


def read_all(
    client: ClientProperties,
    topic: str,
    first: Mapping[int, int] | None = None,
    observe: Callable[[int], None] = lambda _: None,
) -> Iterator[TopicRow]:
    """Yield every row that is in the topic now, in offset order within a partition.

    Args:
        client: connection properties.
        topic: full topic name.
        first: first offsets of partitions that are not read from the beginning.
        observe: called with the number of offsets to read, first in total, then remaining.

    Raises:
        UserError: the topic does not exist, or Kafka does not respond.
    """
    partitions = partitions_of(client, topic)
    ahead = {**READ_AHEAD, "queued.min.messages": max(QUEUED_MESSAGES // max(partitions, 1), 1)}
    with closing(consumer(client, ahead)) as reader:
        begun = first or {}
        ends = {
            number: end
            for number, end in end_offsets(reader, topic, partitions).items()
            if begun.get(number, 0) < end
        }
        starts = {number: begun.get(number, OFFSET_BEGINNING) for number in ends}
        yield from _between(reader, topic, starts, ends, observe)


def read_between(
    client: ClientProperties, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[TopicRow]:
    """Yield the rows of partitions from `starts` to `ends` (exclusive)."""
    with closing(consumer(client)) as reader:
        left = {number: end for number, end in ends.items() if starts[number] < end}
        yield from _between(reader, topic, starts, left, lambda _: None)


def _between(
    reader: Consumer,
    topic: str,
    starts: Mapping[int, int],
    ends: dict[int, int],
    observe: Callable[[int], None],
) -> Iterator[TopicRow]:
    reader.assign([TopicPartition(topic, number, starts[number]) for number in ends])
    left = {number: end - max(starts[number], 0) for number, end in ends.items()}
    while ends:
        observe(sum(left.values()))
        for message in polled(reader, POLL_MESSAGES, POLL_S):
            at_end, row = is_end(message), row_of(message)
            end = ends.get(row.partition, 0)
            left[row.partition] = max(end - row.offset - 1, 0)
            if at_end or row.offset >= end - 1:
                ends.pop(row.partition, None)
            if not at_end and row.offset < end:
                yield from events_of(row)
    observe(0)


def polled(reader: Consumer, most: int, timeout_s: float) -> Iterator[Message]:
    """Yield messages and ends of partitions.

    Errors about the consumer's group do not matter: it commits nothing.

    Raises:
        UserError: the user may not read the topic.
        KafkaException: the message is another error.
    """
    for message in reader.consume(most, timeout_s):
        error = message.error()
        code = None if error is None else error.code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise UserError(
                f"The user is not authorized to read {message.topic()}.",
                "It needs Read on the topic.",
            )
        if code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            yield message


def is_end(message: Message) -> bool:
    """True if the message is not a row but marks the end of a partition.

    Raises:
        KafkaException: the message is an error.
    """
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def without_repeats(rows: Iterator[TopicRow]) -> Iterator[TopicRow]:
    """Drop rows whose id has already occurred, as readers of these topics must."""
    seen: set[str] = set()
    for row in rows:
        if row.id not in seen:
            seen.add(row.id)
            yield row


def events_of(row: TopicRow) -> Iterator[TopicRow]:
    """Yield the row, or the events of a pack."""
    if row.value is None or not is_packed(row.value):
        yield row
        return
    for index, document in enumerate(unpacked(row.value)):
        own_id = f"{row.id}.{index}" if index else row.id
        yield row._replace(value=document, id=own_id, pack_index=index)


def row_of(message: Message) -> TopicRow:
    headers = dict(message.headers() or [])
    row_id = headers.get(ID_HEADER) or b""
    return TopicRow(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        id=row_id.decode("utf-8", "replace") if isinstance(row_id, bytes) else row_id,
    )
