"""Transactions of version 2 (KIP-890): partitions are added by Produce, and epochs are bumped."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import CONCURRENT, DATA, Author, batch, until
from tests.exam.script import Script, produce_body
from tests.exam.subjects.transactions_v1 import Open, opened

V2 = Author(
    "transactions_v2",
    "Transactions, version 2",
    kip="KIP-890",
    source="TransactionCoordinator",
    severity=DATA,
    features={"transaction.version": 2},
)


def implicit(s: Script, records: int = 1, parts: int = 1) -> Open:
    """Begin a transaction in version 2."""
    t = s.topic("a", parts)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.produce(t, batch(records, p, e, 0, True), txn=x, version=12, retry=CONCURRENT)
    return t, x, p, e


@V2
def tv2_produce_adds_partition(s: Script) -> None:
    """Produce v12 adds its partition to the transaction."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=12, label="Produce v12")
    s.describe_txn(x)
    s.list_offsets(t, -1, iso=1, label="last stable offset")


@V2
def tv2_end_bumps_epoch(s: Script) -> None:
    """EndTxn v5 returns the next epoch, which fences the former one."""
    t, x, p, e = implicit(s)
    ended = s.end_txn(x, p, e, True, "EndTxn v5", version=5)
    s.wait_lso(t, 2)
    e2 = ended["producerEpoch"]
    s.produce(t, batch(1, p, e2, 0, True), txn=x, version=12, label="next epoch", retry=CONCURRENT)
    s.produce(t, batch(1, p, e, 1, True), txn=x, version=12, label="former epoch")
    s.end_txn(x, p, e2, True, "EndTxn v5 again", version=5)


@V2
def tv2_abort_bumps_epoch(s: Script) -> None:
    """EndTxn v5 that aborts returns the next epoch, too."""
    t, x, p, e = implicit(s)
    s.end_txn(x, p, e, False, "abort", version=5)
    s.wait_lso(t, 2)
    s.fetch([(t, [(0, 0)])], "aborted", iso=1)


@V2
def tv2_marker_has_next_epoch(s: Script) -> None:
    """The marker of EndTxn v5 has the next epoch."""
    t, x, p, e = implicit(s, 2)
    s.end_txn(x, p, e, True, version=5)
    s.wait_lso(t, 3)
    s.fetch([(t, [(0, 0)])], "records and marker", iso=1)
    s.producers(t)


@V2
def tv2_commit_again(s: Script) -> None:
    """A repeated EndTxn v5 with the former epoch succeeds as a retry."""
    _, x, p, e = implicit(s)
    s.end_txn(x, p, e, True, "commit", version=5)
    s.wait_txn(x, "CompleteCommit")
    s.end_txn(x, p, e, True, "former epoch again", version=5)


@V2
def tv2_other_result_again(s: Script) -> None:
    """A repeated EndTxn v5 with the other result is refused."""
    _, x, p, e = implicit(s)
    s.end_txn(x, p, e, True, "commit", version=5)
    s.wait_txn(x, "CompleteCommit")
    s.end_txn(x, p, e, False, "abort with the former epoch", version=5)


@V2
def tv2_end_without_begin(s: Script) -> None:
    """EndTxn v5 without a transaction: a commit is refused, an abort returns a new epoch."""
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.end_txn(x, p, e, True, "commit", version=5)
    s.end_txn(x, p, e, False, "abort", version=5)


@V2
def tv2_abort_after_commit_without_records(s: Script) -> None:
    """An abort with the new epoch and without records bumps the epoch again."""
    _, x, p, e = implicit(s)
    ended = s.end_txn(x, p, e, True, version=5)
    s.wait_txn(x, "CompleteCommit")
    s.end_txn(x, p, ended["producerEpoch"], False, "abort", version=5)


@V2
def tv2_end_errors(s: Script) -> None:
    """EndTxn v5 checks transactional id, producer id and epoch."""
    _, x, p, e = implicit(s)
    s.end_txn(s.txn_id("none"), p, e, True, "unknown transactional id", version=5)
    s.end_txn(x, p + 30, e, True, "other producer id", version=5)
    s.end_txn(x, p, e + 3, True, "future epoch", version=5)
    s.end_txn(x, p, e, False, "current", version=5)


@V2
def tv2_produce_errors(s: Script) -> None:
    """Produce v12 checks epoch and producer id, but no transactional id once a partition is in."""
    t, x, p, e = implicit(s)
    s.produce(t, batch(1, p, e + 1, 0, True), txn=x, version=12, label="future epoch")
    s.produce(t, batch(1, p + 999, e, 0, True), txn=x, version=12, label="other producer id")
    other = s.txn_id("none")
    s.produce(t, batch(1, p, e, 1, True), txn=other, version=12, label="unknown transactional id")
    s.end_txn(x, p, e, False, version=5)


@V2
def tv2_sequence_gap(s: Script) -> None:
    """A gap in a version 2 transaction is refused like without transactions."""
    t, x, p, e = implicit(s)
    s.produce(t, batch(1, p, e, 5, True), txn=x, version=12, label="a gap")
    s.produce(t, batch(1, p, e, 1, True), txn=x, version=12, label="next")
    s.end_txn(x, p, e, False, version=5)


@V2
def tv2_duplicate(s: Script) -> None:
    """A repeated batch in a version 2 transaction is a duplicate."""
    t, x, p, e = implicit(s, 2)
    s.produce(t, batch(2, p, e, 0, True), txn=x, version=12, label="again")
    s.list_offsets(t, -1, label="end")
    s.end_txn(x, p, e, False, version=5)


@V2
def tv2_two_partitions(s: Script) -> None:
    """One Produce v12 adds all of its partitions."""
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)
    body = produce_body(t, batch(1, p, e, 0, True), 0, txn=x)
    data = [{"index": place, "records": batch(1, p, e, 0, True)} for place in (0, 1)]
    body["topicData"] = [{"name": t, "partitionData": data}]
    s.call("Produce", 12, body, "two partitions", retry=CONCURRENT)
    s.describe_txn(x)
    s.end_txn(x, p, e, False, version=5)


@V2(source="GroupCoordinatorService")
def tv2_offset_commit_adds_group(s: Script) -> None:
    """TxnOffsetCommit v5 adds the group's offsets partition to the transaction."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.txn_commit(x, p, e, g, t, [(0, 4)], "TxnOffsetCommit v5", version=5)
    s.offsets(g, t, stable=True, label="requireStable")
    s.end_txn(x, p, e, True, "commit", version=5)
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="committed", until=stable)


@V2(source="GroupCoordinatorService")
def tv2_offset_commit_errors(s: Script) -> None:
    """TxnOffsetCommit v5 checks producer id and epoch at the transaction coordinator."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.txn_commit(x, p, e + 1, g, t, [(0, 4)], "future epoch", version=5)
    s.txn_commit(x, p + 40, e, g, t, [(0, 4)], "other producer id", version=5)
    none = s.txn_id("none")
    s.txn_commit(none, p, e, g, t, [(0, 4)], "unknown transactional id", version=5)


@V2
def tv2_fenced_by_init(s: Script) -> None:
    """InitProducerId aborts a version 2 transaction; its producer is fenced."""
    t, x, p, e = implicit(s)
    s.init_pid(x, label="a second producer")
    s.wait_lso(t, 2)
    s.produce(t, batch(1, p, e, 1, True), txn=x, version=12, label="Produce v12")
    s.end_txn(x, p, e, True, "EndTxn v5", version=5)
    s.fetch([(t, [(0, 0)])], "aborted", iso=1)


@V2
def tv2_after_version_1(s: Script) -> None:
    """A version 1 transaction that is open can be ended by EndTxn v5."""
    t, x, p, e = opened(s)
    s.end_txn(x, p, e, True, "EndTxn v5", version=5)
    s.wait_lso(t, 2)
    s.fetch([(t, [(0, 0)])], "committed", iso=1)


@V2
def tv2_end_with_version_4(s: Script) -> None:
    """EndTxn v4 of an implicit transaction does not bump the epoch."""
    t, x, p, e = implicit(s)
    s.end_txn(x, p, e, True, "EndTxn v4", version=4)
    s.wait_lso(t, 2)
    s.wait_txn(x, "CompleteCommit")
    s.describe_txn(x)


@V2
def tv2_version_4_errors(s: Script) -> None:
    """From TxnOffsetCommit v4 and Produce v11 on, missing partitions are an abortable error."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.txn_commit(x, p, e, g, t, [(0, 4)], "TxnOffsetCommit v4 without add", version=4)
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=11, label="Produce v11 without add")
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=10, label="Produce v10 without add")


Case = Callable[[Script, Open], Any]
LATE: dict[str, tuple[str, Case]] = {
    "produce": (
        "A Produce v12 with the former epoch after the end of its transaction is fenced.",
        lambda s, o: s.produce(
            o[0], batch(1, o[2], o[3], 1, True), txn=o[1], version=12, label="late"
        ),
    ),
    "produce_v11": (
        "A Produce v11 with the former epoch after the end of its transaction is refused.",
        lambda s, o: s.produce(
            o[0], batch(1, o[2], o[3], 1, True), txn=o[1], version=11, label="late"
        ),
    ),
    "add_partitions": (
        "An AddPartitionsToTxn with the former epoch after the end is fenced.",
        lambda s, o: s.add_parts(o[1], o[2], o[3], o[0], label="late"),
    ),
    "add_offsets": (
        "An AddOffsetsToTxn with the former epoch after the end is fenced.",
        lambda s, o: s.add_offsets(o[1], o[2], o[3], s.name("g"), "late"),
    ),
    "duplicate": (
        "A duplicate of an ended version 2 transaction is not appended again.",
        lambda s, o: s.produce(
            o[0], batch(1, o[2], o[3], 0, True), txn=o[1], version=12, label="late"
        ),
    ),
}
"""Requests that reach a broker late, after EndTxn v5."""


def _late(case: Case) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        open_one = implicit(s)
        s.end_txn(open_one[1], open_one[2], open_one[3], True, version=5)
        s.wait_txn(open_one[1], "CompleteCommit")
        case(s, open_one)
        s.list_offsets(open_one[0], -1, label="end")

    return play


for _name, (_rule, _case) in LATE.items():
    V2.case(f"tv2_late_{_name}", _rule, _late(_case))
