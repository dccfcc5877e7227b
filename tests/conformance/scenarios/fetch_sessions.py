"""Fetch sessions, sizes and long polls."""

from tests.conformance.transcript import scenario
from tests.conformance.wire import batch

F = "fetch_sessions"


@scenario(F)
def fetch_sessionless_full(s):
    t = s.topic("a", 2)
    s.fill(t, 3)
    s.fetch([(t, [(0, 0), (1, 0)])], "full fetch, session 0 epoch -1")
    s.fetch([(t, [(0, 3), (1, 0)])], "again: also unchanged partitions are returned")


@scenario(F)
def fetch_new_session(s):
    t = s.topic("a", 2)
    s.fill(t, 3)
    r = s.fetch([(t, [(0, 0), (1, 0)])], "new session", epoch=0)
    s.note("session id positive", r["sessionId"] > 0)
    r2 = s.fetch([(t, [(0, 0)])], "second session has its own id", epoch=0)
    s.note("ids differ", r["sessionId"] != r2["sessionId"])


@scenario(F)
def fetch_incremental_only_changed(s):
    t = s.topic("a", 3)
    [s.fill(t, 2, p) for p in range(3)]
    sid = s.fetch([(t, [(p, 2) for p in range(3)])], "new session at the log end", epoch=0)[
        "sessionId"
    ]
    s.fetch([], "nothing changed -> no partitions", sid=sid, epoch=1)
    s.fill(t, 1, 1)
    s.fetch([], "only partition 1", sid=sid, epoch=2)
    s.fetch([], "records still there, offset not advanced -> returned again", sid=sid, epoch=3)
    s.fetch([(t, [(1, 3)])], "offset advanced to the end", sid=sid, epoch=4)
    s.fetch([], "quiet again", sid=sid, epoch=5)


@scenario(F)
def fetch_incremental_add_and_forget(s):
    t = s.topic("a", 3)
    [s.fill(t, 1, p) for p in range(3)]
    sid = s.fetch([(t, [(0, 1)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(1, 1)])], "added partition is returned though it has no data", sid=sid, epoch=1)
    s.fetch([], "then quiet", sid=sid, epoch=2)
    s.fetch([], "forget partition 0", sid=sid, epoch=3, forget=[(t, [0])])
    s.fill(t, 1, 0)
    s.fill(t, 1, 1)
    s.fetch([], "only 1 is in the session", sid=sid, epoch=4)


@scenario(F)
def fetch_wrong_session_epoch(s):
    t = s.topic()
    s.fill(t, 2)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([], "epoch 2, expected 1", sid=sid, epoch=2)
    s.fetch([], "epoch 1 still works", sid=sid, epoch=1)
    s.fetch([], "epoch 1 repeated", sid=sid, epoch=1)
    s.fetch([], "epoch 2 works", sid=sid, epoch=2)


@scenario(F)
def fetch_unknown_session_id(s):
    t = s.topic()
    s.fill(t, 1)
    s.fetch([], "unknown id, epoch 1", sid=123456789, epoch=1)
    s.fetch([(t, [(0, 0)])], "unknown id with partitions, epoch 5", sid=123456789, epoch=5)


@scenario(F)
def fetch_session_close(s):
    t = s.topic()
    s.fill(t, 1)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(0, 0)])], "close (id, -1): answered sessionless", sid=sid, epoch=-1)
    s.fetch([], "id is gone", sid=sid, epoch=1)


@scenario(F)
def fetch_error_partition_always_returned(s):
    t = s.topic("a", 2)
    s.fill(t, 1)
    sid = s.fetch(
        [(t, [(0, 1), (7, 0)])], "new session with a partition that does not exist", epoch=0
    )["sessionId"]
    s.fetch([], "error partition comes back", sid=sid, epoch=1)
    s.fetch([], "and again", sid=sid, epoch=2)


@scenario(F)
def fetch_session_log_start_change(s):
    t = s.topic()
    s.fill(t, 1)
    s.fill(t, 1)
    s.fill(t, 1)
    sid = s.fetch([(t, [(0, 3)])], "new session at end", epoch=0)["sessionId"]
    s.fetch([], "quiet", sid=sid, epoch=1)
    s.delete_records(t, 2)
    s.fetch([], "log start moved", sid=sid, epoch=2)
    s.fetch([], "quiet", sid=sid, epoch=3)


@scenario(F)
def fetch_unknown_topic_id_sessionless(s):
    t = s.topic()
    s.fill(t, 1)
    bogus = "00000000000040008000000000000abc"
    s.syms["topic-id", bogus] = "<bogus>"
    s.fetch(
        [(t, [(0, 0)]), (bogus, [(0, 0), (1, 5)])], "one good, one unknown topic id", version=13
    )


@scenario(F)
def fetch_max_bytes_first_partition(s):
    t = s.topic("a", 2)
    for p in (0, 1):
        for i in range(3):
            s.produce(t, batch(1, ts=s.t0, values=[b"x" * 1000]), p, record=False)
    s.fetch(
        [(t, [(0, 0), (1, 0)])], "max bytes 1: first batch of the first partition only", max_bytes=1
    )
    s.fetch([(t, [(1, 0), (0, 0)])], "max bytes 1, partition order swapped", max_bytes=1)
    s.fetch([(t, [(0, 0), (1, 0)])], "max bytes 2500", max_bytes=2500)


@scenario(F)
def fetch_long_poll_woken_by_produce(s):
    t = s.topic()
    c2 = s.conn()
    import time

    wait = int(4000 * s.patience)
    t1 = time.time()
    c2.send("Fetch", 12, s.fetch_body([(t, [(0, 0)])], max_wait=wait, min_bytes=1))
    s.sleep(0.3)
    s.fill(t, 1)
    s.recv(c2, "woken by produce")
    s.note("before max wait", (time.time() - t1) * 1000 < wait)


@scenario(F)
def fetch_old_versions(s):
    t = s.topic()
    s.fill(t, 2)
    for v in (4, 5, 7, 9, 11):
        s.fetch([(t, [(0, 0)])], "v%d" % v, version=v)
    s.fetch([(t, [(0, 5)]), (s.name("none"), [(0, 0)])], "v4 errors", version=4)


@scenario(F)
def fetch_session_watermark_only_change(s):
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x, record=False)
    sid = s.fetch([(t, [(0, 0)])], "read committed session at an open transaction", epoch=0, iso=1)[
        "sessionId"
    ]
    s.fetch([], "quiet", sid=sid, epoch=1, iso=1)
    s.fill(t, 1)
    s.fetch([], "no readable data, but the high watermark moved", sid=sid, epoch=2, iso=1)
    s.fetch([], "quiet", sid=sid, epoch=3, iso=1)
    s.end_txn(x, p, e, True)
    s.wait_lso(t, 3)
    s.fetch([], "committed", sid=sid, epoch=4, iso=1)


@scenario(F)
def fetch_session_topic_deleted(s):
    for version in (12, 13, 17):
        t = s.topic("v%d" % version)
        u = s.topic("u%d" % version)
        s.fill(t)
        s.fill(u)
        c = s.conn()
        both = [(t, [(0, 0)]), (u, [(0, 0)])]
        r = s.fetch(both, "v%d: a session" % version, c, version, epoch=0)
        s.raw(None, "DeleteTopics", 6, {"topics": [{"name": t}], "timeoutMs": 10000})
        asked = {"topics": [{"name": t}], "allowAutoTopicCreation": False}
        s.until(
            lambda body=asked: s.raw(None, "Metadata", 12, body),
            lambda r: r["topics"][0]["errorCode"] == 3,
        )
        for epoch in (1, 2):
            s.fetch([], "v%d: it goes on" % version, c, version, sid=r["sessionId"], epoch=epoch)
        s.fill(u)
        s.fetch([], "v%d: the other has more" % version, c, version, sid=r["sessionId"], epoch=3)
