"""Sequences and epochs of idempotent producers."""

from tests.conformance.transcript import scenario
from tests.conformance.wire import batch

I = "idempotent"


@scenario(I)
def idem_init_ids(s):
    p1 = s.init_pid(label="InitProducerId without a transactional id")
    p2 = s.init_pid(label="again")
    s.note("different ids", p1[0] != p2[0])
    t = s.txn_id()
    s.init_pid(t, label="with a transactional id")
    s.init_pid(t, label="again: same id, next epoch")


@scenario(I)
def idem_in_sequence(s):
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(3, p, e, 0), label="seq 0 x3")
    s.produce(t, batch(2, p, e, 3), label="seq 3 x2")
    s.produce(t, batch(1, p, e, 5), label="seq 5")
    s.producers(t)
    s.fetch([(t, [(0, 0)])])


@scenario(I)
def idem_duplicates_of_last_five(s):
    t = s.topic()
    p, e = s.init_pid()
    for i in range(7):
        s.produce(t, batch(2, p, e, 2 * i), record=False)
    for i in range(6, -1, -1):
        s.produce(t, batch(2, p, e, 2 * i), label="replay batch with seq %d" % (2 * i))
    s.producers(t)
    s.list_offsets(t, -1, label="nothing was appended")


@scenario(I)
def idem_sequence_gap(s):
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), label="seq 0")
    s.produce(t, batch(1, p, e, 2), label="seq 2: gap")
    s.produce(t, batch(1, p, e, 1), label="seq 1")
    s.produce(t, batch(1, p, e, 2), label="seq 2")
    s.producers(t)


@scenario(I)
def idem_old_epoch(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    p2, e2 = s.init_pid(x)
    s.produce(t, batch(1, p2, e2, 0), label="epoch 1 seq 0")
    s.produce(t, batch(1, p, e, 1), label="epoch 0: older")
    s.producers(t)


@scenario(I)
def idem_new_epoch_starts_at_zero(s):
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="epoch 0 seq 0 x2")
    s.produce(t, batch(1, p, e + 1, 2), label="epoch 1 seq 2")
    s.produce(t, batch(1, p, e + 1, 0), label="epoch 1 seq 0")
    s.produce(t, batch(1, p, e, 2), label="epoch 0 seq 2")
    s.producers(t)


@scenario(I)
def idem_two_partitions(s):
    t = s.topic("a", 2)
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), 0, label="partition 0 seq 0 x2")
    s.produce(t, batch(1, p, e, 0), 1, label="partition 1 seq 0")
    s.produce(t, batch(1, p, e, 2), 1, label="partition 1 seq 2: gap")
    s.produce(t, batch(1, p, e, 2), 0, label="partition 0 seq 2")
    s.producers(t, 0)
    s.producers(t, 1)


@scenario(I)
def idem_acks(s):
    t = s.topic()
    p, e = s.init_pid()
    c = s.conn()
    c.send("Produce", 9, s.produce_body(t, batch(1, p, e, 0), acks=0), expect=False)
    s.produce(
        t,
        batch(1, p, e, 1),
        acks=1,
        conn=c,
        label="acks 1 on the same connection: the acks 0 request was not answered",
    )
    s.produce(t, batch(1, p, e, 2), acks=-1, conn=c, label="acks -1")
    s.produce(t, batch(1, p, e, 3), acks=2, conn=c, label="acks 2")
    s.producers(t)


@scenario(I)
def idem_bad_transaction_timeout(s):
    x = s.txn_id()
    s.init_pid(x, timeout=0, label="timeout 0")
    s.init_pid(x, timeout=900001, label="over transaction.max.timeout.ms")
    s.init_pid("", label="empty transactional id")
    s.init_pid(None, timeout=0, label="timeout 0 without transactional id")


@scenario(I)
def idem_sequence_wraps(s):
    t = s.topic()
    p, e = s.init_pid()
    M = 2147483647
    s.produce(t, batch(2, p, e, M - 1), label="new producer at seq MAX-1 x2")
    s.produce(t, batch(1, p, e, 0), label="wraps to 0")
    s.produce(t, batch(1, p, e, 1), label="1")
    s.produce(t, batch(2, p, e, M - 1), label="replay of the first batch")
    s.producers(t)
