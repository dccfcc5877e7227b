"""`brokertwin replay --job --records`: what a job without `--records` has not written."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from brokertwin.cli.output import say
from brokertwin.cli.sources import Where, kafka_of
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.state.core.settings import BrokerSettings

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def lines(where: Where, given: "BrokerSettings", progress: Progress) -> Iterator[str]:
    """Decide a job's requests again; gives the values of the rows of its topic `records`.

    Args:
        where: the job.
        given: the settings of its brokers.
        progress: gives what is told how many of so many are decided.

    Raises:
        UserError: it is no job, has several cells, or the beginning of its topic is gone.
    """
    from brokertwin.streaming.replay import of_job

    if not where.job:
        raise UserError(
            "--records gives the rows that a job writes to its topic `records`.",
            "Add --job, and leave out files.",
        )
    settings = where.settings()
    was = of_job.given(kafka_of(settings), settings.prefix, where.cluster)
    if isinstance(was, str):
        raise UserError(f"Its records cannot be had again: {was}.")
    count = 0
    with progress("deciding", len(was.documents)) as advance:
        for row in of_job.records(was, given, advance):
            count += 1
            yield (row.value or b"").decode()
    say(f"{count:,} records of {len(was.documents):,} events")
