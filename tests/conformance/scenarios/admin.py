"""Topics, metadata, coordinators, partitions, offsets by time, records deleted."""

from tests.conformance.transcript import scenario
from tests.conformance.wire import batch

A = "metadata_admin"


def meta(s, label, topics, version=12, auto=False, **kw):
    b = {"topics": topics}
    if version >= 4:
        b["allowAutoTopicCreation"] = auto
    return s.call(
        None,
        "Metadata",
        version,
        b,
        label,
        view=lambda r: [
            x
            for x in r["topics"]
            if not x["name"] or x["name"].startswith(s.prefix) or x["name"].startswith("bad")
        ],
        **kw,
    )


def ct(s, label, topics, version=7, validate=False, **kw):
    keep = ("name", "errorCode", "numPartitions", "replicationFactor")
    return s.call(
        None,
        "CreateTopics",
        version,
        dict({"topics": topics, "timeoutMs": 20000, "validateOnly": validate}, **kw),
        label,
        view=lambda r: [{k: x[k] for k in keep if k in x} for x in r["topics"]],
    )


@scenario(A)
def meta_topics(s):
    s.topic("a", 2)
    u = s.topic("b")
    meta(s, "all", None)
    meta(s, "none", [])
    meta(s, "one", [{"name": u}])
    meta(s, "unknown", [{"name": s.name("none")}])
    meta(s, "invalid name", [{"name": "bad name!"}])
    meta(s, "v1", [{"name": u}], version=1)


@scenario(A)
def meta_auto_create(s):
    n = s.name("auto")
    meta(s, "not allowed", [{"name": n}], auto=False)
    s.until(
        lambda: s.raw(
            None, "Metadata", 12, {"topics": [{"name": n}], "allowAutoTopicCreation": True}
        ),
        lambda r: r["topics"][0]["errorCode"] == 0,
        "allowed, in the end",
        view=lambda r: r["topics"],
    )
    s.produce(
        s.name("by-produce"), batch(1), label="produce to an unknown topic does not create it"
    )
    s.fetch([(s.name("by-fetch"), [(0, 0)])], "neither does fetch")
    meta(s, "check", [{"name": s.name("by-produce")}, {"name": s.name("by-fetch")}])


@scenario(A)
def coord_find(s):
    s.group("g")
    s.txn_id("t")
    s.call(None, "FindCoordinator", 3, {"key": s.name("g"), "keyType": 0}, "single, group")
    s.call(None, "FindCoordinator", 3, {"key": s.name("t"), "keyType": 1}, "single, transaction")
    s.call(
        None,
        "FindCoordinator",
        4,
        {"keyType": 0, "coordinatorKeys": [s.name("g"), s.name("h"), s.name("g")]},
        "batch",
    )
    s.call(None, "FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": []}, "empty batch")
    s.call(
        None,
        "FindCoordinator",
        4,
        {"keyType": 9, "coordinatorKeys": [s.name("g")]},
        "unknown key type",
    )


@scenario(A)
def topics_create_errors(s):
    t = s.topic()
    n = s.name
    ct(s, "exists", [{"name": t, "numPartitions": 1, "replicationFactor": 1}])
    ct(
        s,
        "invalid names",
        [
            {"name": x, "numPartitions": 1, "replicationFactor": 1}
            for x in ("", ".", "..", "bad/name", "x" * 250)
        ],
    )
    ct(
        s,
        "partitions 0 and -2",
        [
            {"name": n("p0"), "numPartitions": 0, "replicationFactor": 1},
            {"name": n("p2"), "numPartitions": -2, "replicationFactor": 1},
        ],
    )
    ct(
        s,
        "replication factor 0, 2, 30000",
        [{"name": n("r%d" % r), "numPartitions": 1, "replicationFactor": r} for r in (0, 2, 30000)],
    )
    ct(
        s,
        "bad config",
        [
            {
                "name": n("c"),
                "numPartitions": 1,
                "replicationFactor": 1,
                "configs": [{"name": "no.such.config", "value": "1"}],
            }
        ],
    )
    ct(
        s,
        "bad config value",
        [
            {
                "name": n("c"),
                "numPartitions": 1,
                "replicationFactor": 1,
                "configs": [{"name": "retention.ms", "value": "soon"}],
            }
        ],
    )
    meta(s, "nothing was made", [{"name": n("p0")}, {"name": n("c")}])


@scenario(A)
def topics_create_defaults(s):
    ct(
        s,
        "defaults (-1, -1)",
        [{"name": s.name("d"), "numPartitions": -1, "replicationFactor": -1}],
    )
    ct(
        s,
        "validate only",
        [{"name": s.name("v"), "numPartitions": 3, "replicationFactor": 1}],
        validate=True,
    )
    s.sleep(0.3)
    meta(s, "not there", [{"name": s.name("v")}])


@scenario(A)
def topics_delete(s):
    t, u = s.topic("a"), s.topic("b")
    s.call(
        None,
        "DeleteTopics",
        6,
        {"topics": [{"name": t}, {"name": s.name("none")}], "timeoutMs": 10000},
        "known and unknown",
    )
    s.until(
        lambda: s.raw(
            None, "Metadata", 12, {"topics": [{"name": t}], "allowAutoTopicCreation": False}
        ),
        lambda r: r["topics"][0]["errorCode"] == 3,
        "gone",
        view=lambda r: r["topics"],
    )
    s.produce(t, batch(1), label="produce to the deleted topic")
    s.call(None, "DeleteTopics", 5, {"topicNames": [u], "timeoutMs": 10000}, "v5 by name")
    x = s.topic("a")
    s.note("new id", x.id != t.id)
    s.list_offsets(x, -1, label="made again: empty")


@scenario(A)
def partitions_create(s):
    t = s.topic("a", 2)
    c = lambda l, n, topic=t, **k: s.call(
        None,
        "CreatePartitions",
        3,
        dict(
            {
                "topics": [{"name": topic, "count": n, "assignments": None}],
                "timeoutMs": 10000,
                "validateOnly": False,
            },
            **k,
        ),
        l,
    )
    c("same number", 2)
    c("fewer", 1)
    c("unknown topic", 5, s.name("none"))
    c("validate only", 4, validateOnly=True)
    c("to 3", 3)
    s.wait_topic(t, 3)
    s.produce(t, batch(1), 2, label="produce to the new partition")
    s.produce(t, batch(1), 3, label="produce past it")


@scenario(A)
def offsets_list(s):
    t = s.topic("a", 1)
    for i in (100, 300, 200):
        s.produce(t, batch(2, ts=s.t0 + i, ts_step=10), record=False)
    for l, ts in (("latest", -1), ("earliest", -2), ("max timestamp", -3)):
        s.list_offsets(t, ts, label=l)
    for d in (0, 105, 110, 111, 250, 305, 311):
        s.list_offsets(t, s.t0 + d, label="timestamp t0+%d" % d)
    s.list_offsets(t, -1, part=4, label="unknown partition")
    s.list_offsets(s.name("none"), -1, label="unknown topic")


@scenario(A)
def offsets_list_special_times(s):
    t = s.topic()
    s.fill(t, 3)
    s.delete_records(t, 1)
    for version in range(1, 12):
        for time in (-1, -2, -3, -4, -5, -6, -7):
            wanted = {"name": t, "partitions": [{"partitionIndex": 0, "timestamp": time}]}
            body = {"replicaId": -1, "topics": [wanted]}
            (found,) = s.raw(None, "ListOffsets", version, body)["topics"][0]["partitions"]
            said = [found["errorCode"], found["offset"], found.get("leaderEpoch", "no epoch")]
            said.append("a time" if found["timestamp"] >= 0 else found["timestamp"])
            s.note("version %d, %d" % (version, time), " ".join(map(str, said)))


@scenario(A)
def epoch_offset_for_leader(s):
    t = s.topic()
    s.fill(t, 3)
    q = lambda l, ep, cur=-1, part=0: s.call(
        None,
        "OffsetForLeaderEpoch",
        4,
        {
            "replicaId": -1,
            "topics": [
                {
                    "topic": t,
                    "partitions": [
                        {"partition": part, "currentLeaderEpoch": cur, "leaderEpoch": ep}
                    ],
                }
            ],
        },
        l,
    )
    q("epoch 0", 0)
    q("epoch 5", 5)
    q("epoch -1", -1)
    q("current epoch 9", 0, 9)
    q("unknown partition", 0, part=7)


@scenario(A)
def epoch_in_fetch(s):
    t = s.topic()
    s.fill(t, 2)
    s.fetch([(t, [(0, 0, {"currentLeaderEpoch": 0})])], "current epoch 0")
    s.fetch([(t, [(0, 0, {"currentLeaderEpoch": 4})])], "current epoch 4: unknown")
    s.list_offsets(t, -1, currentLeaderEpoch=4, label="ListOffsets with epoch 4")


@scenario(A)
def api_versions_unsupported(s):
    import struct

    c = s.conn()
    p = struct.pack(">hhih", 18, 99, 7, 2) + b"c1" + b"\0" + b"\3cn\2v\0"
    c.send_raw(struct.pack(">i", len(p)) + p)
    f = c.recv_frame()
    s.note("correlation id", struct.unpack(">i", f[:4])[0])
    s.note("error code of a v0 answer", struct.unpack(">h", f[4:6])[0])
    n = struct.unpack(">i", f[6:10])[0]
    keys = {k: (a, b) for k, a, b in struct.iter_unpack(">hhh", f[10 : 10 + 6 * n])}
    s.note(
        "keys listed",
        "ApiVersions" if list(keys) == [18] else "all" if len(keys) > 20 else str(keys),
    )
    r = s.raw(c, "ApiVersions", 3, {"clientSoftwareName": "x", "clientSoftwareVersion": "1"})
    s.note("then v3", r["errorCode"])
    s.note("lists Produce", any(k["apiKey"] == 0 for k in r["apiKeys"]))
    for v in (0, 1, 2):
        s.note("v%d" % v, s.raw(c, "ApiVersions", v, {})["errorCode"])


@scenario(A)
def cluster_describe(s):
    s.call(None, "DescribeCluster", 0, {}, "DescribeCluster v0")
    s.call(
        None,
        "DescribeCluster",
        1,
        {"endpointType": 1},
        "brokers",
        view=lambda r: dict(r, brokers=len(r["brokers"]) > 0),
    )
    s.call(None, "DescribeCluster", 1, {"endpointType": 7}, "unknown endpoint type")


@scenario(A)
def records_delete(s):
    t = s.topic()
    s.fill(t, 3)
    s.fill(t, 3)
    for l, o in (
        ("to 2", 2),
        ("to 1: below the start", 1),
        ("past the end", 7),
        ("-1: to the high watermark", -1),
        ("-2", -2),
    ):
        s.delete_records(t, o, label=l)
    s.delete_records(t, 0, part=5, label="unknown partition")
    s.list_offsets(t, -2, label="earliest")
    s.list_offsets(t, s.t0, label="by timestamp: nothing left")
