"""The score: statements of audit, `audit --follow` and live, compared with known truth.

`make score SEEDS=1000` prints, for each kind of finding and each cause, how many are true, false
and missing.
"""

import argparse
import random
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from brokertwin.protocol.batch_headers import Batch, BatchPartition, Headers
from brokertwin.recordings import sentences
from brokertwin.recordings.audit.one_pass import OnePass
from brokertwin.recordings.audit.one_pass import judged as judged_by_machines
from brokertwin.recordings.audit.spool import Spool
from brokertwin.recordings.formats.growing import GrowingFiles
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.exchange import exchanges_of
from brokertwin.recordings.replay import recording
from brokertwin.simulation.histories import History, draw_history, run_history
from brokertwin.simulation.request_logs import write_logs
from tests.score.accidents import ACCIDENTS
from tests.score.damage import DAMAGES, REAL_DAMAGES, Lines
from tests.score.goldens import Golden, golden, names
from tests.score.judges import Judged, Verdict, judged
from tests.score.known_truth import KnownTruth
from tests.score.missing import expected
from tests.support.live import LiveMachines, cut

TOLERANCE_MS = 150
"""Clocks differ by some ms, and a thread completes a response up to 60 ms late."""

ROLLED_AFTER = 200
SHOWN = 30
"""Maximum number of false and of missing statements that are printed."""

WHOLE = "whole"


class Reader(NamedTuple):
    """A way to read logs; `read` returns what it states."""

    name: str
    read: Callable[[Lines, Headers | None, random.Random], list[f.Finding]]


class FalseStatement(NamedTuple):
    seed: int | str
    reader: str
    damage: str
    judged: Judged

    def __str__(self) -> str:
        found = self.judged.finding
        name = f"seed {self.seed}" if isinstance(self.seed, int) else self.seed
        return (
            f"{name}, {self.reader}, {self.damage}: {found.kind}"
            f" {self.judged.cause or '(itself)'} of {found.subject.name}"
            f" at {found.line.place} (client {found.line.name}, {found.line.api},"
            f" {found.line.time} to {found.line.end}): {self.judged.why}"
        )


class Score(NamedTuple):
    """Counts by kind and cause, and false statements.

    Attributes:
        counts: by kind, cause and verdict.
        found: expected statements that were made, by kind; only of whole logs.
        missing: expected statements that were not made, by kind.
        absent: the missing ones, with their seeds, as text: processes pass it on.
        checksums: of the sentences and places, like `counts`.
    """

    counts: Counter[tuple[str, str, Verdict]]
    found: Counter[str]
    missing: Counter[str]
    false: list[FalseStatement]
    absent: list[tuple[int | str, str]]
    checksums: Counter[tuple[str, str, Verdict]]

    @classmethod
    def empty(cls) -> "Score":
        return cls(Counter(), Counter(), Counter(), [], [], Counter())

    def add(self, other: "Score") -> None:
        self.counts.update(other.counts)
        self.found.update(other.found)
        self.missing.update(other.missing)
        self.false.extend(other.false)
        self.absent.extend(other.absent)
        self.checksums.update(other.checksums)

    def count(self, judged_: Judged) -> None:
        key = judged_.kind, judged_.cause, judged_.verdict
        self.counts[key] += 1
        found = judged_.finding
        text = f"{found.line.place} {found.certainty} {sentences.said(found)}"
        self.checksums[key] += zlib.crc32(text.encode())

    @property
    def said(self) -> list[str]:
        """The statements of each kind: their number, and a checksum of their sentences."""
        return [
            f"{kind} {cause or '(itself)'} {verdict}: {count}"
            f" ({self.checksums[kind, cause, verdict] % 2**32:08x})"
            for (kind, cause, verdict), count in sorted(self.counts.items())
        ]

    @property
    def recall(self) -> float:
        """The part of the expected statements that were made."""
        whole = self.found.total() + self.missing.total()
        return self.found.total() / whole if whole else 1.0


# Readers


def audit(lines: Lines, headers: Headers | None, _: random.Random) -> list[f.Finding]:
    with tempfile.TemporaryDirectory() as folder:
        files = write_logs(lines, Path(folder), ROLLED_AFTER)
        with Spool(headers) as spool:
            spool.read(partial(read_files, files, FileReading()))
            return judged_by_machines(spool, kept=None).every


def follow(lines: Lines, headers: Headers | None, chance: random.Random) -> list[f.Finding]:
    """What `audit --follow` states while the logs grow: each time of what is there."""
    found: list[f.Finding] = []
    times = [each.time for of_broker in lines.values() for each in of_broker]
    shares = (*sorted(chance.random() for _ in range(3)), 1.0)
    ends = [min(times) + share * (max(times) - min(times)) for share in shares]
    machines: OnePass | None = None
    with tempfile.TemporaryDirectory() as folder, Spool(headers, grows=True) as spool:
        paths = [Path(folder) / f"broker-{broker}.kafka-request.log" for broker in lines]
        for path in paths:
            path.touch()
        files = GrowingFiles(paths, FileReading())
        for begin, end in pairwise((0, *ends)):
            for path, of_broker in zip(paths, lines.values(), strict=True):
                with path.open("a", encoding="utf-8") as file:
                    new = (each for each in of_broker if begin < each.time <= end)
                    file.writelines(f"{each.text}\n" for each in new)
            spool.read(files.read)
            if len(spool):
                facts = spool.facts()
                machines = machines or OnePass(facts, kept=None)
                machines.take(spool)
                machines.expire(machines.end if chance.randrange(2) else float("inf"))
                found += (each for of_kind in machines.by_kind().values() for each in of_kind)
    return found


def live(lines: Lines, headers: Headers | None, chance: random.Random) -> list[f.Finding]:
    """What the machines of live state after micro-batches of random length."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_logs(lines, Path(folder))
        exchanges = exchanges_of(recording.read(files, FileReading(), headers).exchanges)
    machines = LiveMachines()
    for part in cut(exchanges, chance.randrange(2**31), 120):
        machines.batch(part)
    machines.end()
    return [each for each in machines.found.values() if not each.is_withdrawn]


READERS: Mapping[str, Callable[[Lines, Headers | None, random.Random], list[f.Finding]]] = {
    each.__name__: each for each in (audit, follow, live)
}


# Scores


def headers_of(batches: Mapping[tuple[str, int], Mapping[int, Batch]]) -> Headers:
    return {
        BatchPartition(*place): [by_offset[offset] for offset in sorted(by_offset)]
        for place, by_offset in batches.items()
    }


def score_of(history: History, seed: int, cases: Iterable[tuple[str, str]]) -> Score:
    """The score of a history.

    `cases`: readers and damages.
    """
    score = Score.empty()
    headers = headers_of(history.truth.batches)
    for reader, damage in cases:
        chance = random.Random(f"{seed}/{reader}/{damage}")
        worse = DAMAGES[damage]
        lines = worse.change(history.lines, chance)
        off_ms = TOLERANCE_MS + worse.off_ms
        truth = KnownTruth(history.truth.facts, off_ms, batches=history.truth.batches)
        found = READERS[reader](lines, headers if worse.has_headers else None, chance)
        for each in found:
            for verdict in judged(each, truth):
                score.count(verdict)
                if verdict.verdict is Verdict.FALSE:
                    score.false.append(FalseStatement(seed, reader, damage, verdict))
        if reader == audit.__name__ and damage == WHOLE:
            for wanted in expected(truth, lines):
                is_there = any(map(wanted.is_by, found))
                (score.found if is_there else score.missing)[wanted.kind] += 1
                if not is_there:
                    score.absent.append((seed, str(wanted)))
    return score


def cases_of(seed: int) -> list[tuple[str, str]]:
    """The cases of a seed: its whole log, and another worse one for each reader."""
    worse = [name for name in DAMAGES if name != WHOLE]
    return [
        (audit.__name__, WHOLE),
        *(
            (reader, worse[(seed + 3 * number) % len(worse)])
            for number, reader in enumerate(READERS)
        ),
    ]


def score_of_seed(seed: int, cases: Sequence[tuple[str, str]] = ()) -> Score:
    return score_of(run_history(draw_history(seed)), seed, cases or cases_of(seed))


def all_cases(seed: int) -> Score:
    return score_of_seed(seed, [(reader, damage) for reader in READERS for damage in DAMAGES])


GOLDEN_TOLERANCE_MS = 2_000
"""Clocks of one machine agree, but a busy broker writes a line late."""


def score_of_golden(name: str, cases: Iterable[tuple[str, str]], draw: int = 0) -> Score:
    """The score of a recorded accident; a warning that its script does not say is false."""
    score = Score.empty()
    recorded = golden(name)
    for reader, damage in cases:
        chance = random.Random(f"{name}/{reader}/{damage}/{draw}")
        worse = REAL_DAMAGES[damage]
        tolerance_ms = GOLDEN_TOLERANCE_MS + worse.off_ms
        truth = KnownTruth(recorded.facts, tolerance_ms, is_whole=False)
        found = READERS[reader](worse.change(recorded.lines, chance), None, chance)
        for each in found:
            for verdict in judged(each, truth):
                if verdict.verdict is Verdict.UNDECIDED and not verdict.cause:
                    verdict = _said(verdict, recorded)
                score.count(verdict)
                if verdict.verdict is Verdict.FALSE:
                    score.false.append(FalseStatement(name, reader, damage, verdict))
        if reader == audit.__name__ and damage == WHOLE:
            absent = recorded.missing(found)
            score.found["said by a script"] += len(ACCIDENTS[name].must) - len(absent)
            score.missing["said by a script"] += len(absent)
            score.absent.extend((name, each) for each in absent)
    return score


def _said(judged_: Judged, recorded: Golden) -> Judged:
    """Judge a warning or an error by the script."""
    if judged_.finding.severity < f.Severity.WARNING:
        return judged_
    if recorded.is_said(judged_.finding):
        return judged_._replace(verdict=Verdict.TRUE)
    return judged_._replace(verdict=Verdict.FALSE, why="the script does not say so")


# Table


def table(score: Score) -> Iterator[str]:
    yield f"{'kind':28} {'cause':22} {'true':>7} {'false':>7} {'undecided':>9}"
    rows = sorted({(kind, cause) for kind, cause, _ in score.counts})
    for kind, cause in rows:
        true, false, undecided = (score.counts[kind, cause, each] for each in Verdict)
        yield f"{kind:28} {cause:22} {true:7} {false:7} {undecided:9}"
    yield ""
    yield f"{'expected':28} {'found':>7} {'missing':>7}"
    for kind in sorted({*score.found, *score.missing}):
        yield f"{kind:28} {score.found[kind]:7} {score.missing[kind]:7}"
    yield f"{'all':28} {score.found.total():7} {score.missing.total():7}  {score.recall:.1%}"


def all_cases_of_golden(name: str) -> Score:
    return score_of_golden(
        name, [(reader, damage) for reader in READERS for damage in REAL_DAMAGES]
    )


def shown(score: Score, most: int | None) -> Iterator[str]:
    yield from table(score)
    yield from (f"FALSE: {each}" for each in score.false[:most])
    yield from (f"MISSING: {name}: {wanted}" for name, wanted in score.absent[:most])


def main() -> int:
    """Print the score of some seeds and all goldens; return 1 if a statement is false."""
    parser = argparse.ArgumentParser(prog="python -m tests.score.scoring")
    parser.add_argument("seeds", nargs="?", type=int, default=0, help="number of seeds, from 0")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--golden", choices=names(), help="one recorded accident")
    wanted = parser.parse_args()
    score = Score.empty()
    if wanted.seed is not None:
        score.add(all_cases(wanted.seed))
    elif wanted.golden is not None:
        score.add(all_cases_of_golden(wanted.golden))
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for each in pool.map(all_cases_of_golden, names()):
                score.add(each)
            for each in pool.map(all_cases, range(wanted.seeds), chunksize=2):
                score.add(each)
    is_one = wanted.seed is not None or wanted.golden is not None
    sys.stdout.write("".join(f"{line}\n" for line in shown(score, None if is_one else SHOWN)))
    return bool(score.false)


if __name__ == "__main__":
    sys.exit(main())
