"""Findings about committed offsets, and about lag."""

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import commits, lag
from brokertwin.recordings.history.findings import Severity
from tests.support.audits import whole
from tests.support.synthetic_recording import GROUP, TOPIC, SyntheticRecording


def test_client_that_commits_less_than_before_is_named() -> None:
    recording = SyntheticRecording()
    recording.commit(10)
    recording.commit(10, "b")
    recording.commit(4, "c")
    (found,) = recording.found(commits.back)
    assert (found.subject, found.by, found.total) == (f"group {GROUP}", ["c"], 1)
    assert found.evidence[0].said.startswith("orders-0 from 10 (client b's OFFSET_COMMIT at")


def test_overlapping_commits_have_no_order() -> None:
    recording = SyntheticRecording()
    recording.commit(10, at=0, end=20)
    recording.commit(4, at=15, end=30)
    assert recording.found(commits.back) == []


@pytest.mark.parametrize(("committed", "kinds"), [(True, ["offset-back"]), (False, [])])
def test_offsets_of_a_transaction_count_when_it_is_committed(
    committed: bool, kinds: list[str]
) -> None:
    recording = SyntheticRecording()
    recording.commit(5)
    recording.commit(10, api="TXN_OFFSET_COMMIT")
    assert recording.found(commits.back) == []
    recording.end_txn("a", 0, committed=committed)
    recording.commit(7)
    assert [each.kind for each in recording.found(commits.back)] == kinds


def test_a_marker_does_not_commit_an_offset_that_a_later_commit_has_superseded() -> None:
    """The order of writes counts, not that of markers (OffsetMetadataManager)."""
    recording = SyntheticRecording()
    recording.commit(10, api="TXN_OFFSET_COMMIT")
    recording.commit(5)
    recording.end_txn("a", 0, committed=True)
    recording.commit(7)
    assert recording.found(commits.back) == []


@pytest.mark.parametrize(("arrived", "kinds"), [(3_500, []), (5_010, ["offset-back"])])
def test_commit_that_overlaps_the_end_of_a_transaction_may_have_come_before_its_offsets(
    arrived: int, kinds: list[str]
) -> None:
    recording = SyntheticRecording()
    recording.commit(10, api="TXN_OFFSET_COMMIT", at=2_000)
    recording.end_txn("a", 0, committed=True, at=3_000, end=5_000)
    recording.commit(7, at=arrived, end=5_020)
    assert [each.kind for each in recording.found(commits.back)] == kinds


def test_deleted_offset_does_not_go_back() -> None:
    recording = SyntheticRecording()
    recording.commit(10)
    done = [{"partitionIndex": 0, "errorCode": 0}]
    response = {"errorCode": 0, "topics": [{"name": TOPIC, "partitions": done}]}
    recording.add("admin", "OFFSET_DELETE", {"groupId": GROUP, "topics": []}, response)
    recording.commit(4)
    assert recording.found(commits.back) == []


def test_refused_commits_are_counted_by_error() -> None:
    found = commits.stale(whole("raw_group_errors").history)
    assert {each.code: (each.total, each.severity) for each in found} == {
        Error.UNKNOWN_MEMBER_ID: (4, Severity.WARNING),
        Error.REBALANCE_IN_PROGRESS: (2, Severity.WARNING),
        Error.ILLEGAL_GENERATION: (1, Severity.WARNING),
    }
    for each in found:
        assert (
            f"refused: {Error(each.code).name}. What was not committed is read again." in each.what
        )


def test_lag_grows_by_the_certain_difference() -> None:
    recording = SyntheticRecording()
    recording.commit(0)
    recording.high_watermark(100)
    recording.high_watermark(1_099)
    recording.commit(0)
    assert recording.found(lag.grown) == [], "at the first commit it may have been 100 already"
    recording.high_watermark(1_100)
    recording.commit(0)
    (found,) = recording.found(lag.grown)
    assert found.what == "The lag grew by 1000 records, from 100 to 1100."
    assert [each.place for each in found.evidence] == ["h:5000"]


def test_lag_is_compared_with_the_least_one_before() -> None:
    recording = SyntheticRecording()
    for end in (0, 500, 1_000):
        recording.high_watermark(end)
        recording.commit(0)
        recording.high_watermark(end)
    assert [each.total for each in recording.found(lag.grown)] == [1]


def test_records_that_are_read_again_are_no_growth_if_the_upper_bound_comes_later() -> None:
    recording = SyntheticRecording()
    recording.high_watermark(5_000)
    recording.commit(5_000, at=10_000, end=10_010)
    recording.commit(3_000, at=20_000, end=20_010)
    assert recording.found(lag.grown) == []
    recording.high_watermark(5_000, at=20_005, end=20_020)
    assert recording.found(lag.grown) == []


def test_growth_is_found_after_a_group_that_was_set_back_has_caught_up() -> None:
    recording = SyntheticRecording()
    recording.high_watermark(5_000)
    for offset in (5_000, 2_000, 5_000):
        recording.commit(offset)
        recording.high_watermark(5_000)
    recording.high_watermark(6_000)
    recording.commit(5_000)
    (found,) = recording.found(lag.grown)
    assert found.what == "The lag grew by 1000 records, from 0 to 1000."


def test_group_that_keeps_up_has_no_lag() -> None:
    recording = SyntheticRecording()
    for end in (100, 5_000, 90_000):
        recording.high_watermark(end)
        recording.commit(end)
    assert recording.found(lag.grown) == []


def test_commit_beyond_the_log_end_is_found_if_both_high_watermarks_are_below_it() -> None:
    recording = SyntheticRecording()
    recording.commit(150)  # no high watermark before it is recorded
    recording.high_watermark(100)
    recording.commit(120)
    recording.high_watermark(120)
    recording.commit(127)
    assert recording.found(lag.beyond_end) == []
    recording.high_watermark(121)
    (found,) = recording.found(lag.beyond_end)
    assert found.what == "Client a committed up to 6 records beyond the log end."
    assert [each.said for each in found.evidence] == ["committed 127, 6 beyond the log end"]


def test_lag_restarts_after_the_high_watermark_goes_back() -> None:
    recording = SyntheticRecording()
    recording.high_watermark(5_000)
    recording.commit(5_000)
    recording.high_watermark(10)
    recording.high_watermark(3_000)
    recording.commit(10)
    assert recording.found(lag.grown) == []


def test_end_for_read_committed_is_no_high_watermark() -> None:
    def grown(isolation: int, timestamp: int) -> int:
        recording = SyntheticRecording()
        recording.high_watermark(100)
        recording.commit(100)
        recording.high_watermark(100)
        place = [{"partitionIndex": 0, "timestamp": timestamp}]
        request = {"isolationLevel": isolation, "topics": [{"name": TOPIC, "partitions": place}]}
        end = [{"partitionIndex": 0, "errorCode": 0, "offset": 9_000}]
        recording.add(
            "a", "LIST_OFFSETS", request, {"topics": [{"name": TOPIC, "partitions": end}]}
        )
        recording.commit(100)
        return len(recording.found(lag.grown))

    assert [grown(0, -1), grown(1, -1), grown(0, -2)] == [1, 0, 0]
