"""Audit of records: each guarantee, kept and violated."""

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import Log, RecordAudit, SendOutcome, SentRecord

AT = TopicPartition("orders", 0)


def seen(*names: str, transaction: str = "") -> tuple[RecordAudit, list[str]]:
    violations: list[str] = []
    records = RecordAudit(violations.append)
    for offset, name in enumerate(names):
        records.sent[name] = SentRecord("producer", transaction, AT)
        records.acked(name, offset)
    return records, violations


def hold(records: RecordAudit, log: Log, committed: Log | None = None) -> None:
    records.hold({AT: log}, {AT: log if committed is None else committed})


def test_acknowledged_records_occur_once_in_order_at_their_offsets() -> None:
    records, violations = seen("a", "b")
    records.read("billing", AT, 0, "a", is_committed=True)
    hold(records, [(0, "a"), (1, "b")])
    assert violations == []


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([(0, "a")], "b was acknowledged at offset 1, but is not in the log"),
        ([(0, "a"), (1, "b"), (2, "b")], "b is in the logs 2 times"),
        ([(0, "b"), (1, "a")], "a of producer is after b, sent later"),
        ([(0, "a"), (5, "b")], "b was acknowledged at offset 1 of orders-0, but is at"),
    ],
)
def test_violations_of_these_guarantees_are_reported(log: Log, message: str) -> None:
    records, violations = seen("a", "b")
    hold(records, log)
    assert any(message in violation for violation in violations), violations


def test_a_record_that_certainly_failed_must_not_exist() -> None:
    records, violations = seen("a")
    records.given_up("a", may_be_written=True)
    hold(records, [(0, "a")])
    assert violations == []
    records.given_up("a", may_be_written=False)
    hold(records, [(0, "a")])
    assert "given up for certain" in violations[0]


def test_all_readers_see_the_same_record_at_an_offset() -> None:
    records, violations = seen("a", "b")
    records.read("billing", AT, 0, "a", is_committed=False)
    records.read("audit", AT, 0, "b", is_committed=False)
    assert violations == ["orders-0 has a at 0, and b, too"]


@pytest.mark.parametrize(
    ("outcome", "committed", "message"),
    [
        (SendOutcome.ACKED, ["a", "b"], ""),
        (SendOutcome.ACKED, ["a"], "was committed, but of ['a', 'b'] only ['a']"),
        (SendOutcome.GIVEN_UP, [], ""),
        (SendOutcome.GIVEN_UP, ["a", "b"], "was aborted, but ['a', 'b'] are visible"),
        (SendOutcome.IN_DOUBT, [], ""),
        (SendOutcome.IN_DOUBT, ["b"], "with ['a', 'b'] only ['b'] are visible"),
    ],
)
def test_a_transaction_is_atomic(outcome: SendOutcome, committed: list[str], message: str) -> None:
    records, violations = seen("a", "b", transaction="t")
    records.transactions["t"] = outcome
    log = [(0, "a"), (1, "b")]
    hold(records, log, [each for each in log if each[1] in committed])
    assert violations == [] if not message else message in violations[0]


def test_reading_an_aborted_record_with_read_committed_is_a_violation() -> None:
    records, violations = seen("a", transaction="t")
    records.read("billing", AT, 0, "a", is_committed=True)
    hold(records, [(0, "a")], [])
    assert violations == ["a was read by read_committed, but was aborted"]


def test_a_record_of_an_open_transaction_is_not_read_by_read_committed() -> None:
    records, violations = seen("a", transaction="t")
    records.running.add("t")
    records.read("billing", AT, 0, "a", is_committed=False)
    assert violations == []
    records.read("billing", AT, 0, "a", is_committed=True)
    assert violations == ["a was read by read_committed; its transaction is open"]
