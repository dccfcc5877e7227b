"""The findings of every recording of the repository stay the same, wording apart.

After an intended change, set WRITE_FINDINGS=1 to write them again.
"""

import json
import os

import pytest

from brokertwin.recordings.audit.finding import AuditFinding
from tests.support import audits
from tests.support.sources import ROOT

FINDINGS = ROOT / "tests" / "recordings" / "history" / "findings.json"


def summary(finding: AuditFinding) -> str:
    document = finding.document(0)
    parts = [document[each] for each in ("severity", "kind", "subject", "error", "count")]
    clients, by = ",".join(sorted(finding.clients)), ",".join(sorted(finding.by))
    places = sorted({each.place for each in finding.evidence})
    lines = " ".join(each.rpartition(":")[2] for each in places)
    return f"{' | '.join(map(str, parts))} | {clients} | {by} | {lines}"


def summaries(recording: str) -> list[str]:
    return sorted(map(summary, audits.whole(recording).findings))


def test_findings_are_written() -> None:
    if "WRITE_FINDINGS" in os.environ:
        found = {each: summaries(each) for each in sorted(audits.RECORDINGS)}
        FINDINGS.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(FINDINGS.read_text()).keys() == audits.RECORDINGS.keys()


@pytest.mark.parametrize("recording", sorted(audits.RECORDINGS))
def test_findings_of_a_recording_stay_the_same(recording: str) -> None:
    assert summaries(recording) == json.loads(FINDINGS.read_text())[recording]
