"""Sources of recorded exchanges: files, a topic, or a job's own topics.

A command takes the source as one parameter; the decorator adds the options:

    @with_source
    def command(key: Key, where: Where, as_json: AsJson = False) -> None: ...
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from brokertwin.cli.options import (
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    kafka_of,
    settings_of,
    with_options,
)
from brokertwin.cli.output import progress_bars, warn
from brokertwin.cli.recordings.ingest import Batches, Broker, TimeZone
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.protocol.batch_headers import Headers
    from brokertwin.recordings.formats.lines import SourceLine
    from brokertwin.recordings.formats.pipeline import Source
    from brokertwin.recordings.formats.prefilter import NeededLines
    from brokertwin.settings import Settings

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Recorded exchanges: captures, Kafka's request logs (of all brokers, and of the"
        " controller where there is one), Kroxylicious' protocol logs; also compressed. -:"
        " standard input.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Read this topic at --bootstrap, written by `capture --topic`, instead of files.",
    ),
]
Job = Annotated[
    bool,
    typer.Option(
        "--job",
        help="Read the requests and responses of the job of --prefix, instead of files.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="With --job: the cluster, if it has several. `replay` gives a recording this name.",
    ),
]


Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Show the state in a job's checkpoint or a directory of `replay --keep`, instead of"
        " the timeline of a recording.",
    ),
]

LiveTopics = Annotated[
    str | None,
    typer.Option(
        "--live",
        metavar="PREFIX",
        help="Show the current rows and the findings in the topics that `live --prefix PREFIX`"
        " writes at --bootstrap, instead of the timeline of a recording.",
    ),
]


class Where(NamedTuple):
    """The user's options for the source of exchanges."""

    files: Sequence[Path] = ()
    topic: str | None = None
    job: bool = False
    cluster: str | None = None
    bootstrap: str | None = None
    kafka_config: Path | None = None
    prefix: str | None = None
    config: Path | None = None
    broker: int | None = None
    time_zone: str = "UTC"
    batches: Sequence[Path] = ()

    @property
    def names(self) -> list[str]:
        if self.topic is not None:
            return [f"the topic {self.topic}"]
        return ["the job's topics"] if self.job else [path.name for path in self.files]

    def settings(self, **others: object) -> "Settings":
        """Return the settings for connecting to Kafka, with those of the command."""
        return settings_of(
            self.config,
            bootstrap=self.bootstrap,
            kafka_config=self.kafka_config,
            prefix=self.prefix,
            **others,
        )

    def is_nowhere(self) -> bool:
        return not self.files and self.topic is None and not self.job

    def headers(self) -> "Headers | None":
        """Return batch headers from dumps, which request logs lack. Raises UserError."""
        from brokertwin.recordings.formats import dumps

        return dumps.read(self.batches) if self.batches else None

    def check(self) -> None:
        """Raise UserError unless there is exactly one source."""
        if sum((bool(self.files), self.topic is not None, self.job)) != 1:
            raise UserError(
                "The command needs one source of recorded exchanges.",
                "Name files, or pass --topic NAME, or --job for a job's topics.",
            )


OPTIONS: dict[str, tuple[Any, Any]] = {
    "files": (Files, None),
    "topic": (Topic, None),
    "job": (Job, False),
    "cluster": (Cluster, None),
    "bootstrap": (Bootstrap, None),
    "kafka_config": (KafkaConfig, None),
    "prefix": (Prefix, None),
    "config": (ConfigFile, None),
    "broker": (Broker, None),
    "time_zone": (TimeZone, "UTC"),
    "batches": (Batches, None),
}
"""Parameters for the fields of `Where`, with their types and defaults."""


def _where(**options: Any) -> Where:
    several = {name: tuple(options[name] or ()) for name in ("files", "batches")}
    return Where(**options | several)


with_source = with_options("where", _where, OPTIONS)
"""Replace a command's parameter `where` by the options of `Where`."""


@contextmanager
def source_of(
    where: Where,
    texts: int = 0,
    needed: "NeededLines | None" = None,
    ahead: "Callable[[Iterator[SourceLine]], Iterator[SourceLine]]" = lambda lines: lines,
) -> "Iterator[Source]":
    """Read the documents of a source, with a progress bar.

    Args:
        where: the source.
        texts: which logs with requests as text are read, too, by `Texts`.
        needed: the lines of files that are needed; None reads all.
        ahead: decodes lines of files before they are read.

    Raises:
        UserError: there is no source or more than one, or Kafka does not respond.
    """
    from brokertwin.recordings.formats.documents import Texts
    from brokertwin.recordings.formats.lines import size_of
    from brokertwin.recordings.formats.pipeline import FileReading, read_files, zone_of

    where.check()
    how = FileReading(where.broker, zone_of(where.time_zone), warn, Texts(texts), needed, ahead)
    with progress_bars(counts_bytes=bool(where.files)) as bar:
        task = bar.add_task("reading", total=size_of(where.files) if where.files else None)
        if where.files:
            files = list(where.files)
            yield lambda summary: read_files(
                files, how, summary, lambda size: bar.advance(task, size)
            )
            return
        from brokertwin.recordings.formats import topics

        settings = where.settings()
        client = kafka_of(settings)

        def left(rows: int) -> None:
            bar.update(task, description=f"reading, {counted(rows, 'row')} left")

        if where.topic is not None:
            yield topics.of_topic(client, where.topic, how, left)
        else:
            yield topics.of_job(client, settings.prefix, where.cluster, left)
