"""Transactions."""

from tests.conformance.transcript import RETRY, scenario
from tests.conformance.wire import batch

T = "transactions"


@scenario(T)
def txn_commit(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x, label="transactional produce")
    s.fetch([(t, [(0, 0)])], "read uncommitted, open", iso=0)
    s.fetch([(t, [(0, 0)])], "read committed, open", iso=1)
    s.end_txn(x, p, e, True)
    s.wait_lso(t, 3)
    s.fetch([(t, [(0, 0)])], "read committed, committed", iso=1)
    s.producers(t)


@scenario(T)
def txn_abort(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.fill(t, 1)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(2, p, e, 0, True), txn=x, label="transactional produce")
    s.end_txn(x, p, e, False)
    s.wait_lso(t, 4)
    s.fetch([(t, [(0, 0)])], "read committed: aborted list", iso=1)
    s.fetch([(t, [(0, 3)])], "read committed from the marker", iso=1)
    s.fetch([(t, [(0, 0)])], "read uncommitted: no aborted list", iso=0)


@scenario(T)
def txn_lso_with_open_transaction(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.fill(t, 2)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, label="transactional produce at 2")
    s.fill(t, 3)
    s.fetch([(t, [(0, 0)])], "read committed stops at the LSO", iso=1)
    s.fetch([(t, [(0, 4)])], "read committed beyond the LSO", iso=1)
    s.list_offsets(t, -1, iso=1, label="ListOffsets latest, read committed")
    s.list_offsets(t, -1, iso=0, label="ListOffsets latest, read uncommitted")
    s.end_txn(x, p, e, False)


@scenario(T)
def txn_produce_without_add(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.produce(
        t, batch(1, p, e, 0, True), txn=x, version=11, label="Produce v11, partition not added"
    )
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=12, label="Produce v12 adds it itself")
    s.call(None, "DescribeTransactions", 0, {"transactionalIds": [x]}, "DescribeTransactions")


@scenario(T)
def txn_end_v5_bumps_epoch(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.produce(t, batch(1, p, e, 0, True), txn=x, version=12, label="Produce v12")
    r = s.end_txn(x, p, e, True, version=5, label="EndTxn v5 answers the next epoch")
    s.wait_lso(t, 2)
    e2 = r["producerEpoch"]
    s.until(
        lambda: s.raw(
            None,
            "Produce",
            12,
            s.produce_body(t, batch(1, p, e2, 0, True), txn=x),
            retry=RETRY | {51},
        ),
        lambda r: True,
        "next transaction on the new epoch, seq 0",
    )
    s.produce(t, batch(1, p, e, 1, True), txn=x, version=12, label="old epoch")
    s.end_txn(x, p, e2, True, version=5, label="EndTxn v5")


@scenario(T)
def txn_fenced_by_new_epoch(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, label="produce")
    p2, e2 = s.init_pid(x)
    s.note("same id", p == p2)
    s.wait_lso(t, 2)
    s.add_parts(x, p, e, t, label="old epoch: AddPartitionsToTxn")
    s.produce(t, batch(1, p, e, 1, True), txn=x, label="old epoch: Produce")
    s.end_txn(x, p, e, True, label="old epoch: EndTxn")
    s.fetch([(t, [(0, 0)])], "the open transaction was aborted", iso=1)


@scenario(T)
def txn_end_without_begin(s):
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.end_txn(x, p, e, True, label="EndTxn v3 commit, nothing begun")
    s.end_txn(x, p, e, False, label="EndTxn v3 abort, nothing begun")
    s.end_txn(x, p, e, True, version=5, label="EndTxn v5 commit, nothing begun")
    s.end_txn(s.name("unknown"), p, e, True, label="unknown transactional id")
    s.end_txn(x, p + 1000, e, True, label="wrong producer id")


@scenario(T)
def txn_offset_commit(s):
    t = s.topic()
    x = s.txn_id()
    g = s.group()
    p, e = s.init_pid(x)
    s.call(
        None,
        "AddOffsetsToTxn",
        3,
        {"transactionalId": x, "producerId": p, "producerEpoch": e, "groupId": g},
        "AddOffsetsToTxn",
        retry=RETRY | {51},
    )
    s.call(
        None,
        "TxnOffsetCommit",
        3,
        {
            "transactionalId": x,
            "groupId": g,
            "producerId": p,
            "producerEpoch": e,
            "generationId": -1,
            "memberId": "",
            "topics": [
                {
                    "name": t,
                    "partitions": [
                        {"partitionIndex": 0, "committedOffset": 7, "committedMetadata": "m"}
                    ],
                }
            ],
        },
        "TxnOffsetCommit",
    )
    s.offsets(g, t, label="not visible before the commit")
    s.offsets(g, t, stable=True, label="requireStable")
    s.end_txn(x, p, e, True)
    s.until(
        lambda: s.offsets(g, t, stable=True, record=False),
        lambda r: r["groups"][0]["topics"][0]["partitions"][0]["errorCode"] != 88,
    )
    s.offsets(g, t, label="after the commit")


@scenario(T)
def txn_describe_and_list(s):
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)
    d = lambda l: s.call(None, "DescribeTransactions", 0, {"transactionalIds": [x]}, l)
    ls = lambda l, **k: s.call(
        None, "ListTransactions", 0, dict({"stateFilters": [], "producerIdFilters": [p]}, **k), l
    )
    d("Empty")
    ls("list by producer id")
    s.add_parts(x, p, e, t, [0, 1])
    d("Ongoing")
    ls("filter Ongoing", stateFilters=["Ongoing"])
    ls("filter Empty", stateFilters=["Empty"])
    ls("unknown filter", stateFilters=["Nonsense"])
    s.end_txn(x, p, e, True)
    s.wait_txn(x, "CompleteCommit")
    d("CompleteCommit")
    s.call(
        None,
        "DescribeTransactions",
        0,
        {"transactionalIds": [s.name("none")]},
        "unknown id",
        view=lambda r: [
            {k: x[k] for k in ("errorCode", "transactionalId", "topics")}
            for x in r["transactionStates"]
        ],
    )


@scenario(T)
def txn_first_sequence(s):
    t = s.topic("a", 2)
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t, [0, 1])
    s.produce(t, batch(1, p, e, 4, True), 0, txn=x, label="first sequence is 4")
    s.produce(t, batch(1, p, e, 0, True), 1, txn=x, label="other partition, 0")
    s.produce(t, batch(1, p, e + 1, 0, True), 1, txn=x, label="an epoch not handed out yet")
    s.end_txn(x, p, e, True)


@scenario(T)
def txn_add_offsets_errors(s):
    x = s.txn_id()
    p, e = s.init_pid(x)
    g = s.group()
    a = lambda l, **k: s.call(
        None,
        "AddOffsetsToTxn",
        3,
        dict({"transactionalId": x, "producerId": p, "producerEpoch": e, "groupId": g}, **k),
        l,
    )
    a("wrong producer id", producerId=p + 50)
    a("wrong epoch", producerEpoch=e + 1)
    a("unknown transactional id", transactionalId=s.name("none"))
    a("empty transactional id", transactionalId="")
    a("good")
    s.end_txn(x, p, e, False)
