"""`brokertwin gc`: delete record batches that no log references."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID

from brokertwin.cli.options import (
    AsJson,
    with_settings,
)
from brokertwin.cli.output import out, progress_bars, say, show_json, show_table
from brokertwin.errors import UserError
from brokertwin.settings import Settings
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.streaming.checkpoint.garbage import Cut

UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LEAST_AGE_MS = 600_000
"""Minimum age of deleted batches. A gateway writes a batch's event within this time or drops the
batch: see `DataTopic.put` and `--response-timeout`, which limits the delay of an event."""

OlderThan = Annotated[
    str,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="Delete only batches older than TIME, at least 10 minutes: 900s, 30m, 1h, 2d.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")]


@with_settings("bootstrap", "prefix", "checkpoint", "kafka_config", "master", master="local[1]")
def command(
    settings: Settings,
    older_than: OlderThan = "1h",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete record batches in the topic `data` that no log references.

    These are batches of deleted topics, below a log's start offset, or of refused requests. Each
    partition of the topic is truncated below the first batch that a log or a pending request
    references, or that is too young. Logs are read from the job's checkpoint; the job can be
    running or stopped. Kafka frees the disk space one segment file at a time.
    """
    from brokertwin.streaming.checkpoint import garbage
    from brokertwin.streaming.checkpoint.garbage_sources import Sources
    from brokertwin.streaming.job.session import session_when_needed

    age_ms = _age_ms(older_than)
    sources = Sources(settings)
    extents = sources.extents(age_ms)
    with session_when_needed(settings, say) as session, progress_bars() as bars:
        cuts = garbage.plan(extents, sources.needs(session, _observer(bars)))
    if not dry_run:
        sources.delete(cuts)
    _show(cuts, dry_run, as_json)


def _observer(bars: Progress) -> Callable[[str, int], None]:
    """Return a function that shows how many rows of a topic are left."""
    tasks: dict[str, tuple[TaskID, int]] = {}

    def show(topic: str, left: int) -> None:
        if topic not in tasks:
            tasks[topic] = (bars.add_task(topic, total=left), left)
        task, total = tasks[topic]
        bars.update(task, completed=total - left)

    return show


def _age_ms(text: str) -> int:
    """Parse --older-than. Raises UserError if it is invalid or too short."""
    match = re.fullmatch(r"(\d+)([smhd])", text, re.ASCII)
    if match is None:
        raise UserError(
            f"Invalid value of --older-than: {text!r}.",
            "Pass a number with the unit s, m, h or d: 30m.",
        )
    age_ms = int(match[1]) * UNITS_MS[match[2]]
    if age_ms < LEAST_AGE_MS:
        raise UserError(
            f"--older-than {text} is too short, because a batch is written before its request.",
            "Pass at least 10m.",
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
    out.print(f"{freed} {counted(sum(cut.freed for cut in cuts), 'batch', 'batches')}")
