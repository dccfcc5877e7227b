"""`python -m tests.faults --rounds N --only CASE`: break it, and see what becomes of it."""

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.faults import report
from tests.faults.cases import CASES
from tests.faults.rounds import run


def main() -> int:
    """Exit code 1 where anything was lost, doubled or otherwise wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of each case; 1")
    parser.add_argument("--only", action="append", metavar="CASE", help="repeatable")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add what came out, as JSON")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write docs/ from FILE")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    given = parser.parse_args()
    if given.list:
        sys.stdout.writelines(f"{case.name:16} {case.what}\n" for case in CASES)
        return 0
    if given.table:
        report.write(report.PAGE, report.kept(given.table))
        return 0
    unknown = set(given.only or ()) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; --list names them")
    cases = [case for case in CASES if not given.only or case.name in given.only]
    begin, is_well = time.monotonic(), True

    def log(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - begin:7.1f} {text}\n")

    found = []
    for each in run(cases, given.rounds, log):
        found.append(each)
        is_well = is_well and not (each.lost or each.twice or each.wrong)
        if given.keep:
            report.keep(given.keep, each)
    sys.stdout.write(report.table(found))
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
