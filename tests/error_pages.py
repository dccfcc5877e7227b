"""Writes docs/errors: a page for each error, of the table of rules, with a recorded example.

python -m tests.error_pages
"""

from collections.abc import Iterator
from functools import cache

from brokertwin.recordings.explain import error_pages
from brokertwin.recordings.explain.exchange import explained
from brokertwin.recordings.explain.partitions import PartitionTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.bodies import errors
from brokertwin.recordings.observed.watching import watch
from brokertwin.recordings.replay import recording
from tests.support.audits import CAPTURES, RECORDINGS
from tests.support.sources import ROOT

FOLDER = ROOT / "docs" / "errors"
PARTITIONS = {"leader_kill": "lk-0", "follower_stop": "isr-0"}
TRIED = 3
"""Number of lines with an error that are searched for one with a reason."""


def pages() -> dict[str, str]:
    found = examples()
    made = {
        f"{error_pages.name_of(code)}.md": error_pages.page(code, found.get(code, ""))
        for code in error_pages.RULES
    }
    return made | {"README.md": error_pages.index()}


@cache
def examples() -> dict[int, str]:
    """What `explain` says of each error, where a recording of the repository has it."""
    found: dict[int, str] = {}
    reasoned: set[int] = set()
    for entry in _entries():
        for refused in entry.refused:
            if refused.code in reasoned or (refused.code in found and not refused.because):
                continue
            alone = entry._replace(refused=[refused])
            shown = alone.lines(explained=set(error_pages.RULES))
            found[refused.code] = "\n".join(line.text for line in shown)
            if refused.because:
                reasoned.add(refused.code)
    return found


def _entries() -> Iterator[TimelineEntry]:
    """Some lines with each error, told."""
    for name, key in PARTITIONS.items():
        watched = watch(
            lambda summary, name=name: read_files(RECORDINGS[name], FileReading(), summary)
        )
        yield from (each for each in PartitionTimeline(watched, key).story() if each.refused)
    for path in CAPTURES:
        whole = recording.read([path])
        tried: dict[int, int] = {}
        for exchange in whole.exchanges:
            codes = [code for code in set(errors(exchange.response)) if tried.get(code, 0) < TRIED]
            tried |= {code: tried.get(code, 0) + 1 for code in codes}
            if codes:
                yield from explained(whole, exchange.id)


def main() -> None:
    """Write the pages and delete those of errors that no longer exist."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
