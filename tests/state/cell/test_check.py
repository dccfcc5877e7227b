"""`check(cell)` passes after every event of a history and finds violations."""

from collections.abc import Callable

import pytest

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import ViolationError, check
from brokertwin.state.core import pending
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.records import TransactionMetadata, TransactionMetadataWritten
from brokertwin.state.fetch.session_items import Active, CachedFetchPartition, FetchSession
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.committed_offsets import CommittedPartitions
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.producer import ProducerStateEntry, RememberedBatch
from brokertwin.state.transactions import transactional_ids
from brokertwin.state.transactions.transactional_offsets import PendingOffsets
from tests.support.histories import observing, seeded
from tests.support.machine import Bench, header


@pytest.mark.long
def test_invariants_hold_after_every_event_of_a_history() -> None:
    checked: list[bytes] = []

    def listen(cell: Cell, document: bytes, _: list[Output]) -> None:
        assert check(cell) == [], f"seed {seed}, event {len(checked)}"
        checked.append(document)

    with observing(listen):
        for seed in range(12):
            checked.clear()
            assert seeded(seed, 100).documents == checked


@pytest.fixture
def bench() -> Bench:
    """A log with two batches of a producer, a session, a wait, a group, an offset."""
    bench = Bench(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    bench.topic("orders")
    for key_type in (0, 1):
        bench.request("FIND_COORDINATOR", 4, keyType=key_type, coordinatorKeys=["g"])
    for sequence in (0, 1):
        bench.append("orders", header(1, 5, 0, sequence), version=12)
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "fetchOffset": 2}]}]
    fetch = {"maxWaitMs": 60_000, "minBytes": 1, "topics": topics, "maxBytes": 1000}
    bench.request("FETCH", 12, fetch, maxWaitMs=0, sessionEpoch=0)
    bench.send("FETCH", 12, fetch, sessionEpoch=-1, id="waits")
    join = {
        "groupId": "g",
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 60_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    bench.send("JOIN_GROUP", 3, join)
    bench.request(
        "OFFSET_COMMIT", 8, groupId="simple", name="orders", partitionIndex=0, committedOffset=1
    )
    assert check(bench.cell) == []
    return bench


def _log(bench: Bench) -> Log:
    (key,) = [k for k, log in bench.cell.tables.logs.items("1/log/", Log) if log.topic == "orders"]
    return bench.cell.tables.logs.change(key, Log)


def _producer(bench: Bench) -> ProducerStateEntry:
    (key,) = bench.cell.tables.producers.keys("1/producer/")
    return bench.cell.tables.producers.change(key, ProducerStateEntry)


def _session(bench: Bench) -> FetchSession:
    (key,) = bench.cell.tables.fetch_sessions.keys("1/session/")
    return bench.cell.tables.fetch_sessions.change(key, FetchSession)


def _group(bench: Bench) -> ClassicGroup:
    group = groups.change(bench.cell.tables.of(1), "g")
    assert group is not None
    return group


def _high_watermark_past_the_end(bench: Bench) -> None:
    _log(bench).high_watermark = 9


def _gap_in_the_index(bench: Bench) -> None:
    _log(bench).chunks[0].last_offset = 0


def _log_without_its_topic(bench: Bench) -> None:
    logs.create(bench.cell.tables.of(1), "A" * 22, "gone", 0)


def _six_batches(bench: Bench) -> None:
    kept = [RememberedBatch(n, n, 0, -1) for n in range(-4, 2)]
    _producer(bench).batches = kept


def _transaction_that_the_log_does_not_know(bench: Bench) -> None:
    _producer(bench).current_txn_first_offset = 1


def _forgotten_watch(bench: Bench) -> None:
    for key in bench.cell.tables.pending.keys("watch/"):
        bench.cell.tables.pending.drop(key)


def _watch_of_nobody(bench: Bench) -> None:
    bench.cell.tables.pending.drop("wait/waits")


def _deadline_that_was_not_announced(bench: Bench) -> None:
    pending.set_timer(bench.cell.tables.pending, "group/1/g/join", bench.now + 1)


def _session_that_forgets_a_watch(bench: Bench) -> None:
    (key,) = bench.cell.tables.fetch_sessions.keys("1/watchers/")
    bench.cell.tables.fetch_sessions.drop(key)


def _size_of_a_session(bench: Bench) -> None:
    _session(bench).size = 4


def _partition_that_is_active_and_no_member(bench: Bench) -> None:
    (key,) = bench.cell.tables.fetch_sessions.keys("1/active/")
    bench.cell.tables.fetch_sessions.change(key, Active).identities.append("=payments/0")


def _member_without_a_timer(bench: Bench) -> None:
    groups.set_timer(bench.cell.tables.of(1), "g", groups.JOIN, None)


def _timer_of_a_stranger(bench: Bench) -> None:
    groups.set_timer(bench.cell.tables.of(1), "g", groups.heartbeat("x"), bench.now + 10**6)


def _wait_of_a_member_that_has_ended(bench: Bench) -> None:
    (member,) = _group(bench).members.values()
    pending.take(bench.cell.tables.pending, member.join_id)


def _count_of_joins(bench: Bench) -> None:
    _group(bench).joining = 3


def _offset_in_no_index(bench: Bench) -> None:
    bench.cell.tables.groups.change("1/committed/simple", CommittedPartitions).partitions[
        "orders"
    ] = [7]


def _pending_offset_without_its_index(bench: Bench) -> None:
    bench.cell.tables.groups.put("1/pending/simple", PendingOffsets([]))


def _open_transaction_without_a_check(bench: Bench) -> None:
    ongoing = TransactionMetadata(7, 0, state="Ongoing")
    record = TransactionMetadataWritten("t", ongoing)
    transactional_ids.apply_written(bench.cell.tables.of(1), record)


def _image_of_one_broker(bench: Bench) -> None:
    (key, *_) = bench.cell.tables.metadata.keys("1/name/orders")
    bench.cell.tables.metadata.drop(key)


def _item_of_an_unknown_kind(bench: Bench) -> None:
    bench.cell.tables.metadata.put("1/novelty/x", PendingOffsets([]))


def _item_of_another_cell(bench: Bench) -> None:
    bench.cell.tables.groups.put("9/group/g", groups.StoredClassicGroup("g"))


def _cached(bench: Bench) -> CachedFetchPartition:
    (key,) = bench.cell.tables.fetch_sessions.keys("1/cached/")
    return bench.cell.tables.fetch_sessions.change(key, CachedFetchPartition)


def _records_that_a_session_does_not_look_at(bench: Bench) -> None:
    _cached(bench).requested.fetch_offset = 1


def _high_watermark_that_was_not_shown(bench: Bench) -> None:
    _cached(bench).high_watermark = 1


def _log_start_that_was_not_shown(bench: Bench) -> None:
    _cached(bench).log_start_offset = 1


def _waits_for(bench: Bench, watched: list[str], deadline: int) -> None:
    waited = pending.take(bench.cell.tables.pending, "waits")
    assert waited is not None
    waited.deadline, waited.logs = deadline, watched
    pending.add(bench.cell.tables.pending, waited)


GONE = f"1/log/{'A' * 22}/0"


def _wait_without_end_for_a_session_that_is_gone(bench: Bench) -> None:
    _waits_for(bench, ["1/session/9"], pending.NO_DEADLINE)


def _wait_for_a_log_that_is_gone(bench: Bench) -> None:
    _waits_for(bench, [GONE], bench.now + 10**6)


BREAKS: list[tuple[Callable[[Bench], None], str]] = [
    (_high_watermark_past_the_end, "high watermark 9"),
    (_gap_in_the_index, "the index ends with offset 0"),
    (_log_without_its_topic, "is a log without a replica"),
    (_six_batches, "6 batches are remembered"),
    (_transaction_that_the_log_does_not_know, "lacks producer 5's transaction"),
    (_forgotten_watch, "whose watch does not name it"),
    (_watch_of_nobody, "which does not wait for it"),
    (_deadline_that_was_not_announced, "was not announced"),
    (_session_that_forgets_a_watch, "does not watch"),
    (_size_of_a_session, "counts 4 partitions"),
    (_partition_that_is_active_and_no_member, "is active in"),
    (_member_without_a_timer, "join timer"),
    (_timer_of_a_stranger, "heartbeat timers of unknown members"),
    (_wait_of_a_member_that_has_ended, "is pending for its member, but not in"),
    (_count_of_joins, "counts of joins and supporters"),
    (_offset_in_no_index, "is not indexed"),
    (_pending_offset_without_its_index, "1/pending/simple is empty"),
    (_open_transaction_without_a_check, "is Ongoing without a scheduled check"),
    (_records_that_a_session_does_not_look_at, "does not look at =orders/0, which has records"),
    (_high_watermark_that_was_not_shown, "has not shown the high watermark of =orders/0"),
    (_log_start_that_was_not_shown, "has not shown the log start offset of =orders/0"),
    (_wait_without_end_for_a_session_that_is_gone, "somebody waits for 1/session/9"),
    (_wait_for_a_log_that_is_gone, "somebody waits for 1/log/"),
    (_image_of_one_broker, "have the names"),
    (_item_of_an_unknown_kind, "an unknown kind"),
    (_item_of_another_cell, "of broker 9, which this cell does not hold"),
]


@pytest.mark.parametrize(("broken", "sentence"), BREAKS)
def test_violation_is_a_sentence(
    bench: Bench, broken: Callable[[Bench], None], sentence: str
) -> None:
    broken(bench)
    assert sentence in "; ".join(check(bench.cell))


def test_session_can_end_under_a_pending_request_with_a_deadline(bench: Bench) -> None:
    _waits_for(bench, ["1/session/9"], bench.now + 10**6)
    assert check(bench.cell) == []


def test_one_of_several_watched_logs_can_be_deleted(bench: Bench) -> None:
    (there,) = (key.removeprefix("watch/") for key in bench.cell.tables.pending.keys("watch/"))
    _waits_for(bench, [there, GONE], bench.now + 10**6)
    assert check(bench.cell) == []


def test_bench_checks_after_each_event(bench: Bench) -> None:
    _high_watermark_past_the_end(bench)
    with pytest.raises(ViolationError, match="high watermark"):
        bench.tick()
