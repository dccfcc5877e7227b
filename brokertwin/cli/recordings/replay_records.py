"""`brokertwin replay records`: rebuild the rows of a job's topic `records`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from brokertwin.cli.files import check_new
from brokertwin.cli.options import (
    Bootstrap,
    BrokerConfig,
    BrokerSet,
    ConfigFile,
    Force,
    JobCluster,
    KafkaConfig,
    Prefix,
    kafka_of,
)
from brokertwin.cli.output import say
from brokertwin.cli.recordings.planning import STANDARD_OUTPUT, progress, settings_given, write
from brokertwin.cli.recordings.sources import Where
from brokertwin.errors import UserError
from brokertwin.wording import counted

Out = Annotated[
    Path, typer.Argument(metavar="FILE|-", help="File for the rows; - for standard output.")
]


def command(
    out: Out,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    cluster: JobCluster = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    force: Force = False,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Write the rows that a job's topic `records` has, or would have with `run --records`.

    Handles the requests of the job's topic again, in the job's own order.
    """
    where = Where(
        job=True,
        cluster=cluster,
        bootstrap=bootstrap,
        kafka_config=kafka_config,
        prefix=prefix,
        config=config,
    )
    if out != STANDARD_OUTPUT:
        check_new(out, force)
    write(_records(where, broker_config, broker_set), out)


def _records(where: Where, file: Path | None, pairs: list[str] | None) -> Iterator[str]:
    """Handle a job's requests; yields the rows' values.

    Raises UserError: no job, a job of several cells, or the start of its topic was deleted.
    """
    from brokertwin.recordings.replay import of_job

    broker_settings = settings_given(where, file, pairs, None)
    settings = where.settings()
    was = of_job.given(kafka_of(settings), settings.prefix, where.cluster)
    if isinstance(was, str):
        raise UserError(f"Cannot rebuild the job's records: {was}.")
    count = 0
    with progress("deciding", len(was.documents)) as advance:
        for row in of_job.records(was, broker_settings, advance):
            count += 1
            yield (row.value or b"").decode()
    say(f"{counted(count, 'record')} of {counted(len(was.documents), 'event')}")
