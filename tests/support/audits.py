"""Recordings of the repository for the audit: whole, and cut at lines of their files."""

import gzip
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.history.findings import Incident
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.recording import Exchange
from tests.support.requestlogs import RUNS, SINGLE, logs_of
from tests.support.sources import ROOT

CAPTURES = tuple(sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz")))
KROXYLICIOUS = ROOT / "tests" / "requestlogs" / "kroxylicious" / "json.log.gz"
RECORDINGS: dict[str, tuple[Path, ...]] = {
    **{path.name.removesuffix(".jsonl.gz"): (path,) for path in CAPTURES},
    **{run: tuple(logs_of(run)) for run in RUNS},
    "single": (SINGLE,),
    "kroxylicious": (KROXYLICIOUS,),
}
READING = {"kroxylicious": FileReading(broker=1)}


class Audited(NamedTuple):
    history: History
    findings: list[AuditFinding]


@cache
def whole(name: str) -> Audited:
    return _audited(RECORDINGS[name], name)


def _audited(paths: Sequence[Path], name: str) -> Audited:
    history = read(paths, READING.get(name, FileReading())).history
    return Audited(history, findings(history))


class Unfolded:
    """A history whose findings are not folded into incidents, as an entity of `live` has them."""

    incidents: Sequence[Incident] = ()

    def __init__(self, history: History) -> None:
        self.found, self.undecoded = history.unfolded, history.undecoded


@cache
def unfolded(name: str) -> list[AuditFinding]:
    return findings(Unfolded(whole(name).history))


@cache
def exchanges(name: str) -> list[Exchange]:
    return recording.read(RECORDINGS[name], READING.get(name, FileReading())).exchanges


@cache
def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def cut(name: str, where: Callable[[Path], tuple[float, float]], directory: Path) -> Audited:
    """The lines of each file from one share of it to another; those that stay keep their numbers.

    Raises:
        UserError: no exchange is left.
    """
    paths = []
    for path in RECORDINGS[name]:
        found = lines(path)
        first, last = (int(share * len(found)) for share in sorted(where(path)))
        kept = [line if first <= n < last else b"\n" for n, line in enumerate(found)]
        paths.append(directory / path.name.removesuffix(".gz"))
        paths[-1].write_bytes(b"".join(kept))
    return _audited(paths, name)


def stronger(finding: AuditFinding, former: Audited) -> str:
    """Return how a finding exceeds those of the recording that contains this one, or ""."""
    subject = finding.subject
    for topic_id, name in former.history.names.items():
        subject = subject.replace(topic_id, name)
    key = (finding.kind, subject, finding.code)
    same = [each for each in former.findings if (each.kind, each.subject, each.code) == key]
    if not same:
        return "" if _is_folded(finding, former) else f"{key} is new"
    by = {}
    for each in (line for one in same for line in one.evidence):
        by[each.place] = by.get(each.place, set()) | {*each.by}
    most = max(each.severity for each in same), max(each.total for each in same)
    is_folded = _is_folded(finding, former)
    if finding.severity > most[0] or (finding.total > most[1] and not is_folded):
        return f"{key} is worse: {finding.severity} {finding.total}"
    for each in finding.evidence:
        if not {*each.by} <= by.get(each.place, {*each.by}):
            return f"{key} accuses {each.by} at {each.place}, and not {by.get(each.place)}"
        is_reported = not each.client and each.said in {
            former.said for one in same for former in one.evidence
        }
        is_reported |= is_folded or any(_spans(one, each.time) for one in same)
        if each.place not in by and not is_reported:
            return f"{key} has the new line {each.place}"
    return ""


NEAR_MS = 1_000
"""An incident is shown by requests that arrived shortly before and after it."""


def _spans(finding: AuditFinding, time: float) -> bool:
    """Whether an incident lasted at a time: a cut recording may show it by another line."""
    times = [finding.begin, finding.end]
    times += [each[name] for each in finding.consequences for name in ("from", "to")]
    return bool(finding.consequences) and min(times) - NEAR_MS <= time <= max(times) + NEAR_MS


def _is_folded(finding: AuditFinding, former: Audited) -> bool:
    """Whether an incident of the whole recording has the finding among its consequences."""
    error = finding.document(0)["error"]
    consequences = [each for one in former.findings for each in one.consequences]
    return any(
        (each["kind"], each["error"]) == (finding.kind, error)
        and (finding.kind == "refused" or each["subject"] == finding.subject)
        for each in consequences
    )
