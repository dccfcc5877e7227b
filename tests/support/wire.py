"""A small synchronous Kafka client to ask real brokers.

Every request and response is a plain dict with the lowerCamelCase field names of Kafka's JSON
message schemas, taken from kafka-python: nothing of the gateway's codec is used.
"""

import contextlib
import socket
import struct
import time

from kafka.protocol.schemas.load_json import load_json
from kafka.record.util import calc_crc32c


# ---- message schemas kafka-python does not carry (KIP-848) ----
def _f(name, type, versions="0+", **kw):
    return dict(name=name, type=type, versions=versions, **kw)


def _null(name, type, versions="0+", **kw):
    return _f(name, type, versions, nullableVersions=versions, default="null", **kw)


_TP = [_f("TopicId", "uuid"), _f("Partitions", "[]int32")]
_TPN = [_f("TopicId", "uuid"), _f("TopicName", "string"), _f("Partitions", "[]int32")]
_ASG = [_f("TopicPartitions", "[]TopicPartitions", fields=_TPN)]
EXTRA = {
    "ConsumerGroupHeartbeatRequest": dict(
        apiKey=68,
        validVersions="0-1",
        flexibleVersions="0+",
        fields=[
            _f("GroupId", "string"),
            _f("MemberId", "string"),
            _f("MemberEpoch", "int32"),
            _null("InstanceId", "string"),
            _null("RackId", "string"),
            _f("RebalanceTimeoutMs", "int32", default=-1),
            _null("SubscribedTopicNames", "[]string"),
            _null("SubscribedTopicRegex", "string", "1+"),
            _null("ServerAssignor", "string"),
            _null("TopicPartitions", "[]TopicPartitions", fields=_TP),
        ],
    ),
    "ConsumerGroupHeartbeatResponse": dict(
        apiKey=68,
        validVersions="0-1",
        flexibleVersions="0+",
        fields=[
            _f("ThrottleTimeMs", "int32"),
            _f("ErrorCode", "int16"),
            _null("ErrorMessage", "string"),
            _null("MemberId", "string"),
            _f("MemberEpoch", "int32"),
            _f("HeartbeatIntervalMs", "int32"),
            _null(
                "Assignment",
                "Assignment",
                fields=[_f("TopicPartitions", "[]TopicPartitions", fields=_TP)],
            ),
        ],
    ),
    "ConsumerGroupDescribeRequest": dict(
        apiKey=69,
        validVersions="0-1",
        flexibleVersions="0+",
        fields=[_f("GroupIds", "[]string"), _f("IncludeAuthorizedOperations", "bool")],
    ),
    "ConsumerGroupDescribeResponse": dict(
        apiKey=69,
        validVersions="0-1",
        flexibleVersions="0+",
        fields=[
            _f("ThrottleTimeMs", "int32"),
            _f(
                "Groups",
                "[]DescribedGroup",
                fields=[
                    _f("ErrorCode", "int16"),
                    _null("ErrorMessage", "string"),
                    _f("GroupId", "string"),
                    _f("GroupState", "string"),
                    _f("GroupEpoch", "int32"),
                    _f("AssignmentEpoch", "int32"),
                    _f("AssignorName", "string"),
                    _f(
                        "Members",
                        "[]Member",
                        fields=[
                            _f("MemberId", "string"),
                            _null("InstanceId", "string"),
                            _null("RackId", "string"),
                            _f("MemberEpoch", "int32"),
                            _f("ClientId", "string"),
                            _f("ClientHost", "string"),
                            _f("SubscribedTopicNames", "[]string"),
                            _null("SubscribedTopicRegex", "string"),
                            _f("Assignment", "Assignment", fields=_ASG),
                            _f("TargetAssignment", "Assignment", fields=_ASG),
                            _f("MemberType", "int8", "1+", default=-1),
                        ],
                    ),
                    _f("AuthorizedOperations", "int32", default=-2147483648),
                ],
            ),
        ],
    ),
}


# ---- generic codec ----
def _range(s):
    s = str(s)
    if s == "none":
        return (1, 0)
    if s.endswith("+"):
        return (int(s[:-1]), 32767)
    if "-" in s:
        a, b = s.split("-")
        return (int(a), int(b))
    return (int(s), int(s))


def _in(v, r):
    return r[0] <= v <= r[1]


def _lc(n):
    return n[0].lower() + n[1:]


class Field:
    def __init__(self, j):
        self.name, self.type = _lc(j["name"]), j["type"]
        self.versions = _range(j["versions"])
        self.nullable = _range(j.get("nullableVersions", "none"))
        self.tag = j.get("tag")
        self.tagged = _range(j.get("taggedVersions", "none"))
        self.flex = _range(j["flexibleVersions"]) if "flexibleVersions" in j else None
        self.array = self.type.startswith("[]")
        self.elem = self.type[2:] if self.array else self.type
        self.fields = [Field(f) for f in j["fields"]] if j.get("fields") else None
        self._default = j.get("default")

    def default(self, v):
        d = self._default
        if d == "null":
            return None
        if self.array:
            return []
        t = self.type
        if self.fields:
            return {f.name: f.default(v) for f in self.fields if _in(v, f.versions)}
        if t == "string":
            return d or ""
        if t in ("bytes", "records"):
            return b""
        if t == "uuid":
            return "0" * 32
        if t == "bool":
            return d in (True, "true")
        if t == "float64":
            return float(d or 0)
        return int(d, 0) if isinstance(d, str) and d else (d or 0)


def uvarint(n):
    o = bytearray()
    while True:
        b = n & 0x7F
        n >>= 7
        if n:
            o.append(b | 0x80)
        else:
            o.append(b)
            return bytes(o)


def varint(n):
    return uvarint((n << 1) ^ (n >> 63) if n >= 0 else ((n << 1) ^ -1) & 0xFFFFFFFFFFFFFFFF)


_S = {
    k: struct.Struct(">" + c)
    for k, c in dict(
        int8="b", int16="h", uint16="H", int32="i", uint32="I", int64="q", float64="d"
    ).items()
}


def _enc_val(f, t, x, v, flex, out, nullable):
    if t in _S:
        out += _S[t].pack(x)
        return
    if t == "bool":
        out += b"\1" if x else b"\0"
        return
    if t == "uuid":
        out += bytes.fromhex(x or "0" * 32)
        return
    if t in ("string", "bytes", "records"):
        if isinstance(x, str):
            x = x.encode()
        if flex:
            out += uvarint(0 if x is None else len(x) + 1)
        elif t == "string":
            out += struct.pack(">h", -1 if x is None else len(x))
        else:
            out += struct.pack(">i", -1 if x is None else len(x))
        if x:
            out += x
        return
    if nullable and not f.array:
        out += b"\xff" if x is None else b"\1"
        if x is None:
            return
    _enc_struct(f.fields, x, v, flex, out)


def _enc_field(f, x, v, flex, out):
    if f.flex is not None:
        flex = _in(v, f.flex)
    if f.array:
        n = -1 if x is None else len(x)
        out += uvarint(n + 1) if flex else struct.pack(">i", n)
        for e in x or ():
            _enc_val(f, f.elem, e, v, flex, out, False)
    else:
        _enc_val(f, f.type, x, v, flex, out, _in(v, f.nullable))


def _enc_struct(fields, d, v, flex, out):
    known, tags = set(), []
    for f in fields:
        known.add(f.name)
        if not _in(v, f.versions):
            continue
        x = d[f.name] if f.name in d else f.default(v)
        if f.tag is not None and _in(v, f.tagged):
            if f.name in d and x != f.default(v):
                b = bytearray()
                _enc_field(f, x, v, True, b)
                tags.append((f.tag, bytes(b)))
        else:
            _enc_field(f, x, v, flex, out)
    bad = set(d) - known
    if bad:
        raise ValueError("unknown fields %s" % bad)
    if flex:
        out += uvarint(len(tags))
        for t, b in sorted(tags):
            out += uvarint(t) + uvarint(len(b)) + b


class Buf:
    def __init__(self, b):
        self.b, self.p = b, 0

    def take(self, n):
        if n < 0 or self.p + n > len(self.b):
            raise ValueError("response truncated")
        r = self.b[self.p : self.p + n]
        self.p += n
        return r

    def s(self, t):
        return _S[t].unpack(self.take(_S[t].size))[0]

    def uv(self):
        n = s = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 0x7F) << s
            s += 7
            if not b & 0x80:
                return n

    def vi(self):
        n = self.uv()
        return (n >> 1) ^ -(n & 1)


def _dec_val(f, t, v, flex, b, nullable):
    if t in _S:
        return b.s(t)
    if t == "bool":
        return b.take(1) != b"\0"
    if t == "uuid":
        return b.take(16).hex()
    if t in ("string", "bytes", "records"):
        n = b.uv() - 1 if flex else b.s("int16" if t == "string" else "int32")
        if n < 0:
            return None
        r = b.take(n)
        return r.decode() if t == "string" else r
    if nullable and not f.array and b.s("int8") < 0:
        return None
    return _dec_struct(f.fields, v, flex, b)


def _dec_field(f, v, flex, b):
    if f.flex is not None:
        flex = _in(v, f.flex)
    if f.array:
        n = b.uv() - 1 if flex else b.s("int32")
        return None if n < 0 else [_dec_val(f, f.elem, v, flex, b, False) for _ in range(n)]
    return _dec_val(f, f.type, v, flex, b, _in(v, f.nullable))


def _dec_struct(fields, v, flex, b):
    d, tags = {}, {}
    for f in fields:
        if not _in(v, f.versions):
            continue
        if f.tag is not None and _in(v, f.tagged):
            tags[f.tag] = f
            continue
        d[f.name] = _dec_field(f, v, flex, b)
    if flex:
        for _ in range(b.uv()):
            t = b.uv()
            sub = Buf(b.take(b.uv()))
            if t in tags:
                d[tags[t].name] = _dec_field(tags[t], v, True, sub)
    return d


_cache = {}


def schema(name):
    if name not in _cache:
        j = EXTRA.get(name) or load_json(name)
        _cache[name] = (
            j["apiKey"],
            _range(j.get("flexibleVersions", "none")),
            [Field(f) for f in j["fields"]],
        )
    return _cache[name]


def encode_request(api, version, body, corr, client_id):
    key, fx, fields = schema(api + "Request")
    flex = _in(version, fx)
    cid = client_id.encode() if client_id is not None else None
    out = bytearray(struct.pack(">hhi", key, version, corr))
    out += struct.pack(">h", -1 if cid is None else len(cid)) + (cid or b"")
    if flex:
        out += b"\0"
    _enc_struct(fields, body, version, flex, out)
    return bytes(out)


def decode_response(api, version, payload):
    key, fx, fields = schema(api + "Response")
    flex = _in(version, fx)
    b = Buf(payload)
    b.take(4)
    if flex and api != "ApiVersions":
        for _ in range(b.uv()):
            b.uv()
            b.take(b.uv())
    r = _dec_struct(fields, version, flex, b)
    if b.p != len(payload):
        raise ValueError(
            "%d bytes left over in %s v%d response" % (len(payload) - b.p, api, version)
        )
    return r


class ConnClosed(Exception):
    pass


class Conn:
    def __init__(self, host, port, client_id="c1", deadline=None):
        self.client_id, self.deadline, self.corr, self.pending = client_id, deadline, 0, []
        self.sock = socket.create_connection((host, port), timeout=self._left())
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _left(self):
        if self.deadline is None:
            return 30
        t = self.deadline - time.time()
        if t <= 0:
            raise TimeoutError("scenario time limit")
        return t

    def send(self, api, version, body, expect=True):
        self.corr += 1
        p = encode_request(api, version, body, self.corr, self.client_id)
        self.sock.settimeout(self._left())
        self.sock.sendall(struct.pack(">i", len(p)) + p)
        if expect:
            self.pending.append((api, version, self.corr))

    def _exact(self, n):
        out = b""
        while len(out) < n:
            self.sock.settimeout(self._left())
            try:
                c = self.sock.recv(n - len(out))
            except (ConnectionResetError, BrokenPipeError):
                c = b""
            if not c:
                raise ConnClosed
            out += c
        return out

    def recv_frame(self):
        return self._exact(struct.unpack(">i", self._exact(4))[0])

    def recv(self):
        api, version, corr = self.pending.pop(0)
        p = self.recv_frame()
        got = struct.unpack(">i", p[:4])[0]
        if got != corr:
            raise ValueError("correlation id %d, expected %d" % (got, corr))
        return decode_response(api, version, p)

    def call(self, api, version, body):
        self.send(api, version, body)
        return self.recv()

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.close()


# ---- record batches ----
def record(i, ts_delta, key, value, headers=()):
    b = bytearray(b"\0") + varint(ts_delta) + varint(i)
    for x in (key, value):
        b += varint(-1) if x is None else varint(len(x)) + x
    b += varint(len(headers))
    for k, h in headers:
        b += varint(len(k)) + k.encode() + varint(len(h)) + h
    return varint(len(b)) + bytes(b)


def batch(
    count=1,
    pid=-1,
    epoch=-1,
    seq=-1,
    txn=False,
    control=False,
    ts=None,
    values=None,
    base=0,
    magic=2,
    bad_crc=False,
    leader_epoch=-1,
    attrs=0,
    count_field=None,
    last_delta=None,
    keys=None,
    ts_step=0,
):
    ts = int(time.time() * 1000) if ts is None else ts
    values = values or [b"v%d" % i for i in range(count)]
    recs = b"".join(
        record(i, i * ts_step, keys[i] if keys else None, v) for i, v in enumerate(values)
    )
    n = len(values)
    tail = (
        struct.pack(
            ">hiqqqhii",
            attrs | (0x10 if txn else 0) | (0x20 if control else 0),
            n - 1 if last_delta is None else last_delta,
            ts,
            ts + (n - 1) * ts_step,
            pid,
            epoch,
            seq,
            n if count_field is None else count_field,
        )
        + recs
    )
    crc = calc_crc32c(tail) ^ (0xFFFF if bad_crc else 0)
    return struct.pack(">qiibI", base, len(tail) + 9, leader_epoch, magic, crc) + tail


def parse_batches(data):
    out, p = [], 0
    while data and p + 12 <= len(data):
        base, ln = struct.unpack_from(">qi", data, p)
        if p + 12 + ln > len(data) or ln < 49:
            break  # trailing partial batch
        le, magic, crc, attrs, last, ts, mts, pid, ep, seq, n = struct.unpack_from(
            ">ibIhiqqqhii", data, p + 12
        )
        d = dict(
            baseOffset=base,
            lastOffset=base + last,
            magic=magic,
            partitionLeaderEpoch=le,
            producerId=pid,
            producerEpoch=ep,
            baseSequence=seq,
            baseTs=ts,
            maxTs=mts,
            flags=[
                x
                for m, x in ((0x10, "txn"), (0x20, "control"), (0x08, "logAppendTime"))
                if attrs & m
            ],
        )
        d["crcOk"] = calc_crc32c(data[p + 21 : p + 12 + ln]) == crc
        if attrs & 7:
            d["codec"] = attrs & 7
        else:
            b, d["records"] = Buf(data[p + 61 : p + 12 + ln]), []
            for _ in range(n):
                b.vi()
                b.take(1)
                _td, od = b.vi(), b.vi()
                k = b.vi()
                k = b.take(k) if k >= 0 else None
                x = b.vi()
                x = b.take(x) if x >= 0 else None
                for _ in range(b.vi()):
                    b.take(b.vi())
                    b.take(max(0, b.vi()))
                if attrs & 0x20:
                    d["records"].append(
                        {0: "ABORT", 1: "COMMIT"}.get(struct.unpack(">hh", k[:4])[1], "?")
                    )
                else:
                    d["records"].append(
                        "%d:%s%s"
                        % (
                            base + od,
                            (k.decode() + "=") if k else "",
                            "null"
                            if x is None
                            else x.decode("latin1")
                            if len(x) < 60
                            else "(%d bytes)" % len(x),
                        )
                    )
        out.append(d)
        p += 12 + ln
    return out
