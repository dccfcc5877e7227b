"""`brokertwin gc`: deletes record batches that no log has any more."""

import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID

from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    Checkpoint,
    ConfigFile,
    KafkaConfig,
    Prefix,
    settings_of,
)
from brokertwin.cli.output import err, out, say, show_json, show_table
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.streaming.garbage import Cut

UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LEAST_AGE_MS = 600_000
"""A gateway has written a batch's event within this time, or given it up: see `DataTopic.put` and
`--answer-timeout`, which bounds how long an event may be on its way."""

OlderThan = Annotated[
    str,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="Delete only what was written before that, 10 minutes at least: 900s, 30m, 1h, 2d.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="Spark master for reading.")]


def command(
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    checkpoint: Checkpoint = None,
    older_than: OlderThan = "1h",
    dry_run: DryRun = False,
    kafka_config: KafkaConfig = None,
    master: Master = "local[1]",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete the record batches in the topic `data` that no log has any more.

    Batches of deleted topics, below a log's start, or refused: each partition of the topic is cut
    below the first batch that a log still has, that a request not yet handled names, or that is
    too young. What logs have is read from the job's checkpoint; the job may run or be stopped.
    Kafka frees the disk space a segment file at a time.
    """
    from brokertwin.streaming import garbage
    from brokertwin.streaming.garbage_sources import Sources
    from brokertwin.streaming.session import session_when_needed

    age_ms = _age_ms(older_than)
    settings = settings_of(
        config,
        bootstrap=bootstrap,
        prefix=prefix,
        checkpoint=checkpoint,
        kafka_config=kafka_config,
        master=master,
    )
    sources = Sources(settings)
    extents = sources.extents(age_ms)
    with session_when_needed(settings, say) as session, _Bars() as bars:
        cuts = garbage.plan(extents, sources.needs(session, bars.show))
    if not dry_run:
        sources.delete(cuts)
    _show(cuts, dry_run, as_json)


class _Bars:
    """A progress bar for each topic that is read, on a terminal."""

    def __init__(self) -> None:
        self._progress = Progress(console=err, transient=True, disable=not err.is_terminal)
        self._tasks: dict[str, tuple[TaskID, int]] = {}

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, topic: str, left: int) -> None:
        """Show how far a topic is read."""
        if topic not in self._tasks:
            self._tasks[topic] = (self._progress.add_task(topic, total=left), left)
        task, total = self._tasks[topic]
        self._progress.update(task, completed=total - left)


def _age_ms(text: str) -> int:
    """Raises UserError for what is no time, or too short a one."""
    found = re.fullmatch(r"(\d+)([smhd])", text, re.ASCII)
    if found is None:
        raise UserError(f"--older-than {text}: expected a number and s, m, h or d.")
    age_ms = int(found[1]) * UNITS_MS[found[2]]
    if age_ms < LEAST_AGE_MS:
        raise UserError(
            f"--older-than {text}: ten minutes at least.",
            "A batch is written before its request: what is young may still be needed.",
        )
    return age_ms


def _show(cuts: "list[Cut]", dry_run: bool, as_json: bool) -> None:
    if as_json:
        for cut in cuts:
            show_json({**cut._asdict(), "freed": cut.freed, "dry_run": dry_run})
        return
    freed = "would free" if dry_run else "freed"
    show_table(
        ["partition", freed, "kept", "first kept", "held by"],
        ((c.partition, f"{c.freed:,}", f"{c.kept:,}", c.below, c.held_by) for c in cuts),
    )
    out.print(f"{freed} {sum(cut.freed for cut in cuts):,} batches")
