"""Transactions: with AddPartitionsToTxn (version 1), and with implicit partitions (version 2)."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import CONCURRENT, DATA, Author, Ref, batch, repeat, until, view
from tests.exam.script import Script, produce_body

CONSUMED = "TransactionCoordinator"
V1 = Author(
    "transactions_v1", "Transactions, version 1", kip="KIP-98", source=CONSUMED, severity=DATA
)
V2 = Author(
    "transactions_v2",
    "Transactions, version 2",
    kip="KIP-890",
    source=CONSUMED,
    severity=DATA,
    features={"transaction.version": 2},
)

Open = tuple[Any, Any, Ref, Ref]


def opened(s: Script, produced: int = 1, name: str = "a") -> Open:
    """Begin a transaction in version 1; returns topic, transactional id, producer id, epoch."""
    t = s.topic(name)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    if produced:
        s.produce(t, batch(produced, p, e, 0, True), txn=x)
    return t, x, p, e


@V1(source="ReplicaManager")
def txn_commit(s: Script) -> None:
    """Records of a transaction are visible to read_committed after its commit marker."""
    t, x, p, e = opened(s, 2)
    s.fetch([(t, [(0, 0)])], "read uncommitted, open", iso=0)
    s.fetch([(t, [(0, 0)])], "read committed, open", iso=1)
    s.end_txn(x, p, e, True, "commit")
    s.wait_lso(t, 3)
    s.fetch([(t, [(0, 0)])], "read committed, committed", iso=1)
    s.producers(t)


@V1(source="TransactionIndex")
def txn_abort(s: Script) -> None:
    """A read_committed fetch lists the aborted transactions of its range."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.fill(t, 1)
    s.add_parts(x, p, e, t, label="add")
    s.produce(t, batch(2, p, e, 0, True), txn=x, label="produce")
    s.end_txn(x, p, e, False, "abort")
    s.wait_lso(t, 4)
    s.fetch([(t, [(0, 0)])], "read committed", iso=1)
    s.fetch([(t, [(0, 3)])], "read committed from the marker", iso=1)
    s.fetch([(t, [(0, 0)])], "read uncommitted", iso=0)


@V1(source="TransactionIndex")
def txn_two_aborted(s: Script) -> None:
    """Aborted transactions of two producers are listed with their first offsets."""
    t = s.topic()
    x, y = s.txn_id("x"), s.txn_id("y")
    p, e = s.init_pid(x)
    q, f = s.init_pid(y)
    s.add_parts(x, p, e, t)
    s.add_parts(y, q, f, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x)
    s.produce(t, batch(1, q, f, 0, True), txn=y)
    s.produce(t, batch(1, p, e, 1, True), txn=x)
    s.end_txn(x, p, e, False)
    s.wait_lso(t, 1)
    s.fetch([(t, [(0, 0)])], "one aborted, one open", iso=1)
    s.end_txn(y, q, f, False)
    s.wait_lso(t, 5)
    s.fetch([(t, [(0, 0)])], "both aborted", iso=1)
    s.fetch([(t, [(0, 2)])], "from offset 2", iso=1)


@V1(source="ProducerStateManager")
def txn_last_stable_offset(s: Script) -> None:
    """The last stable offset is the first offset of the oldest open transaction."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.fill(t, 2)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, label="transactional record at 2")
    s.fill(t, 3)
    s.fetch([(t, [(0, 0)])], "read committed ends before it", iso=1)
    s.fetch([(t, [(0, 4)])], "read committed behind it", iso=1)
    s.list_offsets(t, -1, iso=1, label="latest, read committed")
    s.list_offsets(t, -1, iso=0, label="latest, read uncommitted")
    s.end_txn(x, p, e, False)


@V1(source="ProducerStateManager")
def txn_interleaved(s: Script) -> None:
    """The last stable offset moves only when the oldest of two open transactions ends."""
    t = s.topic()
    x, y = s.txn_id("x"), s.txn_id("y")
    p, e = s.init_pid(x)
    q, f = s.init_pid(y)
    s.add_parts(x, p, e, t)
    s.add_parts(y, q, f, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x)
    s.produce(t, batch(1, q, f, 0, True), txn=y)
    s.end_txn(y, q, f, True)
    s.wait_txn(y, "CompleteCommit")
    s.list_offsets(t, -1, iso=1, label="the older one is open")
    s.end_txn(x, p, e, True)
    s.wait_lso(t, 4)
    s.list_offsets(t, -1, iso=1, label="both have ended")


@V1(source="UnifiedLog", kip="KIP-890")
def txn_produce_without_add(s: Script) -> None:
    """Produce v11 to a partition that is not in the transaction is refused."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=11, label="not added")
    s.list_offsets(t, -1, label="nothing was appended")
    s.describe_txn(x)


@V1(source="UnifiedLog", kip="KIP-890")
def txn_produce_to_other_partition(s: Script) -> None:
    """Adding one partition does not allow records in another one."""
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0])
    s.produce(t, batch(1, p, e, 0, True), 0, txn=x, label="added")
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, label="not added")
    s.end_txn(x, p, e, False)


@V1(source="UnifiedLog", kip="KIP-890")
def txn_produce_after_the_end(s: Script) -> None:
    """After EndTxn the partitions have to be added again."""
    t, x, p, e = opened(s)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.produce(t, batch(1, p, e, 1, True), txn=x, label="not added again")
    s.add_parts(x, p, e, t, label="added again")
    s.produce(t, batch(1, p, e, 1, True), txn=x, label="produce")
    s.end_txn(x, p, e, True)


@V1
def txn_plain_record_with_transactional_id(s: Script) -> None:
    """A batch without the transactional flag is no part of the open transaction."""
    t, x, p, e = opened(s, 0)
    s.produce(t, batch(1, p, e, 0), txn=x, label="no transactional flag")
    s.list_offsets(t, -1, iso=1, label="last stable offset")
    s.end_txn(x, p, e, False)


@V1(source="KafkaApis")
def txn_flag_without_transactional_id(s: Script) -> None:
    """A transactional batch in a request without a transactional id is refused."""
    t, x, p, e = opened(s, 0)
    s.produce(t, batch(1, p, e, 0, True), txn=None, label="no transactional id")
    s.list_offsets(t, -1, label="end")
    s.end_txn(x, p, e, False)


@V1
def txn_fenced_by_new_epoch(s: Script) -> None:
    """InitProducerId aborts the open transaction and fences the former epoch."""
    t, x, p, e = opened(s)
    s.init_pid(x, label="a second producer")
    s.wait_lso(t, 2)
    s.add_parts(x, p, e, t, label="former epoch: AddPartitionsToTxn")
    s.produce(t, batch(1, p, e, 1, True), txn=x, label="former epoch: Produce")
    s.end_txn(x, p, e, True, "former epoch: EndTxn")
    s.fetch([(t, [(0, 0)])], "the transaction was aborted", iso=1)


@V1
def txn_end_without_begin(s: Script) -> None:
    """EndTxn without an open transaction is refused."""
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.end_txn(x, p, e, True, "commit")
    s.end_txn(x, p, e, False, "abort")


@V1
def txn_end_of_unknown_id(s: Script) -> None:
    """EndTxn of an unknown transactional id or with another producer id is refused."""
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.end_txn(s.txn_id("unknown"), p, e, True, "unknown transactional id")
    s.end_txn(x, p + 1000, e, True, "other producer id")


@V1
def txn_end_with_other_epochs(s: Script) -> None:
    """EndTxn with an epoch that is not the current one is fenced."""
    t, x, p, e = opened(s)
    s.end_txn(x, p, e + 1, True, "greater epoch")
    s.end_txn(x, p, e - 1, True, "lower epoch")
    s.end_txn(x, p, e, True, "current epoch")
    del t


@V1
def txn_commit_again(s: Script) -> None:
    """A repeated EndTxn with the same result succeeds."""
    _, x, p, e = opened(s)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.end_txn(x, p, e, True, "commit again")


@V1
def txn_abort_after_commit(s: Script) -> None:
    """An EndTxn with the other result than the last one is refused."""
    _, x, p, e = opened(s)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.end_txn(x, p, e, False, "abort")


@V1
def txn_commit_after_abort(s: Script) -> None:
    """An aborted transaction cannot be committed."""
    _, x, p, e = opened(s)
    s.end_txn(x, p, e, False, "abort")
    s.wait_txn(x, "CompleteAbort")
    s.end_txn(x, p, e, True, "commit")
    s.end_txn(x, p, e, False, "abort again")


@V1
def txn_without_records(s: Script) -> None:
    """A transaction without records gets a marker in each of its partitions."""
    t, x, p, e = opened(s, 0)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.fetch([(t, [(0, 0)])], "a marker alone", iso=1)


@V1
def txn_add_again(s: Script) -> None:
    """Adding a partition twice succeeds and is listed once."""
    t, x, p, e = opened(s, 0)
    s.add_parts(x, p, e, t, label="again")
    s.describe_txn(x)
    s.end_txn(x, p, e, False)


@V1
def txn_add_errors(s: Script) -> None:
    """AddPartitionsToTxn checks the producer id and the epoch."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p + 50, e, t, label="other producer id")
    s.add_parts(x, p, e + 1, t, label="greater epoch")
    s.add_parts(s.txn_id("none"), p, e, t, label="unknown transactional id")
    s.add_parts("", p, e, t, label="empty transactional id")


@V1(source="KafkaApis")
def txn_add_unknown_topic(s: Script) -> None:
    """AddPartitionsToTxn with one unknown topic adds none of the partitions."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    body = {
        "v3AndBelowTransactionalId": x,
        "v3AndBelowProducerId": p,
        "v3AndBelowProducerEpoch": e,
        "v3AndBelowTopics": [
            {"name": t, "partitions": [0, 6]},
            {"name": s.name("none"), "partitions": [0]},
        ],
    }
    s.call("AddPartitionsToTxn", 3, body, "known and unknown")
    s.describe_txn(x)


@V1(source="KafkaApis")
def txn_add_to_internal_topic(s: Script) -> None:
    """Clients cannot add the internal offsets topic to a transaction."""
    s.group()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.commit(s.name("g"), s.topic(), [(0, 1)])
    s.add_parts(x, p, e, "__consumer_offsets", label="__consumer_offsets")


@V1(source="KafkaApis")
def txn_add_partitions_of_two_topics(s: Script) -> None:
    """A transaction may have partitions of several topics, listed by DescribeTransactions."""
    t, u = s.topic("a", 2), s.topic("b")
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1], label="two of a")
    s.add_parts(x, p, e, u, [0], label="one of b")
    s.describe_txn(x)
    s.end_txn(x, p, e, True, "commit")
    s.wait_lso(u, 1)
    s.wait_lso(t, 1, 1)
    s.fetch([(t, [(0, 0), (1, 0)]), (u, [(0, 0)])], "three markers", iso=1)


@V1(source="GroupCoordinatorService")
def txn_offset_commit(s: Script) -> None:
    """Offsets of a transaction are visible after its commit; requireStable reports them before."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g, "AddOffsetsToTxn")
    s.txn_commit(x, p, e, g, t, [(0, 7, "m")], "TxnOffsetCommit")
    s.offsets(g, t, label="before the commit")
    s.offsets(g, t, stable=True, label="requireStable")
    s.end_txn(x, p, e, True, "commit")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the commit", until=stable)


@V1(source="GroupCoordinatorService")
def txn_offset_abort(s: Script) -> None:
    """Offsets of an aborted transaction are dropped; the former ones stay."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    s.commit(g, t, [(0, 3)])
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)], "TxnOffsetCommit")
    s.end_txn(x, p, e, False, "abort")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the abort", until=stable)


@V1(source="OffsetMetadataManager")
def txn_plain_commit_beats_pending(s: Script) -> None:
    """An offset committed outside the transaction is replaced when the transaction commits."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)], "pending 7")
    s.commit(g, t, [(0, 9)], "plain 9")
    s.offsets(g, t, label="before the end")
    s.end_txn(x, p, e, True, "commit")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the end", until=stable)


@V1
def txn_add_offsets_errors(s: Script) -> None:
    """AddOffsetsToTxn checks transactional id, producer id and epoch."""
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p + 50, e, g, "other producer id")
    s.add_offsets(x, p, e + 1, g, "greater epoch")
    s.add_offsets(s.txn_id("none"), p, e, g, "unknown transactional id")
    s.add_offsets("", p, e, g, "empty transactional id")
    s.add_offsets(x, p, e, g, "current")
    s.end_txn(x, p, e, False)


@V1(source="GroupMetadataManager", kip="KIP-447")
def txn_offset_commit_checks_generation(s: Script) -> None:
    """TxnOffsetCommit with a member id must have the current generation."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    m, gen = s.stable(g)
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "former generation", member=m, gen=gen - 1)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "unknown member", member="nobody", gen=gen)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "no member, no generation")
    s.txn_commit(x, p, e, g, t, [(0, 1)], "current", member=m, gen=gen)
    s.end_txn(x, p, e, False)


@V1(source="GroupMetadataManager", kip="KIP-447")
def txn_offset_commit_of_static_member(s: Script) -> None:
    """TxnOffsetCommit with the former member id of a static member is fenced."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.join(g, instance="i1", label="")
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "former id", member=m, gen=1, instance="i1")
    s.end_txn(x, p, e, False)


@V1(source="UnifiedLog", kip="KIP-890")
def txn_offset_commit_without_add(s: Script) -> None:
    """TxnOffsetCommit v3 without AddOffsetsToTxn is refused."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "not added")
    s.offsets(g, t, label="nothing committed")


@V1(source="OffsetMetadataManager", settings={"offset.metadata.max.bytes": "4096"})
def txn_offset_commit_metadata_too_large(s: Script) -> None:
    """TxnOffsetCommit refuses metadata above offset.metadata.max.bytes for its partition alone."""
    t = s.topic("a", 2)
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1, repeat("x", 4097)), (1, 1)], "4097 characters")
    s.end_txn(x, p, e, False)


@V1(source="KafkaApis")
def txn_offset_commit_unknown_topic(s: Script) -> None:
    """TxnOffsetCommit reports unknown topics and partitions one by one."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, s.name("none"), [(0, 1)], "unknown topic")
    s.txn_commit(x, p, e, g, t, [(0, 1), (8, 1)], "unknown partition")
    s.end_txn(x, p, e, False)


@V1
def txn_states(s: Script) -> None:
    """DescribeTransactions and ListTransactions show the state of a transaction."""
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)

    def listed(label: str, *states: str) -> None:
        body = {"stateFilters": list(states), "producerIdFilters": [p]}
        s.call("ListTransactions", 0, body, label)

    s.describe_txn(x, "Empty")
    listed("by producer id")
    s.add_parts(x, p, e, t, [0, 1])
    s.describe_txn(x, "Ongoing")
    listed("filter Ongoing", "Ongoing")
    listed("filter Empty", "Empty")
    listed("unknown filter", "Nonsense")
    s.end_txn(x, p, e, True)
    s.wait_txn(x, "CompleteCommit")
    s.describe_txn(x, "CompleteCommit")


@V1
def txn_describe_errors(s: Script) -> None:
    """DescribeTransactions reports an unknown and an empty transactional id."""
    s.txn_id()
    shown = view(only=["errorCode", "transactionalId"])
    s.describe_txn(s.txn_id("none"), "unknown", view=shown)
    s.describe_txn("", "empty", view=shown)


@V1(kip="KIP-994")
def txn_list_by_duration(s: Script) -> None:
    """ListTransactions v1 lists transactions that run for at least a duration."""
    _, _, p, _ = opened(s, 0)
    for label, ms in (("any", -1), ("0 ms", 0), ("an hour", 3_600_000)):
        body = {"stateFilters": [], "producerIdFilters": [p], "durationFilter": ms}
        s.call("ListTransactions", 1, body, label)


@V1(kip="KIP-1152")
def txn_list_by_pattern(s: Script) -> None:
    """ListTransactions v2 filters transactional ids by a regular expression."""
    _, _, p, _ = opened(s, 0)
    for label, pattern in (("matches", ".*-t.*"), ("does not match", "nothing.*"), ("bad", "(")):
        body = {
            "stateFilters": [],
            "producerIdFilters": [p],
            "durationFilter": -1,
            "transactionalIdPattern": pattern,
        }
        s.call("ListTransactions", 2, body, label)


@V1(source="ProducerAppendInfo")
def txn_first_sequence(s: Script) -> None:
    """A transactional producer may start a partition with any sequence, but not a future epoch."""
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1])
    s.produce(t, batch(1, p, e, 4, True), 0, txn=x, label="first sequence 4")
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, label="other partition, 0")
    s.produce(t, batch(1, p, e + 1, 0, True), 1, txn=x, label="future epoch")
    s.end_txn(x, p, e, True)


@V1(source="ProducerAppendInfo")
def txn_sequence_continues(s: Script) -> None:
    """Sequence numbers continue in the next transaction of the same epoch."""
    t, x, p, e = opened(s, 2)
    s.end_txn(x, p, e, True)
    s.wait_txn(x, "CompleteCommit")
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, label="starts with 0 again")
    s.produce(t, batch(1, p, e, 2, True), txn=x, label="continues")
    s.end_txn(x, p, e, True)


@V1(kip="KIP-360")
def txn_bump_own_epoch(s: Script) -> None:
    """InitProducerId with the current id and epoch returns the next epoch."""
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.init_pid(x, p, e, label="current epoch")
    s.init_pid(x, p, e, label="again: the last epoch is accepted for a retry")
    s.init_pid(x, p + 7, e, label="other producer id")
    s.init_pid(x, p, e + 5, label="future epoch")


@V1(kip="KIP-360")
def txn_bump_aborts(s: Script) -> None:
    """InitProducerId with the current epoch aborts the open transaction."""
    t, x, p, e = opened(s)
    s.init_pid(x, p, e, label="current epoch")
    s.wait_lso(t, 2)
    s.fetch([(t, [(0, 0)])], "aborted", iso=1)


@V1
def txn_concurrent_transactions(s: Script) -> None:
    """While a transaction has records, InitProducerId responds CONCURRENT_TRANSACTIONS at first."""
    _, x, p, e = opened(s)
    s.init_pid(x, label="first response", retry=[14, 15, 16])
    s.init_pid(x, label="later")
    s.end_txn(x, p, e, True, "former epoch")


@V1(source="TransactionStateManager", limit_s=40)
def txn_times_out(s: Script) -> None:
    """The coordinator aborts a transaction after its timeout and fences the producer."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x, timeout=500)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, label="produce")
    s.wait_txn(x, "CompleteAbort")
    s.wait_lso(t, 2)
    s.fetch([(t, [(0, 0)])], "aborted", iso=1)
    s.end_txn(x, p, e, True, "EndTxn of the producer")
    s.init_pid(x, label="InitProducerId")


@V1(source="KafkaApis")
def txn_markers_by_clients(s: Script) -> None:
    """WriteTxnMarkers appends a marker and reports unknown partitions."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0))
    topics = [{"name": t, "partitionIndexes": [0, 9]}]
    marker = {
        "producerId": p,
        "producerEpoch": e,
        "transactionResult": True,
        "topics": topics,
        "coordinatorEpoch": 0,
    }
    s.call("WriteTxnMarkers", 1, {"markers": [marker]}, "commit")
    s.list_offsets(t, -1, label="end")


@V1(source="KafkaApis")
def txn_find_coordinator(s: Script) -> None:
    """FindCoordinator names a coordinator for any transactional id, even for an empty one."""
    s.txn_id()
    s.call("FindCoordinator", 3, {"key": "", "keyType": 1}, "v3, empty")
    s.call("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [""]}, "v4, empty")
    s.call("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [s.name("t")]}, "v4")


@V1(source="ReplicaManager")
def txn_delete_records_of_open_transaction(s: Script) -> None:
    """DeleteRecords may delete records of an open transaction."""
    t, x, p, e = opened(s, 3)
    s.delete_records(t, 2, label="to 2")
    s.fetch([(t, [(0, 2)])], "read committed", iso=1)
    s.end_txn(x, p, e, True, "commit")
    s.wait_lso(t, 4)
    s.fetch([(t, [(0, 2)])], "after the commit", iso=1)


@V1(source="TransactionCoordinator")
def txn_topic_deleted(s: Script) -> None:
    """A transaction can be committed although its topic was deleted."""
    t, x, p, e = opened(s)
    s.delete_topic(t)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.describe_txn(x)


# Version 2


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
    s.produce(
        t, batch(1, p, e2, 0, True), txn=x, version=12, label="next epoch", retry=CONCURRENT
    )
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
