"""What rounds have shown, kept in a file and told as a table in tests/faults/README.md."""

import json
import statistics
from collections.abc import Iterable
from pathlib import Path

from tests.faults.cases import CASES
from tests.faults.rounds import Round
from tests.support.sources import ROOT

PAGE = ROOT / "tests" / "faults" / "README.md"
BEGIN, END = "[comment]: # (faults: the runner writes from here)", "[comment]: # (to here)"
HEAD = """\
| case | fault | rounds | events | lost/duplicated/rewritten | recovery, s (maximum) |
|---|---|---|---|---|---|
"""


def keep(file: Path, found: Round) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(found._asdict()) + "\n")


def kept(file: Path) -> list[Round]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Round(**json.loads(line)) for line in lines]


def table(rounds: Iterable[Round]) -> str:
    by_case: dict[str, list[Round]] = {}
    for each in rounds:
        by_case.setdefault(each.case, []).append(each)
    rows = []
    for case in CASES:
        tried = by_case.get(case.name, [])
        if not tried:
            continue
        times = sorted(each.recovered_s for each in tried)
        sums = [sum(getattr(each, name) for each in tried) for name in ("lost", "twice", "again")]
        failed = sum(bool(each.wrong) for each in tried)
        cells = [
            f"`{case.name}`",
            case.what,
            f"{len(tried)}" + (f", {failed} failed" if failed else ""),
            f"{max(each.requests for each in tried):,}",
            "/".join(f"{each:,}" for each in sums),
            f"{statistics.median(times):.1f} ({times[-1]:.1f})",
        ]
        rows.append("| " + " | ".join(cells) + " |\n")
    return HEAD + "".join(rows)


def write(page: Path, rounds: Iterable[Round]) -> None:
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(rounds)}\n{END}{after}", encoding="utf-8")
