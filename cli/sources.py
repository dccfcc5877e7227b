"""Where commands read recorded exchanges from: files, a topic, or a job's own topics.

A command takes it as one parameter, and gets its options by one line:

    @with_source
    def command(key: Key, where: Where, as_json: AsJson = False) -> None: ...
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.progress import Progress

from brokertwin.cli.ingest import Batches, Broker, TimeZone
from brokertwin.cli.options import Bootstrap, ConfigFile, KafkaConfig, Prefix, settings_of
from brokertwin.cli.output import err, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings
    from brokertwin.streaming.ingest.batches import Headers
    from brokertwin.streaming.ingest.pipeline import Source

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Recorded exchanges: captures, Kafka's request logs (of all brokers, and of the"
        " controller where there is one), Kroxylicious' protocol logs; also compressed.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="In place of files: what `capture --topic` wrote to this topic at --bootstrap.",
    ),
]
Job = Annotated[
    bool,
    typer.Option(
        "--job",
        help="In place of files: what the job of --prefix at --bootstrap was asked and answered.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="With --job, the cluster, if it has several; `replay` calls a recorded one so.",
    ),
]


Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="In place of a recording, a job's checkpoint, or what `replay --keep` has left: what"
        " the brokers know, without how it came about.",
    ),
]


class Where(NamedTuple):
    """What a user has said of where the exchanges are."""

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
        """Words for it."""
        if self.topic is not None:
            return [f"the topic {self.topic}"]
        return ["the job's topics"] if self.job else [path.name for path in self.files]

    def settings(self, **others: object) -> "Settings":
        """What is in effect for reaching Kafka, and by name what else a command says."""
        return settings_of(
            self.config,
            bootstrap=self.bootstrap,
            kafka_config=self.kafka_config,
            prefix=self.prefix,
            **others,
        )

    def is_nowhere(self) -> bool:
        """Whether nothing is named."""
        return not self.files and self.topic is None and not self.job

    def headers(self) -> "Headers | None":
        """The batch headers that a request log lacks, from dumps. Raises UserError."""
        from brokertwin.streaming.ingest import dumps

        return dumps.read(self.batches) if self.batches else None

    def check(self) -> None:
        """Raises UserError unless it is one place."""
        if sum((bool(self.files), self.topic is not None, self.job)) != 1:
            raise UserError(
                "What is to be read?",
                "Name files, or give --topic NAME, or --job for the topics of a job.",
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
"""The parameters that stand for a `Where`, each with its type and default."""


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `Where` in place of its parameter `where`."""

    @functools.wraps(command)
    def called(**given: Any) -> None:
        place = {name: given.pop(name) for name in OPTIONS}
        several = {name: tuple(place[name] or ()) for name in ("files", "batches")}
        command(where=Where(**place | several), **given)

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    made = [
        inspect.Parameter(name, keyword, annotation=kind, default=default)
        for name, (kind, default) in OPTIONS.items()
    ]
    others = [each.replace(kind=keyword) for each in own.parameters.values()]
    at = list(own.parameters).index("where")
    called.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*others[:at], *made, *others[at + 1 :]]
    )
    return called


def kafka_of(settings: "Settings") -> "ClientProperties":
    """How to reach Kafka; warns of properties that have no effect here. Raises UserError."""
    from brokertwin.kafka_io.kafka_clients import client_properties

    client = client_properties(settings)
    for warning in client.warnings():
        warn(warning)
    return client


@contextmanager
def source_of(where: Where) -> "Iterator[Source]":
    """The documents of a place, with a bar for the time that reading them takes.

    Raises:
        UserError: nothing is named, or more than one place; Kafka does not answer.
    """
    from brokertwin.streaming.ingest.pipeline import Reading, read_files, zone_of
    from brokertwin.streaming.lines import size_of

    where.check()
    how = Reading(where.broker, zone_of(where.time_zone), warn)
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("reading", total=size_of(where.files) if where.files else None)
        if where.files:
            files = list(where.files)
            yield lambda summary: read_files(
                files, how, summary, lambda size: bar.advance(task, size)
            )
            return
        from brokertwin.streaming.ingest import topics

        settings = where.settings()
        client = kafka_of(settings)

        def left(rows: int) -> None:
            bar.update(task, description=f"reading, {rows:,} rows left")

        if where.topic is not None:
            yield topics.of_topic(client, where.topic, how, left)
        else:
            yield topics.of_job(client, settings.prefix, where.cluster, left)
