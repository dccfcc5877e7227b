"""What is no request, and requests whose parts make no sense."""

import struct

from tests.conformance.transcript import scenario
from tests.conformance.wire import ConnClosed, batch, encode_request

M = "malformed"


def outcome(s, c, label):
    """what the connection does: an answer, or closed"""
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
