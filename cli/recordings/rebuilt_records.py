"""`brokertwin replay --job --records`: rebuild rows that a job without `--records` skipped."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from brokertwin.cli.options import kafka_of
from brokertwin.cli.output import say
from brokertwin.cli.recordings.sources import Where
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.state.core.settings import BrokerSettings

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def lines(where: Where, given: "BrokerSettings", progress: Progress) -> Iterator[str]:
    """Handle a job's requests again; yields the values of the rows of its topic `records`.

    Args:
        where: the job.
        given: the settings of its brokers.
        progress: creates a progress bar.

    Raises:
        UserError: there is no job, it has several cells, or its topic's start was deleted.
    """
    from brokertwin.recordings.replay import of_job

    if not where.job:
        raise UserError(
            "--records requires --job: it writes the rows of a job's topic `records`.",
            "Add --job, and leave out files.",
        )
    settings = where.settings()
    was = of_job.given(kafka_of(settings), settings.prefix, where.cluster)
    if isinstance(was, str):
        raise UserError(f"Cannot rebuild the job's records: {was}.")
    count = 0
    with progress("deciding", len(was.documents)) as advance:
        for row in of_job.records(was, given, advance):
            count += 1
            yield (row.value or b"").decode()
    say(f"{counted(count, 'record')} of {counted(len(was.documents), 'event')}")
