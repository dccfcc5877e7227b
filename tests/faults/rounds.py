"""Rounds of a case: inject the fault, wait for the recovery, check the results."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.faults import chance
from tests.faults.cases import Case
from tests.faults.delays import RelayedKafka, relaying
from tests.faults.stand import CELL, Stand
from tests.support.standalone_clusters import standalone

HOME_MIB = {"kafka": 1024, "checkpoint": 512}
"""Size of a separate file system: a tmpfs, which only root may mount."""

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")

Report = Callable[[str], None]


class Round(NamedTuple):
    """Result of a round.

    Attributes:
        lost: records and commits that were acknowledged and are lost.
        twice: duplicate records, and commits that no client sent.
        again: rows of responses that were written again, under the same ids.
        recovered_s: from the fault's end until clients were answered, in seconds.
        requests: the number of compared events.
        wrong: other violations; empty if there are none.
    """

    case: str
    lost: int
    twice: int
    again: int
    recovered_s: float
    requests: int
    wrong: str = ""


def run(cases: Iterable[Case], rounds: int, report: Report) -> Iterator[Round]:
    """Run rounds of each case; cases without special needs share a stand."""
    shared = [case for case in cases if not case.is_apart]
    apart = [[case] for case in cases if case.is_apart]
    for group in ([shared] if shared else []) + apart:
        to_do = [case for case in group for _ in range(rounds)]
        while to_do:
            with standing(to_do[0], report) as stand:
                found = None
                while to_do and not (found and found.wrong):
                    found = one_round(stand, to_do.pop(0), report)
                    yield found


@contextmanager
def standing(case: Case, report: Report) -> Iterator[Stand]:
    """Yield a stand for a case. Raises AssertionError if it leaves something behind."""
    directory = Path(tempfile.mkdtemp(prefix="brokertwin-faults-"))
    home = directory / "small"
    of_gateway = faked_time(directory) if case.has_faked_time else {}
    environment: dict[str, str] = {}
    if case.max_offsets:
        environment["BROKERTWIN_MAX_OFFSETS_PER_TRIGGER"] = str(case.max_offsets)
    if case.max_bytes:
        environment["BROKERTWIN_MAX_BYTES_PER_TRIGGER"] = str(case.max_bytes)
    if case.dies_in_one_of:
        environment |= chance.environment(directory, case.dies_in_one_of, os.environ)
    is_done = False
    try:
        with ExitStack() as around:
            around.enter_context(mounted(home, HOME_MIB.get(case.home, 0)))
            kafka_home = home if case.home == "kafka" else directory
            kafka = EmbeddedKafka(kafka_home / "kafka", default_home())
            if case.delay_s:
                relay = around.enter_context(relaying(case.delay_s))
                kafka = RelayedKafka(kafka_home / "kafka", relay)
            cluster = around.enter_context(standalone(directory)) if case.on_cluster else None
            checkpoint_home = home if case.home == "checkpoint" else None
            stand = Stand(
                directory,
                kafka,
                checkpoint_home,
                report,
                of_gateway,
                cluster,
                case.response_timeout_s,
                clusters=(CELL, *(f"other-{number + 1}" for number in range(case.others))),
                **environment,
            )
            try:
                stand.start()
                yield stand
                is_done = True
            finally:
                stand.close()
    finally:
        if is_done:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            report(f"what there is of it is in {directory}")


@contextmanager
def mounted(home: Path, mib: int) -> Iterator[None]:
    """A small file system while entered; none for a size of 0."""
    if not mib:
        yield
        return
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(home)]
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


def faked_time(directory: Path) -> dict[str, str]:
    """Variables under which a process reads its clock's offset from a file."""
    file = directory / "clock"
    file.write_text("+0s")
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def one_round(stand: Stand, case: Case, report: Report) -> Round:
    """Inject the fault under load and check the result."""
    report(f"{case.name}: {case.what}")
    begin = time.monotonic()
    wrong, recovered, lost, twice = "", 0.0, 0, 0
    again = requests = 0
    try:
        again_before = stand.look().repeated
        load, starts = stand.load(), stand.starts
        case.fault(stand)
        recovered = stand.wait_until_it_goes_on(load)
        assert stand.starts == starts or not case.is_borne, "something has ended"
        load.end()
        with stand.client() as client:
            lost, twice = load.wrong(client)
        found = stand.look()
        again, requests = found.repeated - again_before, found.requests
    except AssertionError as error:
        wrong = str(error)[:2000] or "an assertion"
    report(
        f"{case.name}: lost {lost}, twice {twice}, written again {again}, goes on after"
        f" {recovered:.1f} s, {time.monotonic() - begin:.0f} s in all {wrong}"
    )
    return Round(case.name, lost, twice, again, recovered, requests, wrong)
