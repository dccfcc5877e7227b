"""Building blocks of the scenarios: set-up, and short forms of the requests."""

from tests.conformance import wire
from tests.conformance.transcript import RETRY, Topic, Transcript
from tests.conformance.wire import batch


class S(Transcript):
    """A scenario's context."""

    # -- set-up helpers (not recorded)
    def topic(self, n="a", partitions=1, configs=None):
        t = Topic(self.name(n))
        body = {
            "topics": [
                {
                    "name": t,
                    "numPartitions": partitions,
                    "replicationFactor": 1,
                    "configs": [{"name": k, "value": v} for k, v in (configs or {}).items()],
                }
            ],
            "timeoutMs": 20000,
        }
        r = self.raw(None, "CreateTopics", 7, body)["topics"][0]
        if r["errorCode"]:
            raise RuntimeError("CreateTopics: %s" % wire.ERR.get(r["errorCode"]))
        t.id = self.wait_topic(t, partitions)
        self.syms["topic-id", t.id] = "<id:%s>" % n
        return t

    def wait_topic(self, t, partitions=1):
        def ready(r):
            x = r["topics"][0]
            return (
                not x["errorCode"]
                and len(x["partitions"]) == partitions
                and all(p["leaderId"] >= 0 and not p["errorCode"] for p in x["partitions"])
            )

        r = self.until(
            lambda: self.raw(
                None, "Metadata", 12, {"topics": [{"name": t}], "allowAutoTopicCreation": False}
            ),
            ready,
        )
        self.until(
            lambda: self.raw(
                None,
                "ListOffsets",
                7,
                {
                    "replicaId": -1,
                    "topics": [
                        {
                            "name": t,
                            "partitions": [
                                {"partitionIndex": p, "timestamp": -1} for p in range(partitions)
                            ],
                        }
                    ],
                },
            ),
            lambda r: all(p["errorCode"] == 0 for p in r["topics"][0]["partitions"]),
        )
        return r["topics"][0]["topicId"]

    def group(self, n="g", key_type=0):
        g = self.name(n)
        self.until(
            lambda: self.raw(
                None, "FindCoordinator", 4, {"keyType": key_type, "coordinatorKeys": [g]}
            ),
            lambda r: r["coordinators"][0]["errorCode"] == 0,
        )
        return g

    def txn_id(self, n="t"):
        return self.group(n, 1)

    # -- produce / fetch / admin shortcuts
    def produce_body(self, topic, data, part=0, acks=-1, txn=None, timeout=10000):
        return {
            "transactionalId": txn,
            "acks": acks,
            "timeoutMs": timeout,
            "topicData": [{"name": topic, "partitionData": [{"index": part, "records": data}]}],
        }

    def produce(
        self, topic, data, part=0, label=None, acks=-1, txn=None, version=11, conn=None, record=True
    ):
        body = self.produce_body(topic, data, part, acks, txn)
        r = self.raw(conn, "Produce", version, body)
        if record:
            self.record(label or "Produce", r)
        return r["responses"][0]["partitionResponses"][0]

    def fill(self, topic, n=1, part=0, **kw):
        r = self.produce(topic, batch(n, ts=self.t0, **kw), part, record=False)
        if r["errorCode"]:
            raise RuntimeError("fill: %s" % wire.ERR.get(r["errorCode"]))
        return r["baseOffset"]

    def fetch_body(
        self,
        topics,
        sid=0,
        epoch=-1,
        version=12,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        iso=0,
        forget=(),
        pmax=1 << 20,
    ):
        """topics: [(topic, [(partition, offset[, {extra}])])]; a None topic list is empty"""
        tl = []
        for t, ps in topics:
            tl.append(
                {
                    ("topicId" if version >= 13 else "topic"): (
                        getattr(t, "id", t) if version >= 13 else t
                    ),
                    "partitions": [
                        dict(
                            dict(partition=p[0], fetchOffset=p[1], partitionMaxBytes=pmax),
                            **(p[2] if len(p) > 2 else {}),
                        )
                        for p in ps
                    ],
                }
            )
        fl = [
            {
                ("topicId" if version >= 13 else "topic"): (
                    getattr(t, "id", t) if version >= 13 else t
                ),
                "partitions": list(ps),
            }
            for t, ps in forget
        ]
        b = {
            "maxWaitMs": max_wait,
            "minBytes": min_bytes,
            "maxBytes": max_bytes,
            "isolationLevel": iso,
            "topics": tl,
        }
        if version >= 7:
            b.update(sessionId=sid, sessionEpoch=epoch, forgottenTopicsData=fl)
        return b

    def fetch(self, topics, label="Fetch", conn=None, version=12, **kw):
        return self.call(
            conn, "Fetch", version, self.fetch_body(topics, version=version, **kw), label
        )

    def delete_records(self, topic, offset, part=0, label=None):
        r = self.raw(
            None,
            "DeleteRecords",
            2,
            {
                "topics": [
                    {"name": topic, "partitions": [{"partitionIndex": part, "offset": offset}]}
                ],
                "timeoutMs": 10000,
            },
        )
        if label:
            self.record(label, r)
        return r

    def init_pid(
        self,
        txn=None,
        pid=-1,
        epoch=-1,
        label=None,
        timeout=60000,
        version=4,
        conn=None,
        retry=RETRY | {51},
    ):
        r = self.raw(
            conn,
            "InitProducerId",
            version,
            {
                "transactionalId": txn,
                "transactionTimeoutMs": timeout,
                "producerId": pid,
                "producerEpoch": epoch,
            },
            retry,
        )
        if label:
            self.record(label, r)
        return r["producerId"], r["producerEpoch"]

    def producers(self, topic, part=0, label="DescribeProducers"):
        return self.call(
            None,
            "DescribeProducers",
            0,
            {"topics": [{"name": topic, "partitionIndexes": [part]}]},
            label,
        )

    def list_offsets(self, topic, ts, part=0, label=None, version=7, iso=0, **kw):
        return self.call(
            None,
            "ListOffsets",
            version,
            {
                "replicaId": -1,
                "isolationLevel": iso,
                "topics": [
                    {"name": topic, "partitions": [dict(partitionIndex=part, timestamp=ts, **kw)]}
                ],
            },
            label or "ListOffsets",
        )

    # -- groups
    @property
    def session_ms(self):
        return int(6000 * max(1, self.patience / 2))

    def join_body(
        self,
        g,
        member="",
        protos=(("range", b"m"),),
        ptype="consumer",
        instance=None,
        session=None,
        rebalance=None,
        version=7,
    ):
        b = {
            "groupId": g,
            "sessionTimeoutMs": session or max(30000, self.session_ms),
            "rebalanceTimeoutMs": rebalance or max(30000, self.session_ms),
            "memberId": member,
            "protocolType": ptype,
            "protocols": [{"name": n, "metadata": m} for n, m in protos],
        }
        if version >= 5:
            b["groupInstanceId"] = instance
        return b

    def join(self, g, member="", label="JoinGroup", conn=None, version=7, **kw):
        return self.call(
            conn, "JoinGroup", version, self.join_body(g, member, version=version, **kw), label
        )

    def new_member(self, g, conn=None, **kw):
        """member id from the MEMBER_ID_REQUIRED round trip, not recorded"""
        return self.raw(conn, "JoinGroup", 7, self.join_body(g, **kw))["memberId"]

    def sync_body(self, g, member, gen, asg=(), instance=None, proto="range", ptype="consumer"):
        return {
            "groupId": g,
            "generationId": gen,
            "memberId": member,
            "groupInstanceId": instance,
            "protocolType": ptype,
            "protocolName": proto,
            "assignments": [{"memberId": m, "assignment": a} for m, a in asg],
        }

    def sync(self, g, member, gen, asg=(), label="SyncGroup", conn=None, **kw):
        return self.call(conn, "SyncGroup", 5, self.sync_body(g, member, gen, asg, **kw), label)

    def heartbeat(self, g, member, gen, label="Heartbeat", instance=None, conn=None):
        return self.call(
            conn,
            "Heartbeat",
            4,
            {"groupId": g, "generationId": gen, "memberId": member, "groupInstanceId": instance},
            label,
        )

    def stable(self, g, conn=None, **kw):
        """one member, generation 1, stable; nothing recorded -> (member id, generation)"""
        m = self.new_member(g, conn, **kw)
        r = self.raw(conn, "JoinGroup", 7, self.join_body(g, m, **kw))
        self.raw(
            conn,
            "SyncGroup",
            5,
            self.sync_body(g, m, r["generationId"], [(m, b"asg")], instance=kw.get("instance")),
        )
        return m, r["generationId"]

    def leave(self, g, members, label="LeaveGroup"):
        return self.call(
            None,
            "LeaveGroup",
            5,
            {
                "groupId": g,
                "members": [
                    dict(memberId=m, **({"groupInstanceId": i} if i else {})) for m, i in members
                ],
            },
            label,
        )

    def describe(self, g, label="DescribeGroups", version=5):
        return self.call(None, "DescribeGroups", version, {"groups": [g]}, label)

    def list_groups(self, label="ListGroups", **kw):
        return self.call(
            None,
            "ListGroups",
            5,
            kw,
            label,
            view=lambda r: dict(
                r, groups=[x for x in r["groups"] if x["groupId"].startswith(self.prefix)]
            ),
        )

    def commit(
        self,
        g,
        topic,
        parts,
        label="OffsetCommit",
        member="",
        gen=-1,
        instance=None,
        version=8,
        conn=None,
    ):
        """parts: [(partition, offset[, metadata])]"""
        return self.call(
            conn,
            "OffsetCommit",
            version,
            {
                "groupId": g,
                "generationIdOrMemberEpoch": gen,
                "memberId": member,
                "groupInstanceId": instance,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [
                            dict(
                                partitionIndex=p[0],
                                committedOffset=p[1],
                                committedMetadata=p[2] if len(p) > 2 else "",
                            )
                            for p in parts
                        ],
                    }
                ],
            },
            label,
        )

    def offsets(self, g, topic=None, parts=(0,), label="OffsetFetch", stable=False, record=True):
        b = {
            "groups": [
                {
                    "groupId": g,
                    "topics": None
                    if topic is None
                    else [{"name": topic, "partitionIndexes": list(parts)}],
                }
            ],
            "requireStable": stable,
        }
        r = self.raw(None, "OffsetFetch", 8, b)
        if record:
            self.record(label, r)
        return r

    # -- transactions
    def add_parts(
        self, txn, pid, ep, topic, parts=(0,), label="AddPartitionsToTxn", retry=RETRY | {51}
    ):
        return self.call(
            None,
            "AddPartitionsToTxn",
            3,
            {
                "v3AndBelowTransactionalId": txn,
                "v3AndBelowProducerId": pid,
                "v3AndBelowProducerEpoch": ep,
                "v3AndBelowTopics": [{"name": topic, "partitions": list(parts)}],
            },
            label,
            retry=retry,
        )

    def end_txn(self, txn, pid, ep, commit, label=None, version=3, retry=RETRY | {51}):
        return self.call(
            None,
            "EndTxn",
            version,
            {"transactionalId": txn, "producerId": pid, "producerEpoch": ep, "committed": commit},
            label or ("EndTxn commit" if commit else "EndTxn abort"),
            retry=retry,
        )

    def wait_lso(self, topic, lso, part=0):
        """Wait for the last stable offset: markers are written after EndTxn is answered."""
        self.until(
            lambda: self.raw(
                None,
                "ListOffsets",
                7,
                {
                    "replicaId": -1,
                    "isolationLevel": 1,
                    "topics": [
                        {"name": topic, "partitions": [{"partitionIndex": part, "timestamp": -1}]}
                    ],
                },
            ),
            lambda r: r["topics"][0]["partitions"][0]["offset"] >= lso,
        )

    def wait_txn(self, txn, state):
        self.until(
            lambda: self.raw(None, "DescribeTransactions", 0, {"transactionalIds": [txn]}),
            lambda r: r["transactionStates"][0]["transactionState"] == state,
        )
