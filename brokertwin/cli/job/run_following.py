"""What `brokertwin run` does while its query runs: follow offsets, print log lines."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec

from brokertwin.cli.options import client_of
from brokertwin.cli.output import say_at, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from pyspark.sql import SparkSession

    from brokertwin.settings import Settings
    from brokertwin.streaming.job.job import StreamingJob

LAST_LINES_S = 1.0


def check(settings: "Settings", available_now: bool) -> None:
    """Raise UserError if the options conflict."""
    if settings.follow_offsets is not None and available_now:
        raise UserError(
            "Cannot combine --follow-offsets with --available-now.",
            "To import the current offsets, use `brokertwin offsets import HOST:PORT DIR`.",
        )
    if settings.follow_offsets is not None and settings.follow_into is None:
        raise UserError(
            "--follow-offsets requires --follow-into.",
            "Add --follow-into DIR; read the directory with `brokertwin offsets`.",
        )


@contextmanager
def following(
    settings: "Settings", session: "Callable[[], SparkSession]"
) -> "Iterator[Callable[[], None]]":
    """Run the query while entered; yields a function to call regularly.

    Raises UserError if the directory has another cluster's rows.
    """
    if settings.follow_offsets is None or settings.follow_into is None:
        yield lambda: None
        return
    from brokertwin.offsets.store import OffsetHistoryStore
    from brokertwin.streaming.job import offset_following

    client = client_of(settings.follow_offsets, settings.follow_kafka_config)
    store = OffsetHistoryStore(settings.follow_into)
    say_at(f"recording offsets of Kafka {client.bootstrap} in {settings.follow_into}")

    def report(count: int) -> None:
        if count:
            say_at(f"{counted(count, 'offset row')} of Kafka {client.bootstrap}")

    query = offset_following.Following(
        lambda: offset_following.start(session(), client, store, on_rows=report), warn
    )
    try:
        yield query.look
    finally:
        query.stop()


@contextmanager
def traced(job: "StreamingJob", write: Callable[[str], None]) -> "Iterator[Callable[[], None]]":
    """Yield a function that writes the log lines of the job's brokers since the last call."""
    from confluent_kafka import TopicPartition

    from brokertwin.kafka_io.topic_reader import consumer, first_and_end, partitions_of
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.state.core import outputs

    topic = full_name(job.settings.prefix, outputs.RECORDS)
    with closing(consumer(job.client)) as reader:
        places = [TopicPartition(topic, each) for each in range(partitions_of(job.client, topic))]
        for place in places:
            place.offset = first_and_end(reader, place)[1]
        reader.assign(places)
        yield lambda: _write_lines(reader, 0, write)
        _write_lines(reader, LAST_LINES_S, write)


def _write_lines(reader: "Consumer", wait_s: float, write: Callable[[str], None]) -> None:
    while (message := reader.poll(wait_s)) is not None:
        value = None if message.error() else message.value()
        if value:
            entry = msgspec.json.decode(value)
            if entry["record"]["type"] == "LineLogged":
                write(entry["record"]["line"])
