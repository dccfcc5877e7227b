"""`brokertwin run --follow-offsets`: record another cluster's commits while the job runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokertwin.cli.options import client_of
from brokertwin.cli.output import say_at, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.settings import Settings


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
