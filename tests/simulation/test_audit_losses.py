"""Audit of records deleted by an administrator."""

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import RecordAudit, SendOutcome, SentRecord
from brokertwin.simulation.audit_losses import EVERYBODY, Losses
from brokertwin.simulation.plan import PASSING

AT, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Seen:
    """Three records of a partition, written at 100, 200, 300; the log has the last ones."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.losses = Losses(self.violations.append)
        self.records = RecordAudit(self.violations.append, self.losses)
        for offset, name in enumerate(("a", "b", "c")):
            written_at = 100 * (offset + 1)
            self.records.sent[name] = SentRecord("p", "", AT, SendOutcome.ACKED, offset, written_at)
            self.records.read("billing", AT, offset, name, is_committed=True)

    def hold(self, first: int) -> list[str]:
        log = list(enumerate(("a", "b", "c")))[first:]
        self.records.hold({AT: log}, {AT: log})
        return self.violations


def test_a_record_with_a_pending_deletion_may_be_lost() -> None:
    for first in (0, 2):
        seen = Seen()
        seen.losses.deletes(AT, 2)
        assert seen.hold(first) == []


def test_a_record_without_deletion_must_exist() -> None:
    seen = Seen()
    seen.losses.deletes(AT, 1)
    seen.losses.deletes(OTHER, 3)
    assert "b was acknowledged at offset 1, but is not in the log" in seen.hold(2)


def test_a_deleted_record_must_not_exist() -> None:
    seen = Seen()
    seen.losses.deletes(AT, 2)
    seen.losses.deleted(AT, 2)
    assert seen.hold(1) == ["orders-0 was deleted up to 2, and has b at 1"]


@pytest.mark.parametrize(("first", "lost"), [(2, []), (3, ["c"])])
def test_a_record_younger_than_the_retention_must_exist(first: int, lost: list[str]) -> None:
    seen = Seen()
    seen.losses.grows_old(retention_ms=150)
    assert seen.records.may_be_gone("c")
    seen.losses.stays(now=400)
    assert [text.partition(" ")[0] for text in seen.hold(first)] == lost * 2


def test_deleting_a_topic_affects_only_its_records() -> None:
    seen = Seen()
    at = TopicPartition(PASSING, 0)
    seen.records.sent["d"] = SentRecord("p", "", at, SendOutcome.ACKED, 0, 400)
    assert seen.hold(0) == []
    assert seen.records.may_be_gone("d")
    assert not seen.records.may_be_gone("a")


@pytest.mark.parametrize(
    ("written_at", "now", "is_wrong"),
    [(1_600, 1_700, True), (1_000, 1_700, False), (1_600, 5_001, False)],
)
@pytest.mark.parametrize("user", [EVERYBODY, "p", "q"])
def test_acknowledging_a_denied_write_is_a_violation(
    written_at: int, now: int, is_wrong: bool, user: str
) -> None:
    seen = Seen()
    seen.losses.denies(user)
    seen.losses.denied(100, 5_000)
    assert seen.losses.may_be_denied("p#2") == (user != "q")
    seen.losses.acked("p#2", AT, written_at, now, "a")
    is_wrong = is_wrong and user != "q"
    assert seen.violations == [f"a is acknowledged at {now}; writing is denied"] * is_wrong
