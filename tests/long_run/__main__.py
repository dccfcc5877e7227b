"""`python -m tests.long_run --hours 6`: mixed load, and whether anything grows."""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import altair as alt

from tests.faults.stand import Stand
from tests.long_run import load
from tests.long_run.growth import Growth, growth_of
from tests.long_run.samples import EXPLAINED, Batches, sample
from tests.support.console import command

GC_EVERY_S = 600.0
GC = ("gc", "--older-than", "10m")

Rows = list[dict[str, float]]


PATIENT = {
    "group.consumer.heartbeat.interval.ms": "10000",
    "group.consumer.session.timeout.ms": "60000",
}
"""Well above the response times of a busy job; otherwise members of librdkafka stay fenced."""


def main() -> int:
    """Run; exit code 1 if a client saw a violation or a series grows."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="python -m tests.long_run", description=__doc__)
    parser.add_argument("--hours", type=float, default=6, help="6")
    parser.add_argument("--every", type=float, default=15, metavar="SECONDS", help="sample; 15")
    parser.add_argument("--trigger", default="2 seconds", metavar="TIME", help="2 seconds")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="samples.jsonl, growth.svg")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="brokertwin-long-"))
    keep: Path = given.keep or directory
    keep.mkdir(parents=True, exist_ok=True)
    of_job = {"BROKERTWIN_LOG_FORMAT": "json", "BROKERTWIN_TRIGGER": given.trigger}
    stand = Stand(directory, report=_report, of_broker=PATIENT, **of_job)
    try:
        stand.start()
        rows, wrong = under_load(stand, given.hours * 3600, given.every, keep / "samples.jsonl")
    finally:
        stand.close()
    found = growths(rows)
    plot(rows, keep / "growth.svg")
    sys.stdout.write(table(found))
    for what in wrong:
        sys.stdout.write(f"WRONG  {what}\n")
    grown = [each for each in found if not each.is_flat and each.name not in EXPLAINED]
    if wrong or grown:
        return 1
    if given.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _report(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def under_load(stand: Stand, lasts_s: float, every_s: float, file: Path) -> tuple[Rows, list[str]]:
    """Samples of a run, also written to a file as they come, and what clients saw that is wrong."""
    clients = load.mixed(stand.bootstrap)
    for one in clients:
        one.start()
    batches, rows = Batches(stand.job), Rows()
    begin = time.monotonic()
    next_gc = begin + GC_EVERY_S
    restarts: list[str] = []
    with file.open("w", encoding="utf-8") as out:
        while time.monotonic() - begin < lasts_s:
            time.sleep(every_s)
            restarts += stand.tend()
            row = {"at": time.monotonic() - begin, **sample(stand, batches)}
            row["done"] = sum(one.done for one in clients)
            row["timed_out"] = sum(one.timed_out for one in clients)
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
            if time.monotonic() > next_gc:
                next_gc += GC_EVERY_S
                _collect(stand)
    load.end(clients)
    for one in clients:
        failed = f"{one.failed} failed {one.failure}, {one.timed_out} timed out"
        _report(f"{one.name}: {one.done:,} done, {failed}, {len(one.wrong)} wrong {one.noted}")
    idle = [f"{one.name} has done nothing" for one in clients if not one.done]
    ended = [f"{name} has ended" for name in restarts]
    return rows, [*ended, *idle, *(f"{one.name}: {what}" for one in clients for what in one.wrong)]


def _collect(stand: Stand) -> None:
    """`gc`, as an operator has it run from time to time."""
    done = subprocess.run(
        command(*GC), env=stand.job.environment, capture_output=True, text=True, check=False
    )
    _report(f"gc ended with {done.returncode} {done.stderr[-300:] if done.returncode else ''}")


def growths(rows: Rows) -> list[Growth]:
    names = sorted({name for row in rows for name in row} - {"at", "done"})
    return [growth_of(name, *_series(rows, name)) for name in names]


def _series(rows: Rows, name: str) -> tuple[list[float], list[float]]:
    held: list[Mapping[str, float]] = [row for row in rows if name in row]
    return [row["at"] for row in held], [row[name] for row in held]


def table(found: list[Growth]) -> str:
    """A row for each series."""
    shown: Callable[[float], str] = lambda value: f"{value:,.2f}"  # noqa: E731
    lines = [
        "| series | median | least | most | gained | in an hour | |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        verdict = "flat" if each.is_flat else EXPLAINED.get(each.name, "**grows**")
        values = (each.middle, each.least, each.most, each.gained, each.per_hour)
        lines.append(f"| `{each.name}` | {' | '.join(map(shown, values))} | {verdict} |")
    return "\n".join(lines) + "\n"


def plot(rows: Rows, file: Path) -> None:
    """One small picture for each series, below each other."""
    names = sorted({name for row in rows for name in row} - {"at", "done"})
    items = [
        {"minutes": row["at"] / 60, "series": name, "value": row[name]}
        for row in rows
        for name in names
        if name in row
    ]
    line = alt.Chart(alt.Data(values=items)).mark_line(strokeWidth=1)
    drawn = line.encode(
        x=alt.X("minutes:Q"), y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True))
    )
    small = drawn.properties(width=220, height=90).facet(facet="series:N", columns=4)
    small.resolve_scale(y="independent").save(file)


if __name__ == "__main__":
    sys.exit(main())
