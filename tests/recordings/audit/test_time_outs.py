"""Findings about transactions that timed out, and producers known by their transactional id."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import producers, refusals
from brokertwin.recordings.explain.transactions import TransactionTimeline
from tests.support.synthetic_recording import SyntheticRecording, exchange

ABORTED = (
    "the coordinator, broker 1, aborted the transaction at 12:00:12.000 (h:12000), 11500 ms after"
    " it began: it was open for longer than transaction.timeout.ms (1000 ms)"
)


def timed_out(until: int = 20_000) -> SyntheticRecording:
    """A transaction that begins at 500 ms, times out at 12 s, and is committed at 14 s."""
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=1000, at=0)
    recording.take_in("AddPartitionsManager-client-1", 0, at=500)
    recording.write("a", at=501)
    recording.abort_marker(1, at=12_000)
    recording.end_txn("a", 0, Error.INVALID_TXN_STATE, at=14_000)
    recording.add("x", "METADATA", {"topics": []}, {"topics": []}, at=until)
    return recording


def test_a_transaction_that_timed_out_is_blamed_on_the_time_out() -> None:
    recording = timed_out()
    (found,) = recording.found(producers.timed_out)
    assert (found.kind, found.subject, found.total) == ("transaction-timed-out", "producer tx", 1)
    assert found.what == f"1 transaction of client a timed out; first: {ABORTED}."
    assert [each.place for each in found.evidence] == ["h:12000", "h:14000"]
    assert found.evidence[1].said == "END_TXN comes after it: 48 INVALID_TXN_STATE"
    assert recording.found(refusals.others) == []


def test_clients_own_recovery_after_a_time_out_is_not_blamed() -> None:
    recording = timed_out()
    recording.init("a", 1, at=14_100)
    recording.write("a", Error.INVALID_PRODUCER_EPOCH, at=15_000)
    recording.end_txn("a", 0, Error.PRODUCER_FENCED, at=15_100)
    found = recording.found(producers.fenced)[0]
    assert found.by == []
    assert ABORTED in found.what


def test_coordinator_log_that_ends_at_the_marker_does_not_show_a_time_out() -> None:
    recording = timed_out(until=14_000)
    recording.exchanges = [each for each in recording.exchanges if each.api != "END_TXN"][:-1]
    assert recording.found(producers.timed_out) == []


def test_log_of_another_broker_does_not_show_a_time_out() -> None:
    recording = timed_out()
    of_three = SyntheticRecording()
    of_three.exchanges = [each for each in recording.exchanges if each.api != "WRITE_TXN_MARKERS"]
    of_three.abort_marker(1, broker=3, at=12_000)
    of_three.exchanges.sort(key=lambda each: each.time)
    assert of_three.found(producers.timed_out) == []
    story = TransactionTimeline(of_three.exchanges, "tx").story()
    (marker,) = [each for each in story if each.api == "WRITE_TXN_MARKERS"]
    assert marker.said == (
        "the coordinator, broker 3, aborted the transaction at 12:00:12.000 (h:12000); the"
        " recording does not show why"
    )


def test_former_coordinator_may_have_taken_an_end_txn_that_it_did_not_answer() -> None:
    recording = timed_out()
    recording.exchanges = [e for e in recording.exchanges if e.api != "WRITE_TXN_MARKERS"]
    recording.abort_marker(1, broker=3, at=12_000)
    nothing = {"topics": []}
    recording.exchanges += [
        exchange(at, "x", "METADATA", nothing, nothing, broker=3) for at in (0, 20_000)
    ]
    recording.exchanges.sort(key=lambda each: each.time)
    assert recording.found(producers.timed_out) == []


def test_a_transaction_whose_time_out_is_not_recorded_has_not_timed_out_for_certain() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, at=0)
    recording.take_in("a", 0, at=500)
    recording.abort_marker(1, at=12_000)
    recording.add("x", "METADATA", {"topics": []}, {"topics": []}, at=20_000)
    assert recording.found(producers.timed_out) == []


def test_abort_that_a_client_requested_is_no_time_out() -> None:
    for is_new_producer in (False, True):
        recording = SyntheticRecording()
        recording.init("a", 0, timeout_ms=1000, at=0)
        recording.take_in("a", 0, at=500)
        if is_new_producer:
            recording.init("b", -1, Error.CONCURRENT_TRANSACTIONS, at=11_990)
        else:
            recording.end_txn("a", 0, committed=False, at=11_990)
        recording.abort_marker(1, at=12_000)
        recording.add("x", "METADATA", {"topics": []}, {"topics": []}, at=20_000)
        assert recording.found(producers.timed_out) == []


def test_late_commit_without_a_marker_is_a_time_out_if_only_an_abort_gives_the_error() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=1000)
    recording.take_in("a", 0)
    recording.end_txn("a", 0, Error.INVALID_TXN_STATE, at=14_000)
    (found,) = recording.found(producers.timed_out)
    assert found.what == (
        "1 transaction of client a timed out; first: commit refused with 48 INVALID_TXN_STATE after"
        " 13000 ms; transaction.timeout.ms is 1000 ms."
    )
    in_time = SyntheticRecording()
    in_time.init("a", 0, timeout_ms=60_000)
    in_time.take_in("a", 0)
    in_time.end_txn("a", 0, Error.INVALID_TXN_STATE, at=14_000)
    assert in_time.found(producers.timed_out) == []
    assert [each.kind for each in in_time.found(refusals.others)] == ["refused"]


def test_story_of_a_transaction_names_the_client_that_aborted_it() -> None:
    found = TransactionTimeline(timed_out().exchanges, "tx")
    entries = {each.api: each for each in found.story()}
    assert entries["WRITE_TXN_MARKERS"].said == ABORTED
    assert entries["END_TXN"].refused[0].because == f"The{ABORTED[3:]}."
    assert found.ending() == [
        f"transaction 1, producer 7 epoch 0: {ABORTED}; orders-0",
        (
            "producer 7 is in epoch 1 since client broker-1-txn-marker-sender's WRITE_TXN_MARKERS"
            " at 12:00:12.000 (h:12000)"
        ),
    ]


def test_producer_without_batch_headers_is_known_by_its_transactional_id() -> None:
    recording = SyntheticRecording()
    recording.init("blue", 0)
    recording.write("blue")
    recording.init("green", 2)
    recording.write("blue", Error.INVALID_PRODUCER_EPOCH)
    (found,) = recording.found(producers.fenced)
    assert (found.subject, found.clients, found.by) == ("producer tx", ["blue"], ["green"])
    assert found.evidence[0].said == (
        "has epoch 0; 2 since client green's INIT_PRODUCER_ID at 12:00:02.000 (h:2000)"
    )


def test_producer_whose_init_is_not_recorded_is_known_by_its_requests() -> None:
    recording = SyntheticRecording()
    recording.take_in("blue", 0)
    recording.init("green", 2)
    recording.write("blue", Error.INVALID_PRODUCER_EPOCH)
    (found,) = recording.found(producers.fenced)
    assert (found.by, found.evidence[0].said[:13]) == (["green"], "has epoch 0; ")


def test_connection_distinguishes_two_producers_of_one_client_id() -> None:
    recording = SyntheticRecording()
    recording.init("app", 0)
    recording.write("app")
    recording.init("app", 2)
    recording.write("app", Error.INVALID_PRODUCER_EPOCH)
    (found,) = recording.found(producers.fenced)
    assert (found.by, found.evidence[0].said[:13]) == (["app"], "has epoch 0; ")
    unknown = SyntheticRecording()
    unknown.init("app", 0)
    unknown.init("app", 2)
    unknown.write("app", Error.INVALID_PRODUCER_EPOCH)
    (found,) = unknown.found(producers.fenced)
    assert (found.by, found.evidence[0].said) == ([], "its epoch is not recorded")


def test_producer_without_name_and_headers_is_not_known() -> None:
    recording = SyntheticRecording()
    recording.write("a", Error.INVALID_PRODUCER_EPOCH, name=None)
    (found,) = recording.found(producers.fenced)
    assert found.what == (
        "Client a was fenced once; the requests have no batch headers, so their producers are not"
        " known: --batches adds the headers."
    )


def test_request_that_a_broker_made_for_a_producer_is_the_producers() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.init("b", 1)
    recording.take_in("AddPartitionsManager-client-1", 0, Error.PRODUCER_FENCED)
    (found,) = recording.found(producers.fenced)
    assert (found.clients, found.by) == (["a"], ["b"])
