"""Bytes that are not requests, and requests with invalid parts."""

import struct

from tests.conformance.transcript import scenario
from tests.conformance.wire import ConnClosed, batch, encode_request

M = "malformed"


def outcome(s, c, label):
    """Return the outcome on the connection: a response, or closed."""
    try:
        c.recv_frame()
        s.note(label, "answered")
    except (ConnClosed, OSError) as e:
        if isinstance(e, TimeoutError):
            raise
        s.note(label, "closed")


def alive(s):
    s.note("server still answers", s.raw(s.conn(), "ApiVersions", 0, {})["errorCode"])


def frame(p):
    return struct.pack(">i", len(p)) + p


@scenario(M)
def bad_truncated_frame(s):
    c = s.conn()
    p = encode_request("Metadata", 9, {"topics": []}, 5, "c1")
    c.send_raw(struct.pack(">i", len(p) + 10) + p)
    s.sleep(0.2)
    c.close()
    alive(s)
    c = s.conn()
    c.send_raw(frame(p[:-2]))
    outcome(s, c, "frame whose body stops early")
    alive(s)


@scenario(M)
def bad_api_key(s):
    for k in (999, -1):
        c = s.conn()
        c.send_raw(frame(struct.pack(">hhih", k, 0, 1, 2) + b"c1"))
        outcome(s, c, "api key %d" % k)
    alive(s)


@scenario(M)
def bad_size(s):
    for n in (2147483647, -1, 0):
        c = s.conn()
        c.send_raw(struct.pack(">i", n) + b"abcdefgh")
        outcome(s, c, "size %d" % n)
    alive(s)


@scenario(M)
def bad_crc(s):
    t = s.topic()
    s.produce(t, batch(2, bad_crc=True), label="wrong CRC")
    s.list_offsets(t, -1, label="nothing appended")


@scenario(M)
def bad_empty_records(s):
    t = s.topic()
    s.produce(t, b"", label="empty record set")
    s.list_offsets(t, -1, label="nothing appended")


@scenario(M)
def bad_magic(s):
    t = s.topic()
    for m in (0, 1, 3, -1):
        s.produce(t, batch(1, magic=m), label="magic %d" % m)


@scenario(M)
def bad_partition_numbers(s):
    t = s.topic()
    s.produce(t, batch(1), -1, label="produce to partition -1")
    s.fetch([(t, [(-1, 0)])], "fetch partition -1")
    s.list_offsets(t, -1, part=-1, label="list offsets of partition -1")
    s.commit(s.group(), t, [(-1, 3)], label="commit for partition -1")


@scenario(M)
def bad_unsupported_versions(s):
    for key, v in ((0, 2), (0, 99), (1, 3), (3, 99), (11, 99)):
        c = s.conn()
        c.send_raw(frame(struct.pack(">hhih", key, v, 1, 2) + b"c1" + b"\0" * 40))
        outcome(s, c, "api %d version %d" % (key, v))
    alive(s)


@scenario(M)
def ok_pipelined_in_order(s):
    t = s.topic()
    c = s.conn()
    for i in range(3):
        c.send("Produce", 9, s.produce_body(t, batch(1)))
    c.send(
        "ListOffsets",
        7,
        {
            "replicaId": -1,
            "topics": [{"name": t, "partitions": [{"partitionIndex": 0, "timestamp": -1}]}],
        },
    )
    for i in range(4):
        s.recv(c, "answer %d" % i)


@scenario(M)
def bad_records_of_a_compacted_topic(s):
    keys = [b"a", b"b", b"c"]
    for policy in ("compact", "compact,delete"):
        t = s.topic(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        s.produce(t, batch(3, keys=keys), label=policy + ": keys")
        s.produce(t, batch(5), label=policy + ": no keys")
        s.produce(t, batch(3, keys=[b"a", None, b"c"]), label=policy + ": one has none")
    late = s.t0 + 7_200_000
    s.produce(t, batch(1, ts=late), label="no key, and a time too far ahead")
    mixed = batch(2, keys=[b"a", None], ts=late, ts_step=-7_200_000)
    s.produce(t, mixed, label="one without key, one too far ahead")
    mixed = batch(2, keys=[b"a", None], ts=s.t0, ts_step=7_200_000)
    s.produce(t, mixed, label="one without key is too far ahead")
    for version in (7, 8):
        s.produce(t, batch(1), label="version %d" % version, version=version)
    s.produce(t, batch(1, pid=1, epoch=0, seq=5), label="no key, and a gap")
    s.produce(t, batch(2, count_field=3), label="no key, and a wrong count")
    s.produce(t, batch(1), label="acks 1", acks=1)
    s.list_offsets(t, -1, label="what was appended")


@scenario(M)
def bad_timestamps(s):
    now = s.t0 + 5000
    t = s.topic("b", configs={"message.timestamp.before.max.ms": "600000"})
    s.produce(t, batch(2, ts=now - 900_000, ts_step=900_000), label="the first is too old")
    s.produce(t, batch(2, ts=now, ts_step=-900_000), label="the second is too old")
    s.produce(t, batch(1, ts=now - 300_000), label="not too old")
    s.produce(t, batch(1, ts=-1), label="no time")
    ahead = {"message.timestamp.after.max.ms": "9223372036854775807"}
    s.produce(s.topic("f", configs=ahead), batch(1, ts=now + 10**12), label="as far as you like")
    t = s.topic("d")
    s.produce(t, batch(3, ts=now, ts_step=3_000_000), label="two are too far ahead")
    t = s.topic("a", configs={"message.timestamp.type": "LogAppendTime"})
    s.produce(t, batch(1, ts=now + 10**12), label="append time: any time")
    s.produce(t, batch(2, ts=now, attrs=8), label="append time that a client sets")
