"""`brokertwin setup`: download jars that are not on PyPI."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from brokertwin.cli import logs
from brokertwin.cli.options import ConfigFile, settings_of
from brokertwin.cli.output import err, say, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.settings import Settings

BAR = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


JarsOnly = Annotated[
    bool,
    typer.Option("--jars-only", help="Skip the class archives: 220 MB and half a minute less."),
]


def command(jars_only: JarsOnly = False, config: ConfigFile = None) -> None:
    """Download the jars of the Spark-Kafka connector and of Kafka, and speed up their start.

    The first run downloads about 60 MB; later runs do nothing. Commands that need the jars also
    download them.

    Then a broker and a small job run once, so that Java writes an archive of the classes that each
    loads, which halves their start time. Run `brokertwin setup` again after you install another
    Java or PySpark.
    """
    from brokertwin.kafka_io import jars
    from brokertwin.kafka_io.java import java_executable

    settings = settings_of(config)
    java_executable()
    for jar_set in (jars.connector_jars(), jars.kafka_jars()):
        with _bar(f"jars of {jar_set.module}") as seen:
            jars.fetch(jar_set, settings.home, settings.ivy_settings, say, seen)
    if not jars_only:
        _archive(settings)


def _archive(settings: "Settings") -> None:
    """Create the class archives; they are optional, so a failure is only a warning."""
    from brokertwin.streaming.job import class_training
    from brokertwin.streaming.job.runner import QueryFailed

    try:
        class_training.make(settings, say)
    except (UserError, QueryFailed, TimeoutExpired) as error:
        warn(f"could not create the class archives, so Java starts at its usual speed: {error}")


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    is_drawn = err.is_terminal and logs.shows("info") and not logs.is_json()
    with Progress(*BAR, console=err, transient=True, disable=not is_drawn) as bar:
        task = bar.add_task(title, total=None, visible=False)
        yield lambda done, known: bar.update(task, completed=done, total=known, visible=True)
