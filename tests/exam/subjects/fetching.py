"""Fetch: sessions, sizes, waits, isolation, versions and leader epochs."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import DATA, Author, batch, uuid
from tests.exam.script import Script, fetch_body

FETCH = Author(
    "fetch_sessions", "Fetch sessions", kip="KIP-227", source="FetchSession", severity=DATA
)
BOGUS = 123_456_789


@FETCH(source="ReplicaManager")
def fetch_sessionless(s: Script) -> None:
    """Without a session, each response has all partitions of the request."""
    t = s.topic("a", 2)
    s.fill(t, 3)
    s.fetch([(t, [(0, 0), (1, 0)])], "session 0, epoch -1")
    s.fetch([(t, [(0, 3), (1, 0)])], "at the end")


@FETCH
def fetch_new_session(s: Script) -> None:
    """Epoch 0 creates a session with a new id; its first response has all partitions."""
    t = s.topic("a", 2)
    s.fill(t, 3)
    s.fetch([(t, [(0, 0), (1, 0)])], "first session", epoch=0)
    s.fetch([(t, [(0, 0)])], "second session", epoch=0)


@FETCH
def fetch_session_only_changes(s: Script) -> None:
    """In a session, a response has only partitions with news."""
    t = s.topic("a", 3)
    for part in range(3):
        s.fill(t, 2, part)
    sid = s.fetch([(t, [(p, 2) for p in range(3)])], "at the end", epoch=0)["sessionId"]
    s.fetch([], "no news", session=sid, epoch=1)
    s.fill(t, 1, 1)
    s.fetch([], "partition 1", session=sid, epoch=2)
    s.fetch([], "again, because the offset did not advance", session=sid, epoch=3)
    s.fetch([(t, [(1, 3)])], "the offset advances", session=sid, epoch=4)
    s.fetch([], "no news again", session=sid, epoch=5)


@FETCH
def fetch_session_add(s: Script) -> None:
    """A partition that is added to a session is in the response, even without records."""
    t = s.topic("a", 2)
    s.fill(t, 1, 0)
    s.fill(t, 1, 1)
    sid = s.fetch([(t, [(0, 1)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(1, 1)])], "partition 1 is added", session=sid, epoch=1)
    s.fetch([], "no news", session=sid, epoch=2)


@FETCH
def fetch_session_forget(s: Script) -> None:
    """A forgotten partition is no longer in the responses of its session."""
    t = s.topic("a", 2)
    sid = s.fetch([(t, [(0, 0), (1, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([], "partition 0 is forgotten", session=sid, epoch=1, forget=[(t, [0])])
    s.fill(t, 1, 0)
    s.fill(t, 1, 1)
    s.fetch([], "partition 1 only", session=sid, epoch=2)


@FETCH
def fetch_session_forget_unknown(s: Script) -> None:
    """Forgetting a partition that is not in the session has no effect."""
    t = s.topic("a", 2)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([], "partition 1 is forgotten", session=sid, epoch=1, forget=[(t, [1])])
    s.fill(t)
    s.fetch([], "partition 0", session=sid, epoch=2)


@FETCH
def fetch_session_forget_all(s: Script) -> None:
    """A session that loses its last partition ends."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([], "all forgotten", session=sid, epoch=1, forget=[(t, [0])])
    s.fetch([], "nothing", session=sid, epoch=2)
    s.fetch([(t, [(0, 0)])], "added again", session=sid, epoch=3)


@FETCH
def fetch_session_forget_and_add(s: Script) -> None:
    """A partition that one request adds and forgets is forgotten."""
    t = s.topic()
    s.fill(t, 2)
    sid = s.fetch([(t, [(0, 2)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(0, 0)])], "both", session=sid, epoch=1, forget=[(t, [0])])
    s.fill(t)
    s.fetch([], "next", session=sid, epoch=2)


@FETCH
def fetch_session_wrong_epoch(s: Script) -> None:
    """A request with another epoch than the next one is refused, and the session goes on."""
    t = s.topic()
    s.fill(t, 2)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([], "epoch 2 in place of 1", session=sid, epoch=2)
    s.fetch([], "epoch 1", session=sid, epoch=1)
    s.fetch([], "epoch 1 again", session=sid, epoch=1)
    s.fetch([], "epoch 2", session=sid, epoch=2)


@FETCH
def fetch_session_unknown(s: Script) -> None:
    """An unknown session id is refused, with and without partitions."""
    t = s.topic()
    s.fill(t)
    s.fetch([], "epoch 1", session=BOGUS, epoch=1)
    s.fetch([(t, [(0, 0)])], "epoch 5, with partitions", session=BOGUS, epoch=5)


@FETCH
def fetch_session_id_without_epoch(s: Script) -> None:
    """Session id 0 with an epoch above 0 is refused."""
    t = s.topic()
    s.fetch([(t, [(0, 0)])], "id 0, epoch 1", session=0, epoch=1)


@FETCH
def fetch_session_unknown_id_epoch_0(s: Script) -> None:
    """Epoch 0 with the id of another session closes that one and creates a new session."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(0, 0)])], "its id, epoch 0", session=sid, epoch=0)
    s.fetch([], "the former session", session=sid, epoch=1)


@FETCH
def fetch_session_close(s: Script) -> None:
    """Epoch -1 with a session id closes the session and responds without one."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0)["sessionId"]
    s.fetch([(t, [(0, 0)])], "closed", session=sid, epoch=-1)
    s.fetch([], "the id is gone", session=sid, epoch=1)


@FETCH
def fetch_session_is_not_bound_to_a_connection(s: Script) -> None:
    """A session goes on over another connection."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "new session", epoch=0, on="one")["sessionId"]
    s.close("one")
    s.fetch([], "over another connection", session=sid, epoch=1, on="two")


@FETCH
def fetch_session_error_is_always_returned(s: Script) -> None:
    """A partition with an error is in each response of its session."""
    t = s.topic("a", 2)
    s.fill(t)
    sid = s.fetch([(t, [(0, 1), (7, 0)])], "a partition is unknown", epoch=0)["sessionId"]
    s.fetch([], "again", session=sid, epoch=1)
    s.fetch([], "and again", session=sid, epoch=2)


@FETCH
def fetch_session_offset_out_of_range(s: Script) -> None:
    """An offset out of range is reported until the client sends another one."""
    t = s.topic()
    s.fill(t, 2)
    sid = s.fetch([(t, [(0, 9)])], "offset 9 of 2", epoch=0)["sessionId"]
    s.fetch([], "again", session=sid, epoch=1)
    s.fetch([(t, [(0, 2)])], "offset 2", session=sid, epoch=2)
    s.fetch([], "no news", session=sid, epoch=3)


@FETCH
def fetch_session_log_start(s: Script) -> None:
    """A new log start offset is news for a session."""
    t = s.topic()
    for _ in range(3):
        s.fill(t)
    sid = s.fetch([(t, [(0, 3)])], "at the end", epoch=0)["sessionId"]
    s.fetch([], "no news", session=sid, epoch=1)
    s.delete_records(t, 2)
    s.fetch([], "the log start moved", session=sid, epoch=2)
    s.fetch([], "no news again", session=sid, epoch=3)


@FETCH
def fetch_session_high_watermark(s: Script) -> None:
    """A new high watermark is news, even if read_committed sees no new records."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, batch(1, p, e, 0, True), txn=x)
    sid = s.fetch([(t, [(0, 0)])], "an open transaction", epoch=0, iso=1)["sessionId"]
    s.fetch([], "no news", session=sid, epoch=1, iso=1)
    s.fill(t)
    s.fetch([], "the high watermark moved", session=sid, epoch=2, iso=1)
    s.fetch([], "no news again", session=sid, epoch=3, iso=1)
    s.end_txn(x, p, e, True)
    s.wait_lso(t, 3)
    s.fetch([], "committed", session=sid, epoch=4, iso=1)


def _deleted(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t, u = s.topic("a"), s.topic("b")
        s.fill(t)
        s.fill(u)
        both: Any = [(t, [(0, 0)]), (u, [(0, 0)])]
        sid = s.fetch(both, "new session", version, "c", epoch=0)["sessionId"]
        s.delete_topic(t)
        for epoch in (1, 2):
            s.fetch([], f"after the deletion, {epoch}", version, "c", session=sid, epoch=epoch)
        s.fill(u)
        s.fetch([], "more in the other topic", version, "c", session=sid, epoch=3)

    return play


for _version, _how in ((12, "by name"), (13, "by id"), (17, "by id, v17")):
    FETCH.case(
        f"fetch_session_topic_deleted_v{_version}",
        f"A deleted topic, named {_how}, is an error in the responses of its session.",
        _deleted(_version),
        kip="KIP-516",
    )


@FETCH(kip="KIP-516")
def fetch_session_other_id_of_a_name(s: Script) -> None:
    """A session by topic id does not follow the name to a topic that is created again."""
    t = s.topic()
    s.fill(t, 2)
    sid = s.fetch([(t, [(0, 0)])], "new session", 13, "c", epoch=0)["sessionId"]
    s.delete_topic(t)
    s.topic()
    s.fetch([], "the topic was created again", 13, "c", session=sid, epoch=1)


@FETCH(kip="KIP-516")
def fetch_session_names_then_ids(s: Script) -> None:
    """A session that began with names cannot go on with topic ids."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "v12 with names", 12, epoch=0)["sessionId"]
    s.fetch([], "v13 with ids", 13, session=sid, epoch=1)


@FETCH(kip="KIP-516")
def fetch_session_ids_then_names(s: Script) -> None:
    """A session that began with topic ids cannot go on with names."""
    t = s.topic()
    s.fill(t)
    sid = s.fetch([(t, [(0, 0)])], "v13 with ids", 13, epoch=0)["sessionId"]
    s.fetch([], "v12 with names", 12, session=sid, epoch=1)


@FETCH(kip="KIP-516", source="FetchSession")
def fetch_unknown_topic_id(s: Script) -> None:
    """An unknown topic id is an error of its partitions alone."""
    t = s.topic()
    s.fill(t)
    wanted: Any = [(t, [(0, 0)]), (uuid("other"), [(0, 0), (1, 5)])]
    s.fetch(wanted, "without a session", 13)
    sid = s.fetch(wanted, "new session", 13, epoch=0)["sessionId"]
    s.fetch([], "again", 13, session=sid, epoch=1)


@FETCH(source="ReplicaManager", kip="KIP-74")
def fetch_max_bytes(s: Script) -> None:
    """The first partition with records gives at least one batch, whatever the limits are."""
    t = s.topic("a", 2)
    for part in (0, 1):
        for _ in range(3):
            s.produce(t, batch(values=[b"x" * 1000]), part)
    both: Any = [(t, [(0, 0), (1, 0)])]
    s.fetch(both, "max bytes 1", max_bytes=1)
    s.fetch([(t, [(1, 0), (0, 0)])], "max bytes 1, other order", max_bytes=1)
    s.fetch(both, "max bytes 2500", max_bytes=2500)
    s.fetch(both, "max bytes 0", max_bytes=0)


@FETCH(source="ReplicaManager", kip="KIP-74")
def fetch_partition_max_bytes(s: Script) -> None:
    """The limit of a partition cuts its records, except the first batch of the response."""
    t = s.topic("a", 2)
    for part in (0, 1):
        for _ in range(3):
            s.produce(t, batch(values=[b"x" * 1000]), part)
    both: Any = [(t, [(0, 0), (1, 0)])]
    s.fetch(both, "1 byte for each partition", part_bytes=1)
    s.fetch(both, "1500 bytes for each partition", part_bytes=1500)


@FETCH(source="ReplicaManager")
def fetch_from_inside_a_batch(s: Script) -> None:
    """An offset inside a batch returns the whole batch."""
    t = s.topic()
    s.fill(t, 5)
    s.fetch([(t, [(0, 3)])], "offset 3 of 0 to 4")


@FETCH(source="UnifiedLog")
def fetch_offset_bounds(s: Script) -> None:
    """Offsets before the log start or behind the end are out of range; the end itself is not."""
    t = s.topic()
    s.fill(t, 3)
    s.delete_records(t, 2)
    for offset in (-1, 0, 1, 2, 3, 4):
        s.fetch([(t, [(0, offset)])], f"offset {offset}")


@FETCH(source="DelayedFetch")
def fetch_waits_for_records(s: Script) -> None:
    """A fetch waits until minBytes are there, and a produce ends its wait."""
    t = s.topic()
    body = fetch_body([(t, [(0, 0)])], max_wait=15_000, min_bytes=1)
    s.send("Fetch", 12, body, "waiting")
    s.silent("nothing yet", "waiting")
    s.fill(t)
    s.receive("after a record", "waiting")


@FETCH(source="DelayedFetch")
def fetch_waits_for_min_bytes(s: Script) -> None:
    """A record below minBytes does not end the wait; enough bytes do."""
    t = s.topic()
    body = fetch_body([(t, [(0, 0)])], max_wait=15_000, min_bytes=1000)
    s.send("Fetch", 12, body, "waiting")
    s.fill(t)
    s.silent("a small record", "waiting")
    s.produce(t, batch(values=[b"x" * 2000]))
    s.receive("a large one", "waiting")


@FETCH(source="DelayedFetch")
def fetch_wait_ends(s: Script) -> None:
    """After maxWaitMs a fetch responds without records."""
    t = s.topic()
    s.fetch([(t, [(0, 0)])], "200 ms", max_wait=200, min_bytes=1)


@FETCH(source="DelayedFetch")
def fetch_errors_and_waits(s: Script) -> None:
    """An offset out of range ends the wait of a fetch at once; an unknown partition does not."""
    t = s.topic()
    for label, parts in (("unknown partition", (5, 0)), ("offset out of range", (0, 9))):
        body = fetch_body([(t, [(0, 0), parts])], max_wait=4000, min_bytes=1)
        s.send("Fetch", 12, body, "c")
        s.silent(f"{label}: one second", "c", 1000)
        s.receive(label, "c")


@FETCH(source="DelayedFetch")
def fetch_read_committed_waits(s: Script) -> None:
    """With read_committed, a record of an open transaction does not end the wait; its end does."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    body = fetch_body([(t, [(0, 0)])], max_wait=15_000, min_bytes=1, iso=1)
    s.send("Fetch", 12, body, "waiting")
    s.produce(t, batch(1, p, e, 0, True), txn=x)
    s.silent("an open transaction", "waiting")
    s.end_txn(x, p, e, True)
    s.receive("the transaction has ended", "waiting")


@FETCH(source="DelayedFetch")
def fetch_delete_topic_ends_wait(s: Script) -> None:
    """Deleting the topic ends the wait of a fetch."""
    t = s.topic()
    body = fetch_body([(t, [(0, 0)])], max_wait=15_000, min_bytes=1)
    s.send("Fetch", 12, body, "waiting")
    s.delete_topic(t)
    s.receive("after the deletion", "waiting")


@FETCH(source="Partition", kip="KIP-320")
def fetch_current_leader_epoch(s: Script) -> None:
    """A fetch with a leader epoch that the broker does not know yet is refused."""
    t = s.topic()
    s.fill(t, 2)
    for epoch in (-1, 0, 4):
        s.fetch([(t, [(0, 0, {"currentLeaderEpoch": epoch})])], f"current epoch {epoch}")


@FETCH(source="Partition", kip="KIP-595")
def fetch_last_fetched_epoch(s: Script) -> None:
    """A fetch whose last epoch or offset does not match the log is told where it diverges."""
    t = s.topic()
    s.fill(t, 2)
    for epoch, offset in ((0, 1), (0, 2), (3, 1), (0, 5)):
        wanted = {"lastFetchedEpoch": epoch, "currentLeaderEpoch": 0}
        s.fetch([(t, [(0, offset, wanted)])], f"last epoch {epoch}, offset {offset}")


@FETCH(source="KafkaApis")
def fetch_unknown_names(s: Script) -> None:
    """Unknown topics and partitions are errors of their partitions alone."""
    t = s.topic()
    s.fill(t)
    s.fetch([(t, [(0, 0), (3, 0)]), (s.name("none"), [(0, 0)])], "one known, two unknown")


@FETCH(source="FetchRequest")
def fetch_same_partition_twice(s: Script) -> None:
    """A partition that a request has twice is in the response once."""
    t = s.topic()
    s.fill(t, 3)
    s.fetch([(t, [(0, 0)]), (t, [(0, 2)])], "twice, without a session")
    s.fetch([(t, [(0, 0), (0, 2)])], "twice in a topic, new session", epoch=0)


@FETCH(source="KafkaApis")
def fetch_no_topics(s: Script) -> None:
    """A fetch without topics responds at once with none."""
    s.fetch([], "without a session")
    s.fetch([], "new session", epoch=0)


@FETCH(source="ReplicaManager")
def fetch_compressed(s: Script) -> None:
    """Compressed batches are returned as they were produced."""
    t = s.topic()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        s.fill(t, 3, codec=codec)
    s.fetch([(t, [(0, 0)])], "four codecs")


@FETCH(source="UnifiedLog")
def fetch_headers_and_tombstones(s: Script) -> None:
    """Keys, null values and headers of records are returned unchanged."""
    t = s.topic()
    s.produce(
        t,
        batch(values=[None, b"", b"v"], keys=[b"k", None, b""], headers=[(b"h", b"1")], step=3),
        label="produce",
    )
    s.fetch([(t, [(0, 0)])], "fetch")


VERSIONS = {
    4: "Fetch v4 has the isolation level and the last stable offset.",
    5: "Fetch v5 adds the log start offset.",
    7: "Fetch v7 adds sessions.",
    9: "Fetch v9 adds the leader epoch.",
    11: "Fetch v11 adds the rack and a preferred replica.",
    12: "Fetch v12 has tagged fields.",
    13: "Fetch v13 has topic ids in place of names.",
    15: "Fetch v15 has the replica id in a tagged field.",
    16: "Fetch v16 adds the addresses of new leaders.",
    17: "Fetch v17 adds the directory id.",
    18: "Fetch v18 adds the high watermark of the replica.",
}
"""What is new in a version."""


def _of_version(version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        s.fill(t, 2)
        s.fetch([(t, [(0, 0)])], "records", version)
        s.fetch([(t, [(0, 5)])], "offset out of range", version)
        other = uuid("other") if version >= 13 else s.name("none")
        s.fetch([(other, [(0, 0)])], "unknown topic", version)

    return play


for _version, _rule in VERSIONS.items():
    FETCH.case(f"fetch_v{_version}", _rule, _of_version(_version), source="FetchResponse", kip="")
