"""`brokertwin run --follow-offsets`: another cluster's commits, kept while the job runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokertwin.cli.offset_sources import client_of
from brokertwin.cli.output import say_at, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.settings import Settings


def check(settings: "Settings", available_now: bool) -> None:
    """Raises UserError where the options do not go together."""
    if settings.follow_offsets is not None and available_now:
        raise UserError(
            "--follow-offsets goes on and --available-now ends.",
            "`brokertwin offsets import HOST:PORT DIR` reads what is there now.",
        )
    if settings.follow_offsets is not None and settings.follow_into is None:
        raise UserError(
            "--follow-offsets has no directory.",
            "--follow-into DIR says where the rows go; `brokertwin offsets` reads it.",
        )


@contextmanager
def following(
    settings: "Settings", session: "Callable[[], SparkSession]"
) -> "Iterator[Callable[[], None]]":
    """What is to be called now and then while the job runs; the query ends at the end.

    Raises UserError where the directory has another cluster's rows.
    """
    if settings.follow_offsets is None or settings.follow_into is None:
        yield lambda: None
        return
    from brokertwin.sinks.offset_history import OffsetHistoryStore
    from brokertwin.streaming import offset_following

    client = client_of(settings.follow_offsets, settings.follow_kafka_config)
    store = OffsetHistoryStore(settings.follow_into)
    say_at(f"following the offsets of Kafka {client.bootstrap} into {settings.follow_into}")

    def tell(count: int) -> None:
        if count:
            say_at(f"{count} rows of the offsets of Kafka {client.bootstrap}")

    query = offset_following.Following(
        lambda: offset_following.start(session(), client, store, tell=tell), warn
    )
    try:
        yield query.look
    finally:
        query.stop()
