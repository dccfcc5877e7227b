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
    from pyspark.sql import SparkSession

    from brokertwin.settings import Settings
    from brokertwin.streaming.job.job import StreamingJob


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
def traced(job: "StreamingJob", show: "Callable[[str], None]") -> "Iterator[Callable[[], None]]":
    """Yield a function that shows the log lines of the job's brokers since the last call.

    The lines that are left are shown at the end.
    """
    from confluent_kafka import TopicPartition

    from brokertwin.kafka_io import topic_reader
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.state.core import outputs

    topic = full_name(job.settings.prefix, outputs.RECORDS)
    count = topic_reader.partitions_of(job.client, topic)
    with closing(topic_reader.consumer(job.client)) as reader:
        at = dict.fromkeys(range(count), 0) | topic_reader.end_offsets(reader, topic, count)
        reader.assign([TopicPartition(topic, number, offset) for number, offset in at.items()])

        def look() -> None:
            while (message := reader.poll(0)) is not None:
                if message.error() is None:
                    at[message.partition() or 0] = (message.offset() or 0) + 1
                    _show_line(message.value(), show)

        yield look
        ends = topic_reader.end_offsets(reader, topic, count)
        for row in topic_reader.read_between(job.client, topic, at, ends):
            _show_line(row.value, show)


def _show_line(value: bytes | None, show: "Callable[[str], None]") -> None:
    record = msgspec.json.decode(value)["record"] if value else {}
    if record.get("type") == "LineLogged":
        show(record["line"])
