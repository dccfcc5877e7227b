"""The pass over a spool finds what the machines find in the whole recording."""

from functools import partial

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.one_pass import pass_over
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from tests.support.audits import READING, RECORDINGS, whole


def passed(name: str) -> list[AuditFinding]:
    source = partial(read_files, RECORDINGS[name], READING.get(name, FileReading()))
    return findings(pass_over(source).history)


@pytest.mark.parametrize("name", RECORDINGS)
def test_pass_finds_the_same_as_the_whole_recording(name: str) -> None:
    assert [each.document(1_000) for each in passed(name)] == [
        each.document(1_000) for each in whole(name).findings
    ]
