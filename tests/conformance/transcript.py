"""The transcript of a scenario: connections, calls, and what of the answers is compared."""

import json
import time

from tests.conformance import wire
from tests.conformance.wire import parse_batches

REGISTRY = {}


def scenario(subject, limit=1.0, optional=False):
    def deco(fn):
        assert fn.__name__ not in REGISTRY, fn.__name__
        REGISTRY[fn.__name__] = dict(fn=fn, subject=subject, limit=limit, optional=optional)
        return fn

    return deco


# fields left out (free text, quota, placement) and fields replaced by symbols
DROP = {"throttleTimeMs", "errorMessage", "batchIndexErrorMessage", "rack", "recordErrors_"}
SYM = {
    "sessionId": "sid",
    "producerId": "pid",
    "memberId": "member",
    "leader": "member",
    "topicId": "topic-id",
    "host": "host",
    "port": "port",
    "clientHost": "client-host",
    "clusterId": "cluster",
    "nodeId": "node",
    "leaderId": "node",
    "controllerId": "node",
    "replicaNodes": "node",
    "isrNodes": "node",
    "brokerId": "node",
}
KEEP = {
    "sid": (0,),
    "pid": (-1,),
    "member": ("", None),
    "topic-id": (),
    "node": (-1,),
    "host": ("",),
    "port": (-1,),
    "cluster": ("",),
}
TS = {"lastTimestamp", "transactionStartTimeMs", "logAppendTimeMs", "timestampMs"}
EMPTY_AS_LIST = {"abortedTransactions", "records", "recordErrors"}
RETRY = {14, 15, 16}
ZERO = "0" * 32


class Topic(str):
    id = ZERO


class Transcript:
    def __init__(self, host, port, name, run, patience, limit):
        self.host, self.port, self.patience = host, port, patience
        self.deadline = time.time() + 10 * limit * patience
        self.prefix = "cf%s-%s-" % (run, name.replace("_", "-"))
        self.transcript, self.syms, self.counts, self.conns = [], {}, {}, []
        self.t0 = int(time.time() * 1000) - 5000
        self._c = None

    # -- plumbing
    def name(self, n):
        return self.prefix + n

    def conn(self, client_id="c1"):
        c = wire.Conn(self.host, self.port, client_id, self.deadline)
        self.conns.append(c)
        return c

    @property
    def c(self):
        if self._c is None:
            self._c = self.conn()
        return self._c

    def close(self):
        for c in self.conns:
            c.close()

    def sleep(self, sec):
        if time.time() + sec > self.deadline:
            raise TimeoutError("scenario time limit")
        time.sleep(sec)

    def raw(self, conn, api, version, body, retry=RETRY):
        conn = conn or self.c
        while True:
            r = conn.call(api, version, body)
            if not retry or not (codes(r) & set(retry)):
                return r
            self.sleep(0.1)

    def call(self, conn, api, version, body, label=None, view=None, retry=RETRY):
        r = self.raw(conn, api, version, body, retry)
        self.record(label or "%s v%d" % (api, version), r, view)
        return r

    def recv(self, conn, label, view=None):
        r = conn.recv()
        self.record(label, r, view)
        return r

    def record(self, label, r, view=None):
        self.transcript.append({"step": label, "response": self.norm(view(r) if view else r)})

    def refused(self, label, r):
        """Show only that an error occurred: Kafka returns -1 UNKNOWN_SERVER_ERROR or similar."""
        self.note(label, "refused" if codes(r) - {0} else "accepted")

    def note(self, label, value):
        self.transcript.append({"step": label, "value": self.norm(value)})

    def until(self, fn, pred, label=None, view=None):
        while True:
            r = fn()
            if pred(r):
                break
            self.sleep(0.1)
        if label:
            self.record(label, r, view)
        return r

    # -- normalisation
    def sym(self, cls, v, alloc=True):
        if v in KEEP.get(cls, ()) and v is not None:
            return v
        if v is None:
            return None
        if cls == "topic-id" and v == ZERO:
            return "<no-id>"
        if (cls, v) not in self.syms:
            if not alloc:
                return "<%s?>" % cls
            self.counts[cls] = self.counts.get(cls, 0) + 1
            self.syms[cls, v] = "<%s%d>" % (cls, self.counts[cls])
        return self.syms[cls, v]

    def ts(self, v):
        return v if v < 0 else "<t0%+d>" % (v - self.t0) if abs(v - self.t0) < 3000 else "<ts>"

    def norm(self, x, key=None, alloc=True):
        if isinstance(x, dict):
            out = {}
            ks = sorted(x, key=lambda k: (isinstance(x[k], (list, dict)), k))
            for k in ks:
                if k in DROP:
                    continue
                out[k] = self.norm(x[k], k, alloc)
            return out
        if key in EMPTY_AS_LIST and x is None:
            return []
        if key == "records" and isinstance(x, bytes):
            return [self.norm(b, "batch", alloc) for b in parse_batches(x)]
        if isinstance(x, (list, tuple)):
            if key in ("records", "flags", "steps"):
                return [self.norm(e, None, alloc) for e in x]
            if x and isinstance(x[0], dict):
                x = sorted(x, key=lambda e: json.dumps(self.norm(e, None, False), sort_keys=True))
                return [self.norm(e, None, alloc) for e in x]
            return sorted((self.norm(e, key, alloc) for e in x), key=str)
        if key == "errorCode" or key == "error" or key == "partitionErrorCode":
            return wire.ERR.get(x, x)
        if key in ("baseTs", "maxTs", "timestamp") and isinstance(x, int):
            return self.ts(x)
        if key in TS and isinstance(x, int):
            return -1 if x < 0 else "<ts>"
        if key == "leader" and not isinstance(x, str):
            pass
        elif key in SYM:
            return self.sym(SYM[key], x, alloc)
        if isinstance(x, (bytes, bytearray)):
            try:
                x = bytes(x).decode("ascii")
                x = x if x.isprintable() else "hex:" + x.encode().hex()
            except UnicodeDecodeError:
                x = "hex:" + bytes(x).hex()
            if x.startswith("hex:"):
                x = x.replace(self.prefix.encode().hex(), "")
        if isinstance(x, str):
            return x.replace(self.prefix, "")
        return x


def codes(r):
    out = set()
    if isinstance(r, dict):
        for k, v in r.items():
            if k == "errorCode":
                out.add(v)
            elif isinstance(v, (dict, list)):
                out |= codes(v)
    elif isinstance(r, list):
        for e in r:
            if isinstance(e, (dict, list)):
                out |= codes(e)
    return out
