"""Transactions of version 1, with AddPartitionsToTxn."""

from typing import Any

from tests.exam.author import DATA, Author, Ref, batch, view
from tests.exam.script import Script

V1 = Author(
    "transactions_v1",
    "Transactions, version 1",
    kip="KIP-98",
    source="TransactionCoordinator",
    severity=DATA,
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
    s.wait(20)  # a transaction of the same millisecond runs for no time
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
    anywhere = view(without=["nodeId"])
    s.call("FindCoordinator", 3, {"key": "", "keyType": 1}, "v3, empty", view=anywhere)
    body = {"keyType": 1, "coordinatorKeys": [""]}
    s.call("FindCoordinator", 4, body, "v4, empty", view=anywhere)
    s.call("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [s.name("t")]}, "v4")


@V1(source="ReplicaManager")
def txn_delete_records_of_open_transaction(s: Script) -> None:
    """DeleteRecords may delete records of an open transaction."""
    t, x, p, e = opened(s, 3)
    s.delete_records(t, 2, label="to 2")
    s.fetch([(t, [(0, 2)])], "read committed", iso=1)
    s.produce(t, batch(2, p, e, 3, True), txn=x)
    s.delete_records(t, 4, label="to 4")
    s.fetch([(t, [(0, 4)])], "read committed from 4", iso=1)
    s.end_txn(x, p, e, True, "commit")
    s.wait_lso(t, 6)
    s.fetch([(t, [(0, 4)])], "after the commit", iso=1)


@V1(source="TransactionCoordinator")
def txn_topic_deleted(s: Script) -> None:
    """A transaction can be committed although its topic was deleted."""
    t, x, p, e = opened(s)
    s.delete_topic(t)
    s.end_txn(x, p, e, True, "commit")
    s.wait_txn(x, "CompleteCommit")
    s.describe_txn(x)


@V1(source="TransactionCoordinator")
def txn_old_versions_of_fencing(s: Script) -> None:
    """Fenced producers get INVALID_PRODUCER_EPOCH up to EndTxn v1, PRODUCER_FENCED from v2 on."""
    _, x, p, e = opened(s)
    s.init_pid(x)
    for version in (0, 1, 2, 3):
        s.end_txn(x, p, e, True, f"EndTxn v{version}", version=version)
