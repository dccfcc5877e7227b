"""Rules of the machines and their limits, with synthetic exchanges; a name says the rule."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.clients import CLIENTS, LONG_MS
from brokertwin.recordings.history.findings import (
    BeingFenced,
    ClientThrottled,
    CommitBeyondEnd,
    CoordinatorAborted,
    EpochNeverGiven,
    EpochWentBack,
    LagGrew,
    LsoHeldBack,
    ProducerFenced,
    ProducerReplaced,
    ProducerUnused,
    RecordsArchived,
    RecordsDeliveredAgain,
    Refused,
    SessionEvicted,
    SessionLost,
    Severity,
    TransactionEnded,
)
from brokertwin.recordings.history.lag import LAGS
from brokertwin.recordings.history.producer_epochs import CLOCKS_MS
from brokertwin.recordings.history.producers import PRODUCERS, UNUSED_MS
from brokertwin.recordings.history.sessions import CACHES
from brokertwin.recordings.history.shares import ARCHIVED, DELIVERY_LIMIT, SHARE_GROUPS
from brokertwin.recordings.history.stable_offsets import HELD_MS
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.share.share_partition import REJECT, RELEASE
from tests.support.share_exchanges import Shares
from tests.support.synthetic_recording import (
    GROUP,
    PRODUCER,
    START,
    TOOK_MS,
    TOPIC,
    SyntheticRecording,
)

# Clients


@pytest.mark.parametrize(
    ("wait_ms", "severity"), [(LONG_MS - 1, Severity.INFO), (LONG_MS, Severity.WARNING)]
)
def test_throttling_is_a_warning_from_a_second_on(wait_ms: int, severity: Severity) -> None:
    recording = SyntheticRecording()
    response = {"responses": [], "throttleTimeMs": wait_ms}
    recording.add("bulk", "PRODUCE", {"topicData": []}, response)
    (found,) = History(recording.exchanges).found(CLIENTS, ClientThrottled)
    assert found.severity is severity


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (Error.NOT_LEADER_OR_FOLLOWER, Severity.INFO),
        (Error.TOPIC_ALREADY_EXISTS, Severity.INFO),
        (Error.INVALID_REQUEST, Severity.WARNING),
        (Error.TOPIC_AUTHORIZATION_FAILED, Severity.ERROR),
        (Error.CORRUPT_MESSAGE, Severity.ERROR),
    ],
)
def test_a_refusal_is_as_bad_as_its_error(code: Error, severity: Severity) -> None:
    recording = SyntheticRecording()
    recording.add("a", "CREATE_TOPICS", {"topics": []}, {"topics": [{"errorCode": code}]})
    (found,) = History(recording.exchanges).found(CLIENTS, Refused)
    assert (found.severity, found.code) == (severity, code)


# Producers


@pytest.mark.parametrize("is_long", [True, False])
def test_a_producer_id_may_have_expired_after_a_day_without_use(is_long: bool) -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.end_txn("a", 0)
    at = 1_000 + TOOK_MS + UNUSED_MS - (not is_long)
    recording.end_txn("a", 0, Error.INVALID_PRODUCER_ID_MAPPING, at=at)
    (found,) = History(recording.exchanges).found(PRODUCERS, ProducerReplaced)
    unused = [each.unused_ms for each in found.causes if isinstance(each, ProducerUnused)]
    assert (unused, len(found.causes)) == ([UNUSED_MS] * is_long, is_long)


@pytest.mark.parametrize(
    ("answered", "arrived", "found"),
    [(105, 105, [(4, 5)]), (106, 105, []), (1_000, 1_000, []), (1_000, 2_000, [(4, 5)])],
    ids=["after it", "before it", "within a second of whole ones", "in the next second"],
)
def test_an_epoch_goes_back_if_the_request_came_after_the_response_with_a_higher_one(
    answered: int, arrived: int, found: list[tuple[int, int]]
) -> None:
    recording = SyntheticRecording()
    recording.init("a", 5, at=0, end=answered)
    is_coarse = answered % 1_000 == 0
    recording.init("b", 4, at=arrived, end=arrived + (1_000 if is_coarse else 5))
    back = History(recording.exchanges).found(PRODUCERS, EpochWentBack)
    assert [(each.epoch, each.former) for each in back] == found


@pytest.mark.parametrize(("arrived", "epoch"), [(0, -1), (21, 0)])
def test_a_produce_without_headers_has_no_epoch_that_its_client_asked_for_later(
    arrived: int, epoch: int
) -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, at=10, end=20)
    recording.write("a", Error.INVALID_PRODUCER_EPOCH, at=arrived, end=30)
    (fenced,) = History(recording.exchanges).found(PRODUCERS, ProducerFenced)
    assert fenced.epoch == epoch


@pytest.mark.parametrize(
    ("given", "second", "arrived", "epoch"),
    [
        (20_000, 15_000, 30_001, -1),
        (10_000, 15_000, 30_001, -1),
        (10_000, 15_000 + CLOCKS_MS, 30_001, -1),
        (10_000, 15_000 + CLOCKS_MS + 1, 30_001, 1),
        (20_000, 15_000, 30_100, 1),
        (30_002, 15_000, 30_020, 1),
    ],
    ids=[
        "behind the last",
        "behind both",
        "behind both with the greatest difference of clocks",
        "when the connection was idle between both",
        "when the connection was idle",
        "after the response",
    ],
)
def test_a_produce_that_waited_for_its_connection_may_be_older_than_an_epoch(
    given: int, second: int, arrived: int, epoch: int
) -> None:
    """Its client may have gone on over another connection, where it got the epoch."""
    recording = SyntheticRecording()
    recording.init("a", 0, at=0)
    recording.commit(1, api="TXN_OFFSET_COMMIT", at=1_000, end=15_000)
    recording.commit(1, api="TXN_OFFSET_COMMIT", at=second, end=30_000)
    recording.write("a", Error.INVALID_PRODUCER_EPOCH, at=arrived)
    for number in (1, 2, 3):
        each = recording.exchanges[number]
        recording.exchanges[number] = msgspec.structs.replace(each, connection="old", broker=2)
    request = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": 0}
    response = {"errorCode": 0, "producerId": PRODUCER, "producerEpoch": 1}
    recording.add("a", "END_TXN", request | {"committed": False}, response, at=given)
    (fenced,) = History(recording.exchanges).found(PRODUCERS, ProducerFenced)
    assert fenced.epoch == epoch


def _commit_marker(of_abort: Exchange) -> Exchange:
    raw = msgspec.Raw(bytes(of_abort.request).replace(b"false", b"true"))
    return msgspec.structs.replace(of_abort, request=raw)


@pytest.mark.parametrize(
    ("committed", "marked", "requested", "is_found"),
    [(False, 1_010, -1, True), (True, 1_010, -1, True), (True, 20_000, 19_990, False)],
    ids=["former aborted", "former committed", "markers by a clock that is ahead"],
)
def test_a_request_that_came_before_the_end_of_a_former_transaction_aborted_no_later_one(
    committed: bool, marked: int, requested: int, is_found: bool
) -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=1_000, at=0)
    recording.end_txn("a", 0, committed=committed, at=1_000)
    recording.abort_marker(1, at=marked)
    if committed:
        recording.exchanges[-1] = _commit_marker(recording.exchanges[-1])
    if requested >= 0:
        recording.end_txn("a", 1, committed=False, at=requested)
    recording.abort_marker(2, at=20_020)
    found = History(recording.exchanges).found(PRODUCERS, CoordinatorAborted)
    assert [each.line.time - START for each in found] == [20_020] * is_found


@pytest.mark.parametrize(("client", "by"), [("b", [22_000]), ("c", [])])
def test_of_the_inits_that_were_refused_the_last_one_surely_fenced(
    client: str, by: list[int]
) -> None:
    """A coordinator refuses an INIT_PRODUCER_ID while a transaction begins, too."""
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=60_000, at=0)
    recording.init("b", -1, Error.CONCURRENT_TRANSACTIONS, at=20_000)
    recording.init(client, -1, Error.CONCURRENT_TRANSACTIONS, at=22_000)
    recording.end_txn("a", 0, Error.INVALID_PRODUCER_EPOCH, at=23_000)
    (fenced,) = History(recording.exchanges).found(PRODUCERS, ProducerFenced)
    found = [e.by.time - START for e in fenced.causes if isinstance(e, BeingFenced)]
    assert found == by


def test_partitions_of_a_transaction_are_those_since_the_end_of_the_former_one() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=60_000)
    for epoch, committed in enumerate((True, False)):  # an EndTxn raises it (KIP-890)
        recording.take_in("a", epoch)
        recording.end_txn("a", epoch, committed=committed)
    found = list(History(recording.exchanges).found(PRODUCERS, TransactionEnded))
    assert [(e.number, e.is_committed, [*e.places], e.lasted_ms) for e in found] == [
        (1, True, [f"{TOPIC}-0"], 1_005),
        (2, False, [f"{TOPIC}-0"], 1_005),
    ]


def test_an_aborted_transaction_has_no_partition_of_a_former_one_without_end() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=1_000, at=0)
    recording.take_in("a", 0, at=500)
    former = recording.exchanges.pop()
    response = msgspec.json.encode(former.response).replace(TOPIC.encode(), b"former")
    former = msgspec.structs.replace(former, response=msgspec.json.decode(response))
    recording.exchanges.append(former)
    recording.abort_marker(1, at=1_000)
    recording.exchanges[-1] = _commit_marker(recording.exchanges[-1])
    recording.take_in("a", 1, at=2_000)
    recording.abort_marker(2, at=20_000)
    (found,) = History(recording.exchanges).found(PRODUCERS, TransactionEnded)
    assert [*found.places] == [f"{TOPIC}-0"]
    assert found.began is not None
    assert found.began.time - START == 2_000


@pytest.mark.parametrize("brokers", [1, 2])
def test_an_old_transaction_has_no_begin_if_a_broker_without_log_may_have_coordinated_it(
    brokers: int,
) -> None:
    """An EndTxn before version 5 has the epoch of its transaction, as the former ones have."""
    recording = SyntheticRecording()
    listed = [{"nodeId": number} for number in range(1, brokers + 1)]
    recording.add("a", "METADATA", {}, {"brokers": listed, "topics": []})
    recording.init("a", 0)
    recording.write("a")
    recording.end_txn("a", 0)
    recording.exchanges[-1].header.request_api_version = 4
    (found,) = History(recording.exchanges).found(PRODUCERS, TransactionEnded)
    assert (found.began is not None) == (brokers == 1)


@pytest.mark.parametrize(("marked", "places"), [(21_003, [f"{TOPIC}-0"]), (21_000, [])])
def test_a_marker_of_its_broker_tells_the_transaction_of_a_produce_by_other_clocks(
    marked: int, places: list[str]
) -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=60_000, at=0)
    recording.commit(1, api="TXN_OFFSET_COMMIT", at=20_000)
    recording.end_txn("a", 0, at=21_000)
    recording.write("a", at=21_001)
    recording.abort_marker(1, at=marked)
    for number in (-1, -2):
        each = recording.exchanges[number]
        recording.exchanges[number] = msgspec.structs.replace(each, broker=2)
    (found,) = History(recording.exchanges).found(PRODUCERS, TransactionEnded)
    assert [*found.places] == places


@pytest.mark.parametrize("brokers", [1, 2])
def test_an_epoch_was_given_by_no_response_only_if_all_brokers_have_logs(brokers: int) -> None:
    recording = SyntheticRecording()
    listed = [{"nodeId": number} for number in range(1, brokers + 1)]
    recording.add("a", "METADATA", {}, {"brokers": listed, "topics": []})
    recording.init("a", 0)
    recording.end_txn("a", 5, Error.INVALID_PRODUCER_EPOCH)
    (found,) = History(recording.exchanges).found(PRODUCERS, ProducerFenced)
    assert [type(each) for each in found.causes] == [EpochNeverGiven] * (brokers == 1)


# The last stable offset


def _fetch(
    recording: SyntheticRecording, stable: int, watermark: int, at: int, client: str = "reader"
) -> None:
    read = {"partitionIndex": 0, "errorCode": 0, "highWatermark": watermark}
    response = {"errorCode": 0, "responses": [{"topic": TOPIC, "partitions": [read]}]}
    read["lastStableOffset"] = stable
    request = {"sessionId": 0, "sessionEpoch": -1, "isolationLevel": 1}
    recording.add(client, "FETCH", request, response, at=at)


def held(*fetches: tuple[int, int, int]) -> list[LsoHeldBack]:
    recording = SyntheticRecording()
    for each in fetches:
        _fetch(recording, *each)
    return list(History(recording.exchanges).found(LAGS, LsoHeldBack))


@pytest.mark.parametrize("is_long", [True, False])
def test_a_last_stable_offset_is_held_back_if_it_stays_for_ten_seconds(is_long: bool) -> None:
    found = held((4, 9, 0), (4, 12, HELD_MS - (not is_long)))
    assert [(e.stable, e.behind, e.held_ms, e.readers) for e in found] == (
        [(4, 8, HELD_MS, ("reader",))] * is_long
    )


@pytest.mark.parametrize("between", [(9, 9, 5_000), (5, 9, 5_000)], ids=["caught up", "moved"])
def test_a_last_stable_offset_that_moves_is_held_back_anew(between: tuple[int, int, int]) -> None:
    assert held((4, 9, 0), between, (9, 12, HELD_MS)) == []


def test_an_older_response_does_not_show_that_a_last_stable_offset_went_back() -> None:
    assert held((4, 9, 0), (3, 9, 5_000), (4, 9, HELD_MS))[0].stable == 4


# Lag


@pytest.mark.parametrize(
    ("answered", "requested", "beyond"),
    [(1_200, 1_200, [2]), (1_200, 1_199, []), (2_000, 2_000, []), (2_000, 3_000, [2])],
    ids=["after it", "before it", "within a second of whole ones", "in the next second"],
)
def test_a_commit_is_beyond_the_end_if_a_later_request_shows_a_lower_one(
    answered: int, requested: int, beyond: list[int]
) -> None:
    recording = SyntheticRecording()
    recording.high_watermark(5, at=0, end=1_000)
    recording.commit(9, at=1_000, end=answered)
    recording.high_watermark(7, at=requested, end=4_000)
    found = History(recording.exchanges).found(LAGS, CommitBeyondEnd)
    assert [each.beyond for each in found] == beyond


# Shares


def write_state(shares: Shares, first: int, last: int, count: int, state: int = ARCHIVED) -> None:
    batch = {"firstOffset": first, "lastOffset": last}
    batch |= {"deliveryState": state, "deliveryCount": count}
    part = {"partition": 0, "stateBatches": [batch]}
    request = {"groupId": GROUP, "topics": [{"topicId": TOPIC, "partitions": [part]}]}
    shares.add("broker-1", "WRITE_SHARE_GROUP_STATE", request, {"results": []})


def archived(shares: Shares) -> list[tuple[int, int]]:
    found = History(shares.exchanges).found(SHARE_GROUPS, RecordsArchived)
    return [(each.first_offset, each.last_offset) for each in found]


@pytest.mark.parametrize(
    ("count", "state", "found"),
    [
        (DELIVERY_LIMIT, ARCHIVED, [(3, 5)]),
        (DELIVERY_LIMIT - 1, ARCHIVED, []),
        (DELIVERY_LIMIT, ARCHIVED - 2, []),
    ],
    ids=["at the limit", "below it", "acknowledged"],
)
def test_records_are_archived_at_the_delivery_limit(
    count: int, state: int, found: list[tuple[int, int]]
) -> None:
    shares = Shares()
    write_state(shares, 3, 5, count, state)
    assert archived(shares) == found


def test_a_smaller_limit_shows_by_a_release_after_which_records_are_archived() -> None:
    shares = Shares()
    shares.give("a", (0, 9, 2))
    shares.acknowledge("a", 0, 9, RELEASE)
    write_state(shares, 0, 9, 2)
    assert archived(shares) == [(0, 9)]


def test_records_that_a_member_rejected_are_not_archived_by_the_limit() -> None:
    shares = Shares()
    shares.give("a", (0, 9, 5))
    shares.acknowledge("a", 4, 5, REJECT)
    write_state(shares, 0, 9, 5)
    write_state(shares, 0, 9, 5)
    assert archived(shares) == [(0, 3), (6, 9)]


def released_by(shares: Shares) -> list[str]:
    found = History(shares.exchanges).found(SHARE_GROUPS, RecordsDeliveredAgain)
    causes: list[Any] = [why for each in found for why in each.causes]
    return [why.released.client if why.released is not None else "" for why in causes]


@pytest.mark.parametrize(
    ("member", "first", "by"), [("a", 0, ["a"]), ("b", 0, [""]), ("a", 50, [""])]
)
def test_a_release_is_of_the_member_and_of_the_records(
    member: str, first: int, by: list[str]
) -> None:
    shares = Shares()
    shares.give("a", (0, 9, 1))
    shares.acknowledge(member, first, first + 9, RELEASE)
    shares.give("c", (0, 9, 2))
    assert released_by(shares) == by


# Sessions


@pytest.mark.parametrize("is_after", [True, False])
def test_a_session_was_evicted_for_those_opened_after_its_last_use(is_after: bool) -> None:
    recording = SyntheticRecording()
    opener = ("other", 0, 0, 2)
    if not is_after:
        recording.fetch(*opener)
    recording.fetch("a", 0, 0, 1)
    recording.fetch("a", 1, 1, 1)
    if is_after:
        recording.fetch(*opener)
    recording.fetch("a", 1, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = History(recording.exchanges).found(CACHES, SessionLost)
    (cause,) = found.causes
    assert isinstance(cause, SessionEvicted)
    assert cause.openers == ("other",) * is_after


@pytest.mark.parametrize(("arrived", "grown"), [(0, []), (1_099, []), (1_100, [1_000])])
def test_records_that_are_read_again_are_no_growth_of_the_lag(
    arrived: int, grown: list[int]
) -> None:
    recording = SyntheticRecording()
    recording.high_watermark(5_000)
    recording.commit(4_900)
    recording.high_watermark(5_000)
    recording.commit(0, client="admin")
    recording.high_watermark(5_000)
    recording.commit(100)
    recording.high_watermark(5_100 + arrived)
    recording.commit(200)
    found = History(recording.exchanges).found(LAGS, LagGrew)
    assert [each.least - each.former for each in found] == grown
