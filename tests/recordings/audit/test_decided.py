"""Answers that differ from the rules, where a recording begins with its broker."""

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.audit.decided import FEW, differing
from brokertwin.recordings.audit.finding import Severity
from tests.support.faults import compared, compared_history, planted, recorded, told

CAPTURE, SIZE = "txn_fencing_ck", 120


def test_a_wrong_answer_is_found_with_its_line() -> None:
    """A machine that is one offset off: the right answers differ from it."""

    def shift(answer: object) -> None:
        for topic in answer.responses:  # type: ignore[attr-defined]
            for partition in topic.partition_responses:
                partition.base_offset += 1

    with planted({"PRODUCE": told(shift)}):
        found = list(differing(compared(CAPTURE, SIZE)))
    produced = [each.id for each in recorded(CAPTURE).exchanges[:SIZE] if each.api == "PRODUCE"]
    (finding,) = found
    assert (finding.kind, finding.severity) == ("answer-differs", Severity.ERROR)
    assert finding.subject == "answers of PRODUCE"
    assert {each.place for each in finding.evidence} <= {*produced}
    assert len(finding.evidence) > 1
    first = finding.evidence[0].said
    assert first.endswith("baseOffset is 0, by the rules 1")
    assert first in finding.what


@pytest.mark.parametrize("size", [1, FEW - 1, 60, SIZE, None])
def test_recording_that_ends_early_gives_no_finding(size: int | None) -> None:
    assert list(differing(compared(CAPTURE, size))) == []


def test_recording_that_does_not_begin_with_its_broker_is_rejected() -> None:
    later = compared_history(recorded(CAPTURE).exchanges[60:])
    with pytest.raises(UserError, match="does not start with its broker") as error:
        list(differing(later))
    assert "--broker-config" in (error.value.hint or "")
