"""`brokertwin setup`: fetch the jars that are not on PyPI."""

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
    typer.Option("--jars-only", help="No archives of classes: 220 MB and half a minute less."),
]


def command(jars_only: JarsOnly = False, config: ConfigFile = None) -> None:
    """Fetch the Spark-Kafka connector and the Kafka broker's jars, and have both start faster.

    Says each jar as it comes; on a terminal a bar tells how many there will be. About 60 MB, once;
    later runs do nothing. Every command that needs them fetches them itself.

    Then a broker and a small job run once, so that Java keeps an archive of the classes that each
    loads: both start in half the time then. Another Java or PySpark needs another archive: say
    `brokertwin setup` again.
    """
    from brokertwin.kafka_io import jars
    from brokertwin.kafka_io.java import java_executable

    settings = settings_of(config)
    java_executable()
    for wanted in (jars.connector_jars(), jars.kafka_jars()):
        with _bar(f"jars of {wanted.module}") as seen:
            jars.fetch(wanted, settings.home, settings.ivy_settings, say, seen)
    if not jars_only:
        _archive(settings)


def _archive(settings: "Settings") -> None:
    """Without the archives all works as well: what keeps them from being made is said, no more."""
    from brokertwin.streaming import class_training
    from brokertwin.streaming.runner import QueryFailed

    try:
        class_training.make(settings, say)
    except (UserError, QueryFailed, TimeoutExpired) as error:
        warn(f"the archives of classes were not made, and Java starts as fast as before: {error}")


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, once it is told how many of how many there are; gone at the end."""
    is_drawn = err.is_terminal and logs.shows("info") and not logs.is_json()
    with Progress(*BAR, console=err, transient=True, disable=not is_drawn) as bar:
        task = bar.add_task(title, total=None, visible=False)
        yield lambda done, known: bar.update(task, completed=done, total=known, visible=True)
