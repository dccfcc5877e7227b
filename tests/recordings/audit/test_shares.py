"""Findings about share groups (KIP-932)."""

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import shares
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.history.findings import Severity
from brokertwin.state.share.share_partition import ACCEPT, REJECT, RELEASE
from tests.support import audits
from tests.support.share_exchanges import Shares
from tests.support.synthetic_recording import GROUP


def of(kind: str, subject: str) -> AuditFinding:
    found = audits.whole("share_fetch").findings
    return next(each for each in found if (each.kind, each.subject) == (kind, subject))


def test_records_whose_lock_was_over_are_a_warning_and_those_given_back_none() -> None:
    late, back = of("records-redelivered", "group sf-locks"), of("records-redelivered", "group sf")
    assert (late.severity, late.total) == (Severity.WARNING, 29)
    assert late.what == (
        "29 redeliveries, of one record up to 4; 21 because client tester gave records back;"
        " 8 because client tester kept them too long."
    )
    assert (back.severity, back.total) == (Severity.INFO, 4)


def test_former_member_of_records_is_named() -> None:
    recording = Shares()
    recording.give("slow", (0, 9, 1))
    recording.give("quick", (0, 9, 2))
    (found,) = recording.found(shares.redelivered)
    assert (found.severity, found.clients, found.by) == (Severity.WARNING, ["quick"], ["slow"])
    given = "orders-0 0 to 9 to quick; before, slow got them at h:0, not acknowledged"
    assert found.evidence[0].said == given


@pytest.mark.parametrize("count", [3, 4])
def test_unrecorded_delivery_accuses_no_client(count: int) -> None:
    recording = Shares()
    recording.give("a", (0, 9, 1))
    recording.give("b", (0, 9, count))
    (found,) = recording.found(shares.redelivered)
    assert (found.severity, found.by) == (Severity.INFO, [])


def test_rejected_records_are_counted_by_client() -> None:
    recording = Shares()
    recording.acknowledge("a", 0, 9, REJECT)
    recording.acknowledge("a", 10, 12, ACCEPT, REJECT, RELEASE)
    recording.acknowledge("a", 20, 29, REJECT, error=Error.INVALID_RECORD_STATE)
    (found,) = recording.found(shares.rejected)
    assert (found.subject, found.total) == (f"group {GROUP}, client a", 11)


def test_late_acknowledgement_has_the_new_member_of_the_records() -> None:
    recording = Shares()
    recording.give("slow", (0, 9, 1))
    recording.give("quick", (0, 9, 2))
    recording.acknowledge("slow", 0, 9, ACCEPT, error=Error.INVALID_RECORD_STATE)
    (found,) = recording.found(shares.not_held)
    assert (found.kind, found.clients, found.by) == ("acknowledge-refused", ["slow"], ["quick"])


def test_second_acknowledgement_of_a_member_accuses_no_other() -> None:
    recording = Shares()
    recording.give("a", (0, 9, 1))
    recording.acknowledge("a", 0, 9, ACCEPT)
    recording.acknowledge("a", 0, 9, ACCEPT, error=Error.INVALID_RECORD_STATE)
    (found,) = recording.found(shares.not_held)
    assert found.by == []


def test_sessions_that_are_lost_come_again_and_those_without_room_are_a_warning() -> None:
    recording = Shares()
    for code in (Error.SHARE_SESSION_NOT_FOUND, Error.SHARE_SESSION_LIMIT_REACHED):
        recording.add("a", "SHARE_FETCH", {"groupId": GROUP, "memberId": "a"}, {"errorCode": code})
    assert [(each.kind, each.severity) for each in recording.found(shares.sessions)] == [
        ("share-session-lost", Severity.INFO),
        ("share-session-denied", Severity.WARNING),
    ]


def test_members_of_share_groups_join_and_leave_as_others_do() -> None:
    found = audits.whole("share_groups").findings
    reported = {each.what for each in found if each.kind == "rebalances"}
    said = "tester joined 3 times, tester left 3 times"
    assert any(said in each for each in reported)
