"""The requests of scenarios in short form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokertwin.testing.exam.model import Do
from tests.exam.author import CONCURRENT, RETRY, Expr, Ref, Steps, Topic, batch, until, view

Parts = Sequence[tuple[Any, ...]]


class Script(Steps):
    """A scenario while it is written. Methods with a label have it compared."""

    # Set-up

    def topic(
        self,
        name: str = "a",
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replicas: Sequence[Sequence[int]] = (),
    ) -> Topic:
        """Create a topic; replicas are numbers of brokers, for each partition."""
        given = {"configs": dict(configs or {}), "replicas": [list(each) for each in replicas]}
        self.add(Do.TOPIC, name=name, partitions=len(replicas) or partitions, **given)
        return Topic(name)

    def group(self, name: str = "g", key_type: int = 0) -> Expr:
        """Return a group's name after its coordinator is known."""
        self.add(Do.COORDINATOR, name=name, key_type=key_type)
        return self.name(name)

    def txn_id(self, name: str = "t") -> Expr:
        """Return a transactional id after its coordinator is known."""
        return self.group(name, 1)

    # Records

    def produce(
        self,
        topic: Any,
        data: Any,
        part: int = 0,
        label: str = "",
        acks: int = -1,
        txn: Any = None,
        version: int = 9,
        on: str = "",
        retry: Iterable[int] = RETRY,
        timeout: int = 10_000,
        **more: Any,
    ) -> Ref:
        """Produce a record set to one partition; returns the partition's response."""
        body = produce_body(topic, data, part, acks, txn, version, timeout)
        found = self.call("Produce", version, body, label, on=on, retry=retry, **more)
        return found["responses"][0]["partitionResponses"][0]

    def fill(self, topic: Any, number: int = 1, part: int = 0, **fields: Any) -> None:
        """Append records that are not compared."""
        self.produce(topic, batch(number, **fields), part)

    def fetch(
        self,
        topics: Sequence[tuple[Any, Parts]],
        label: str = "Fetch",
        version: int = 12,
        on: str = "",
        more: Mapping[str, Any] | None = None,
        **kw: Any,
    ) -> Ref:
        """Fetch; arguments as `fetch_body`, `more` as `call`."""
        body = fetch_body(topics, version=version, **kw)
        return self.call("Fetch", version, body, label, on=on, **(more or {}))

    def delete_records(self, topic: Any, offset: int, part: int = 0, label: str = "") -> Ref:
        """Delete records before an offset."""
        partitions = [{"partitionIndex": part, "offset": offset}]
        body = {"topics": [{"name": topic, "partitions": partitions}], "timeoutMs": 10_000}
        return self.call("DeleteRecords", 2, body, label)

    def list_offsets(
        self,
        topic: Any,
        time: Any,
        part: int = 0,
        label: str = "",
        version: int = 7,
        iso: int = 0,
        **fields: Any,
    ) -> Ref:
        """List an offset of one partition."""
        wanted = {"partitionIndex": part, "timestamp": time, **fields}
        body: dict[str, Any] = {
            "replicaId": -1,
            "topics": [{"name": topic, "partitions": [wanted]}],
        }
        if version >= 2:
            body["isolationLevel"] = iso
        return self.call("ListOffsets", version, body, label)

    def producers(self, topic: Any, part: int = 0, label: str = "DescribeProducers") -> Ref:
        """Describe the producers of a partition."""
        body = {"topics": [{"name": topic, "partitionIndexes": [part]}]}
        return self.call("DescribeProducers", 0, body, label)

    # Producers and transactions

    def init_pid(
        self,
        txn: Any = None,
        pid: Any = -1,
        epoch: Any = -1,
        label: str = "",
        timeout: int = 60_000,
        version: int = 4,
        retry: Iterable[int] = CONCURRENT,
        **more: Any,
    ) -> tuple[Ref, Ref]:
        """Return a producer id and its epoch."""
        body = {
            "transactionalId": txn,
            "transactionTimeoutMs": timeout,
            "producerId": pid,
            "producerEpoch": epoch,
            **more,
        }
        found = self.call("InitProducerId", version, body, label, retry=retry)
        return found["producerId"], found["producerEpoch"]

    def add_parts(
        self,
        txn: Any,
        pid: Any,
        epoch: Any,
        topic: Any,
        parts: Sequence[int] = (0,),
        label: str = "",
        retry: Iterable[int] = CONCURRENT,
        version: int = 3,
    ) -> Ref:
        """Add partitions to a transaction."""
        body = {
            "v3AndBelowTransactionalId": txn,
            "v3AndBelowProducerId": pid,
            "v3AndBelowProducerEpoch": epoch,
            "v3AndBelowTopics": [{"name": topic, "partitions": list(parts)}],
        }
        return self.call("AddPartitionsToTxn", version, body, label, retry=retry)

    def add_offsets(
        self,
        txn: Any,
        pid: Any,
        epoch: Any,
        group: Any,
        label: str = "",
        version: int = 3,
        retry: Iterable[int] = CONCURRENT,
    ) -> Ref:
        """Add a group's offsets to a transaction."""
        body = {
            "transactionalId": txn,
            "producerId": pid,
            "producerEpoch": epoch,
            "groupId": group,
        }
        return self.call("AddOffsetsToTxn", version, body, label, retry=retry)

    def txn_commit(
        self,
        txn: Any,
        pid: Any,
        epoch: Any,
        group: Any,
        topic: Any,
        parts: Parts,
        label: str = "",
        version: int = 3,
        member: Any = "",
        gen: Any = -1,
        instance: Any = None,
        retry: Iterable[int] = CONCURRENT,
    ) -> Ref:
        """Commit offsets in a transaction."""
        body: dict[str, Any] = {
            "transactionalId": txn,
            "groupId": group,
            "producerId": pid,
            "producerEpoch": epoch,
            "topics": [{"name": topic, "partitions": _commits(parts)}],
        }
        if version >= 3:
            body |= {"generationId": gen, "memberId": member, "groupInstanceId": instance}
        return self.call("TxnOffsetCommit", version, body, label, retry=retry)

    def end_txn(
        self,
        txn: Any,
        pid: Any,
        epoch: Any,
        commit: bool,
        label: str = "",
        version: int = 3,
        retry: Iterable[int] = CONCURRENT,
    ) -> Ref:
        """End a transaction."""
        body = {
            "transactionalId": txn,
            "producerId": pid,
            "producerEpoch": epoch,
            "committed": commit,
        }
        return self.call("EndTxn", version, body, label, retry=retry)

    def wait_lso(self, topic: Any, offset: int, part: int = 0) -> None:
        """Wait for the last stable offset: markers are written after the EndTxn response."""
        wanted = {"partitionIndex": part, "timestamp": -1}
        body = {
            "replicaId": -1,
            "isolationLevel": 1,
            "topics": [{"name": topic, "partitions": [wanted]}],
        }
        held = until("topics.0.partitions.0.offset", offset)
        self.call("ListOffsets", 7, body, until=held)

    def wait_txn(self, txn: Any, state: str) -> None:
        """Wait for the state of a transaction."""
        held = until("transactionStates.0.transactionState", state)
        self.call("DescribeTransactions", 0, {"transactionalIds": [txn]}, until=held)

    def describe_txn(self, txn: Any, label: str = "DescribeTransactions", **more: Any) -> Ref:
        """Describe a transaction."""
        return self.call("DescribeTransactions", 0, {"transactionalIds": [txn]}, label, **more)

    # Classic groups

    def join(
        self, group: Any, member: Any = "", label: str = "JoinGroup", version: int = 7,
        on: str = "", **kw: Any,
    ) -> Ref:  # fmt: skip
        """Join a classic group."""
        body = join_body(group, member, version=version, **kw)
        return self.call("JoinGroup", version, body, label, on=on)

    def new_member(self, group: Any, on: str = "", **kw: Any) -> Ref:
        """Return the member id that the coordinator generates."""
        return self.join(group, "", "", on=on, **kw)["memberId"]

    def sync(
        self,
        group: Any,
        member: Any,
        gen: Any,
        given: Parts = (),
        label: str = "SyncGroup",
        on: str = "",
        version: int = 5,
        **kw: Any,
    ) -> Ref:
        """Synchronize a classic group."""
        body = sync_body(group, member, gen, given, version=version, **kw)
        return self.call("SyncGroup", version, body, label, on=on)

    def heartbeat(
        self,
        group: Any,
        member: Any,
        gen: Any,
        label: str = "Heartbeat",
        instance: Any = None,
        on: str = "",
        version: int = 4,
        **more: Any,
    ) -> Ref:
        """Send a heartbeat of a classic member."""
        body = {"groupId": group, "generationId": gen, "memberId": member}
        if version >= 3:
            body["groupInstanceId"] = instance
        return self.call("Heartbeat", version, body, label, on=on, **more)

    def stable(self, group: Any, on: str = "", **kw: Any) -> tuple[Ref, Ref]:
        """Return member id and generation of the only member of a stable group."""
        member = self.new_member(group, on, **kw)
        joined = self.join(group, member, "", on=on, **kw)
        gen = joined["generationId"]
        self.sync(group, member, gen, [(member, b"all")], "", on, instance=kw.get("instance"))
        return member, gen

    def leave(self, group: Any, members: Parts, label: str = "LeaveGroup", version: int = 5) -> Ref:
        """Leave a classic group; members as (member id, instance id)."""
        if version < 3:
            body = {"groupId": group, "memberId": members[0][0]}
        else:
            listed = [{"memberId": member, "groupInstanceId": one} for member, one in members]
            body = {"groupId": group, "members": listed}
        return self.call("LeaveGroup", version, body, label)

    def describe(self, group: Any, label: str = "DescribeGroups", version: int = 5) -> Ref:
        """Describe a classic group."""
        return self.call("DescribeGroups", version, {"groups": [group]}, label)

    def list_groups(self, label: str = "ListGroups", version: int = 5, **filters: Any) -> Ref:
        """List this scenario's groups."""
        return self.call("ListGroups", version, filters, label, view=view(own=["groups"]))

    def delete_groups(self, *groups: Any, label: str = "DeleteGroups") -> Ref:
        """Delete groups."""
        return self.call("DeleteGroups", 2, {"groupsNames": list(groups)}, label)

    # Offsets

    def commit(
        self,
        group: Any,
        topic: Any,
        parts: Parts,
        label: str = "OffsetCommit",
        member: Any = "",
        gen: Any = -1,
        instance: Any = None,
        version: int = 8,
        **more: Any,
    ) -> Ref:
        """Commit offsets; parts as (partition, offset[, metadata[, leader epoch]])."""
        named = {"topicId": getattr(topic, "id", topic)} if version >= 10 else {"name": topic}
        body = {
            "groupId": group,
            "generationIdOrMemberEpoch": gen,
            "memberId": member,
            "topics": [{**named, "partitions": _commits(parts)}],
        }
        if version >= 7:
            body["groupInstanceId"] = instance
        return self.call("OffsetCommit", version, body, label, **more)

    def offsets(
        self,
        group: Any,
        topic: Any = None,
        parts: Sequence[int] = (0,),
        label: str = "OffsetFetch",
        stable: bool = False,
        version: int = 8,
        **more: Any,
    ) -> Ref:
        """Fetch committed offsets; without a topic, all."""
        named = {"topicId": getattr(topic, "id", topic)} if version >= 10 else {"name": topic}
        wanted = None if topic is None else [{**named, "partitionIndexes": list(parts)}]
        body = {"groups": [{"groupId": group, "topics": wanted}], "requireStable": stable}
        return self.call("OffsetFetch", version, body, label, **more)

    # Topics

    def metadata(
        self, topics: Any, label: str, version: int = 12, auto: bool = False, **more: Any
    ) -> Ref:
        """Ask for metadata; only this scenario's topics are compared."""
        body: dict[str, Any] = {"topics": topics}
        if version >= 4:
            body["allowAutoTopicCreation"] = auto
        shown = view(own=["topics"], without=["brokers", "clusterId", "controllerId"])
        return self.call("Metadata", version, body, label, **{"view": shown, **more})

    def delete_topic(self, topic: Any) -> None:
        """Delete a topic and wait until it is gone."""
        body = {"topics": [{"name": topic, "topicId": _NO_ID}], "timeoutMs": 10_000}
        self.call("DeleteTopics", 6, body)
        request = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
        self.call("Metadata", 12, request, until=until("topics.0.errorCode", 3))


_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def produce_body(
    topic: Any,
    data: Any,
    part: int = 0,
    acks: int = -1,
    txn: Any = None,
    version: int = 9,
    timeout: int = 10_000,
) -> dict[str, Any]:
    """Return the body of a Produce request."""
    named = {"topicId": getattr(topic, "id", topic)} if version >= 13 else {"name": topic}
    return {
        "transactionalId": txn,
        "acks": acks,
        "timeoutMs": timeout,
        "topicData": [{**named, "partitionData": [{"index": part, "records": data}]}],
    }


def fetch_body(
    topics: Sequence[tuple[Any, Parts]],
    session: Any = 0,
    epoch: Any = -1,
    version: int = 12,
    max_wait: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 1 << 20,
    iso: int = 0,
    forget: Parts = (),
    part_bytes: int = 1 << 20,
    **fields: Any,
) -> dict[str, Any]:
    """Return the body of a Fetch request; topics as [(topic, [(partition, offset[, fields])])]."""

    def named(topic: Any) -> dict[str, Any]:
        return {"topicId": getattr(topic, "id", topic)} if version >= 13 else {"topic": topic}

    listed = [
        {
            **named(topic),
            "partitions": [
                {
                    "partition": part[0],
                    "fetchOffset": part[1],
                    "partitionMaxBytes": part_bytes,
                    **(part[2] if len(part) > 2 else {}),
                }
                for part in parts
            ],
        }
        for topic, parts in topics
    ]
    body = {
        "maxWaitMs": max_wait,
        "minBytes": min_bytes,
        "maxBytes": max_bytes,
        "isolationLevel": iso,
        "topics": listed,
        **fields,
    }
    if version >= 7:
        forgotten = [{**named(topic), "partitions": list(parts)} for topic, parts in forget]
        body |= {"sessionId": session, "sessionEpoch": epoch, "forgottenTopicsData": forgotten}
    return body


def join_body(
    group: Any,
    member: Any = "",
    protos: Sequence[tuple[str, Any]] = (("range", b"m"),),
    kind: str = "consumer",
    instance: Any = None,
    session: int = 30_000,
    rebalance: int = 30_000,
    version: int = 7,
) -> dict[str, Any]:
    """Return the body of a JoinGroup request."""
    body = {
        "groupId": group,
        "sessionTimeoutMs": session,
        "memberId": member,
        "protocolType": kind,
        "protocols": [{"name": name, "metadata": data} for name, data in protos],
    }
    if version >= 1:
        body["rebalanceTimeoutMs"] = rebalance
    if version >= 5:
        body["groupInstanceId"] = instance
    return body


def sync_body(
    group: Any,
    member: Any,
    gen: Any,
    given: Parts = (),
    instance: Any = None,
    proto: Any = "range",
    kind: Any = "consumer",
    version: int = 5,
) -> dict[str, Any]:
    """Return the body of a SyncGroup request; given as [(member id, bytes)]."""
    body = {
        "groupId": group,
        "generationId": gen,
        "memberId": member,
        "assignments": [{"memberId": one, "assignment": data} for one, data in given],
    }
    if version >= 3:
        body["groupInstanceId"] = instance
    if version >= 5:
        body |= {"protocolType": kind, "protocolName": proto}
    return body


def _commits(parts: Parts) -> list[dict[str, Any]]:
    return [
        {
            "partitionIndex": part[0],
            "committedOffset": part[1],
            "committedMetadata": part[2] if len(part) > 2 else "",
            **({"committedLeaderEpoch": part[3]} if len(part) > 3 else {}),
        }
        for part in parts
    ]
