"""Committed offsets and groups."""

from tests.conformance.transcript import scenario

G = "groups"


@scenario(G)
def off_simple_commit(s):
    t = s.topic("a", 2)
    g = s.group()
    s.commit(g, t, [(0, 5, "meta"), (1, 0)])
    s.offsets(g, t, [0, 1])
    s.commit(g, t, [(0, 3)], label="back to 3, empty metadata")
    s.offsets(g, t, [0, 1])
    s.describe(g)
    s.list_groups()


@scenario(G)
def off_fetch_uncommitted(s):
    t = s.topic("a", 2)
    g = s.group()
    s.offsets(g, t, [0, 1], label="group that does not exist")
    s.commit(g, t, [(0, 1)])
    s.offsets(g, t, [1], label="uncommitted partition")
    s.offsets(g, s.name("none"), [0], label="topic that does not exist")
    s.offsets(g, t, [9], label="partition that does not exist")


@scenario(G)
def off_metadata_too_large(s):
    t = s.topic("a", 2)
    g = s.group()
    s.commit(g, t, [(0, 1, "x" * 4096), (1, 1, "x" * 4097)], label="4096 and 4097 characters")
    r = s.offsets(g, t, [0, 1], record=False)
    s.note(
        "committed",
        sorted(
            (p["partitionIndex"], p["committedOffset"], len(p["metadata"]))
            for p in r["groups"][0]["topics"][0]["partitions"]
        ),
    )


@scenario(G)
def off_commit_unknown_topic(s):
    t = s.topic()
    g = s.group()
    s.commit(g, s.name("none"), [(0, 1)], label="unknown topic")
    s.commit(g, t, [(0, 1), (4, 1)], label="unknown partition beside a good one")
    s.offsets(g, label="all")


@scenario(G)
def off_several_groups(s):
    t = s.topic("a", 2)
    g, h = s.group("g"), s.group("h")
    s.commit(g, t, [(0, 1)])
    s.commit(h, t, [(1, 2)])
    s.call(
        None,
        "OffsetFetch",
        8,
        {
            "groups": [
                {"groupId": g, "topics": None},
                {"groupId": h, "topics": [{"name": t, "partitionIndexes": [0, 1]}]},
                {"groupId": s.name("nobody"), "topics": None},
            ]
        },
        "three groups in one request",
    )


@scenario(G)
def off_delete_offsets(s):
    t = s.topic("a", 2)
    g = s.group()
    d = lambda topic, ps, l: s.call(
        None,
        "OffsetDelete",
        0,
        {
            "groupId": g,
            "topics": [{"name": topic, "partitions": [{"partitionIndex": p} for p in ps]}],
        },
        l,
    )
    d(t, [0], "group that does not exist")
    s.commit(g, t, [(0, 1), (1, 2)])
    d(t, [0], "delete partition 0")
    d(t, [0], "again")
    d(s.name("none"), [0], "unknown topic")
    s.offsets(g, label="all")


@scenario(G)
def grp_member_id_required(s):
    g = s.group()
    r = s.join(g, label="v7 without member id")
    s.note("has member id", bool(r["memberId"]))
    s.join(g, r["memberId"], label="with the id given")
    s.join(s.group("h"), version=3, label="v3 without member id joins at once")
    s.join(s.group("i"), "made-up-id", label="made-up member id")


@scenario(G)
def grp_leader_and_follower(s):
    g = s.group()
    c2 = s.conn("c2")
    m1 = s.new_member(g, protos=[("range", b"m1")])
    s.join(g, m1, protos=[("range", b"m1")], label="first join")
    s.sync(g, m1, 1, [(m1, b"everything")])
    m2 = s.new_member(g, c2, protos=[("range", b"m2")])
    c2.send("JoinGroup", 7, s.join_body(g, m2, protos=[("range", b"m2")]))
    s.until(
        lambda: s.raw(None, "Heartbeat", 4, {"groupId": g, "generationId": 1, "memberId": m1}),
        lambda r: r["errorCode"] == 27,
        "heartbeat during rebalance",
    )
    s.describe(g, "PreparingRebalance")
    s.join(g, m1, protos=[("range", b"m1")], label="leader rejoins")
    s.recv(c2, "follower's answer")
    s.describe(g, "CompletingRebalance")
    s.heartbeat(g, m1, 2, "heartbeat while completing")
    c2.send("SyncGroup", 5, s.sync_body(g, m2, 2))
    s.sync(g, m1, 2, [(m1, b"left"), (m2, b"right")], label="leader syncs")
    s.recv(c2, "follower sync")
    s.describe(g, "Stable")


@scenario(G)
def grp_heartbeat_errors(s):
    g = s.group()
    s.heartbeat(g, "nobody", 1, "group that does not exist")
    m, gen = s.stable(g)
    s.heartbeat(g, m, gen, "good")
    s.heartbeat(g, m, gen + 1, "generation ahead")
    s.heartbeat(g, m, gen - 1, "generation behind")
    s.heartbeat(g, "nobody", gen, "unknown member")
    s.heartbeat("", m, gen, "empty group id")


@scenario(G)
def grp_inconsistent_protocol(s):
    g = s.group()
    s.stable(g)
    s.join(g, ptype="connect", label="other protocol type", version=3)
    s.join(g, protos=[("roundrobin", b"")], label="no common protocol", version=3)
    s.join(s.group("h"), protos=[], label="no protocols", version=3)
    s.join(s.group("i"), ptype="", label="empty protocol type", version=3)


@scenario(G)
def grp_session_timeout_bounds(s):
    for ms in (5999, 6000, 1800000, 1800001):
        s.join(s.group("g%d" % ms), session=ms, version=3, label="session timeout %d" % ms)


@scenario(G)
def grp_static_fencing(s):
    g = s.group()
    r = s.join(g, instance="i1", label="static member joins without id")
    m = r["memberId"]
    s.sync(g, m, 1, [(m, b"all")], instance="i1")
    s.heartbeat(g, m, 1, instance="i1")
    r2 = s.join(g, instance="i1", label="same instance again: takes over")
    s.note("new member id", r2["memberId"] != m)
    s.heartbeat(g, m, 1, "old id with instance", instance="i1")
    s.heartbeat(g, m, 1, "old id without instance")
    s.commit(g, s.topic(), [(0, 1)], member=m, gen=1, instance="i1", label="commit with old id")
    s.describe(g)


@scenario(G)
def grp_leave_batch(s):
    g = s.group()
    m = s.join(g, instance="i1")["memberId"]
    s.sync(g, m, 1, [(m, b"x")], instance="i1")
    s.leave(
        g,
        [("", "i1"), ("nobody", None), ("", "i9")],
        "by instance, unknown member, unknown instance",
    )
    s.describe(g, "empty")
    s.leave(s.name("none"), [("x", None)], "unknown group")


@scenario(G)
def grp_states_listed(s):
    g, h = s.group("g"), s.group("h")
    t = s.topic()
    s.describe(g, "no such group, v5")
    s.describe(g, "no such group, v6", version=6)
    m, gen = s.stable(g)
    s.commit(h, t, [(0, 1)])
    s.list_groups("both")
    s.list_groups("Stable only", statesFilter=["Stable"])
    s.list_groups("lower case", statesFilter=["empty"])
    s.list_groups("classic only", typesFilter=["classic"])
    s.list_groups("consumer only", typesFilter=["consumer"])
    s.leave(g, [(m, None)])
    s.describe(g, "after leaving")
    s.list_groups("at the end")


@scenario(G)
def grp_commit_checks(s):
    g = s.group()
    t = s.topic()
    m, gen = s.stable(g)
    s.commit(g, t, [(0, 1)], "right", member=m, gen=gen)
    s.commit(g, t, [(0, 2)], "old generation", member=m, gen=gen - 1)
    s.commit(g, t, [(0, 2)], "unknown member", member="nobody", gen=gen)
    s.commit(g, t, [(0, 2)], "no member, no generation")
    s.commit(
        s.group("h"),
        t,
        [(0, 2)],
        "generation in a group that does not exist",
        member="nobody",
        gen=3,
    )
    s.offsets(g, t)


@scenario(G)
def grp_delete(s):
    g, h = s.group("g"), s.group("h")
    t = s.topic()
    m, gen = s.stable(g)
    s.commit(h, t, [(0, 1)])
    s.call(
        None,
        "DeleteGroups",
        2,
        {"groupsNames": [g, h, s.name("none")]},
        "non-empty, empty, unknown",
    )
    s.offsets(h, t, label="offsets are gone")
    s.leave(g, [(m, None)])
    s.call(None, "DeleteGroups", 2, {"groupsNames": [g]}, "after leaving")
    s.describe(g)


@scenario(G, limit=2)
def grp_delete_while_an_id_is_given(s):
    """g is deleted, h is not, i and j are deleted and joined again."""
    g, h, i, j = (s.group(n) for n in "ghij")
    names = [g, h, i, j]
    ids = {n: s.new_member(n, session=s.session_ms) for n in names}
    delete = lambda label, *ns: s.call(None, "DeleteGroups", 2, {"groupsNames": list(ns)}, label)

    def look(when):
        s.call(None, "DescribeGroups", 6, {"groups": names}, when)
        s.list_groups(when + ": ListGroups")
        for n in names:
            s.offsets(n, label=when + ": OffsetFetch")
            s.heartbeat(n, ids[n], 0, when + ": Heartbeat")

    look("ids are given")
    delete("deleted", g, i, j)
    look("after DeleteGroups")
    s.join(g, ids[g], "the id of a deleted group", session=s.session_ms)
    s.leave(g, [(ids[g], None)], label="leaves the deleted group")
    s.join(i, label="joins again", session=s.session_ms)
    ids[i] = s.new_member(i)
    s.stable(j)
    delete("deleted again", g)
    s.sleep(s.session_ms / 1000 + 1)
    look("after the session time-out")
    s.join(i, ids[i], "the later id")
    look("after the join")
    delete("at last", *names)
    look("in the end")


@scenario(G, limit=2)
def grp_session_expiry(s):
    g = s.group()
    m, gen = s.stable(g, session=s.session_ms)
    s.until(
        lambda: s.raw(None, "DescribeGroups", 5, {"groups": [g]}),
        lambda r: r["groups"][0]["groupState"] != "Stable",
        "expired",
    )
    s.heartbeat(g, m, gen, "heartbeat afterwards")


@scenario(G)
def kip848_join_and_leave(s):
    import uuid

    g = s.group()
    t = s.topic("a", 3)
    m = uuid.uuid4().hex
    hb = lambda label, ep, **k: s.call(
        None,
        "ConsumerGroupHeartbeat",
        1,
        dict({"groupId": g, "memberId": m, "memberEpoch": ep}, **k),
        label,
    )
    join = dict(rebalanceTimeoutMs=30000, subscribedTopicNames=[t], topicPartitions=[])
    e = hb("join", 0, **join)["memberEpoch"]
    hb("plain heartbeat", e)
    hb("owned partitions told", e, topicPartitions=[{"topicId": t.id, "partitions": [0, 1, 2]}])
    hb("epoch ahead", e + 7)
    hb("joins again with epoch 0", 0, **join)
    s.call(None, "ConsumerGroupDescribe", 1, {"groupIds": [g]}, "ConsumerGroupDescribe")
    s.list_groups()
    hb("leave", -1)
    hb("heartbeat after leaving", e)
    s.call(None, "ConsumerGroupDescribe", 1, {"groupIds": [g]}, "empty")
    s.call(None, "DeleteGroups", 2, {"groupsNames": [g]}, "delete")
