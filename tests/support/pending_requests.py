"""Requests to coordinators with a halted follower, and their groups and ids.

world = World(cluster)
world.begin()
world.call(*question[1:])
"""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.protocol.errors import error_codes
from tests.support.gateways import Client
from tests.support.mixed_groups import subscription
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.schedules import Cluster
from tests.support.streams_groups import NO_TASKS, part, topology

COORDINATOR, FOLLOWER = 1, 2
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
NOBODY = "3JJIcv_2Rbq0VVpYzQmZSw"
MEMBERS = {
    "share": "hDTRH6AnTyGpTnrmLZPtjB",
    "streams": "hDTRH6AnTyGpTnrmLZPtjC",
    "mixed": "hDTRH6AnTyGpTnrmLZPtjD",
}
LATE_MS = 2_000
NO_PARTITIONS = 20
"""The length of an assignment without partitions, in base64 at most."""
TOO_LONG = "x" * 5_000
LEAVE: dict[str, Any] = {"members": [{"memberId": NOBODY}]}

Told = dict[str, Any]


class Question(NamedTuple):
    what: str
    api: str
    version: int
    body: Told


class World:
    """Groups of all kinds, transactional ids, and states of share groups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.producers: dict[str, Told] = {}
        self.names: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._leader = ""
        self._classic = ""
        self._generation = -1
        self._leaders = 0
        self._owned: list[Told] = []

    def call(self, api: str, version: int, body: Told) -> Told:
        with Client(self.cluster.address(COORDINATOR), PATIENCE_S) as client:
            return client.call(api, version, body)

    def done(self, api: str, version: int, body: Told) -> Told:
        """Send until there is no error, and return the response."""
        found: list[Told] = []

        def is_done() -> bool:
            found.append(self.call(api, version, body))
            return not any(error_codes(found[-1]))

        wait_until(is_done, f"{api} is done")
        return found[-1]

    def begin(self) -> None:
        self._create("two", 2)
        for name in INTERNAL:
            self._create(name, 1)
        for kind in (0, 1):
            self.done("FIND_COORDINATOR", 4, {"keyType": kind, "coordinatorKeys": ["x"]})
        self._begin_transactions()
        self._begin_classic()
        self._begin_mixed()
        self._begin_streams()
        self._begin_shares()

    def _create(self, name: str, count: int) -> None:
        replicas = [COORDINATOR, FOLLOWER]
        assignments = [{"partitionIndex": n, "brokerIds": replicas} for n in range(count)]
        topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        created = self.call("CREATE_TOPICS", 7, body)["topics"][0]
        assert created["errorCode"] == 0, created
        self._topic_ids[name] = created["topicId"]
        self.names[created["topicId"]] = f"id of {name}"

    def _begin_transactions(self) -> None:
        for name in ("open", "busy", "bare", "ends", "fenced", "added"):
            self._init(name)
        self._init("open")  # another epoch
        for name in ("open", "ends", "fenced"):
            self.done("ADD_PARTITIONS_TO_TXN", 3, self._adds(name))
        self.done("ADD_OFFSETS_TO_TXN", 3, {**self._id("open"), "groupId": "t"})
        self.done("ADD_OFFSETS_TO_TXN", 3, {**self._id("added"), "groupId": "t"})
        self.done("TXN_OFFSET_COMMIT", 3, self._commits("open"))

    def _init(self, name: str) -> None:
        body = {"transactionalId": name, "transactionTimeoutMs": LATE_MS}
        body |= {"producerId": -1, "producerEpoch": -1}
        found = self.done("INIT_PRODUCER_ID", 4, body)
        self.producers[name] = {key: found[key] for key in ("producerId", "producerEpoch")}
        self.names[str(found["producerId"])] = f"producer of {name}"

    def _id(self, name: str, **more: Any) -> Told:
        return {"transactionalId": name, **self.producers[name], **more}

    def _adds(self, name: str, **more: Any) -> Told:
        named = {
            f"v3AndBelow{key[0].upper()}{key[1:]}": value
            for key, value in self._id(name, **more).items()
        }
        return {**named, "v3AndBelowTopics": [{"name": "two", "partitions": [0]}]}

    def _commits(self, name: str, *topics: Told, **more: Any) -> Told:
        return {
            **self._id(name, **more),
            "groupId": "t",
            "topics": [*topics] or [offsets("")],
        } | more

    def _begin_classic(self) -> None:
        body = {"groupId": "classic", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
        body |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        self._leader = self.call("JOIN_GROUP", 5, {**body, "memberId": ""})["memberId"]
        self.done("JOIN_GROUP", 5, {**body, "memberId": self._leader})
        assignments = [{"memberId": self._leader, "assignment": b"x"}]
        member = {"groupId": "classic", "generationId": 1, "memberId": self._leader}
        self.done("SYNC_GROUP", 3, {**member, "assignments": assignments})

    def _begin_mixed(self) -> None:
        asked = self._beat("mixed", 0, **JOINS)
        self._epochs["mixed"] = self._joined("CONSUMER_GROUP_HEARTBEAT", asked)
        joins = self._joins()
        self._classic = self.call("JOIN_GROUP", 9, joins)["memberId"]
        assert self._classic
        self.names[self._classic] = "the classic member"
        self.settle()

    def settle(self) -> None:
        wait_until(self._is_settled, "a classic member at a consumer group")

    def _is_settled(self) -> bool:
        joined = self.call("JOIN_GROUP", 9, self._joins())
        if joined["errorCode"]:
            return False
        self._generation = joined["generationId"]
        synced = self.call("SYNC_GROUP", 5, self._syncs())
        beat = self.call("HEARTBEAT", 4, self._member())
        asked = self._beat("mixed", self._epochs["mixed"], topicPartitions=self._owned)
        own = self.call("CONSUMER_GROUP_HEARTBEAT", 0, asked)
        if own["errorCode"]:
            return False
        self._epochs["mixed"] = own["memberEpoch"]
        if own["assignment"] is not None:
            self._owned = own["assignment"]["topicPartitions"]
            return False
        is_told = not synced["errorCode"] and len(synced["assignment"]) > NO_PARTITIONS
        return is_told and not beat["errorCode"] and self._generation == own["memberEpoch"]

    def _joins(self, **more: Any) -> Told:
        metadata = base64.b64decode(subscription("two"))
        body = {"groupId": "mixed", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
        body |= {"memberId": self._classic, "groupInstanceId": None, "protocolType": "consumer"}
        return {**body, "protocols": [{"name": "range", "metadata": metadata}], **more}

    def _member(self, **more: Any) -> Told:
        body = {"groupId": "mixed", "memberId": self._classic, "groupInstanceId": None}
        return {**body, "generationId": self._generation, **more}

    def _syncs(self, **more: Any) -> Told:
        protocol = {"protocolType": "consumer", "protocolName": "range", "assignments": []}
        return {**self._member(), **protocol, **more}

    def _beat(self, group: str, epoch: int, **more: Any) -> Told:
        return {"groupId": group, "memberId": MEMBERS[group], "memberEpoch": epoch, **more}

    def _joined(self, api: str, body: Told) -> int:
        found: list[Told] = []

        def is_joined() -> bool:
            found.append(self.call(api, 1 if "SHARE" in api else 0, body))
            assert not found[-1]["errorCode"], found
            if api == "STREAMS_GROUP_HEARTBEAT":
                return bool(found[-1]["activeTasks"])
            assigned = found[-1]["assignment"]
            return bool(assigned and assigned["topicPartitions"])

        wait_until(is_joined, f"{api} is assigned something")
        return int(found[-1]["memberEpoch"])

    def _begin_streams(self) -> None:
        self._epochs["streams"] = self._joined(
            "STREAMS_GROUP_HEARTBEAT", self._streams(0, **STREAMS)
        )

    def _streams(self, epoch: int, **more: Any) -> Told:
        body = self._beat("streams", epoch, endpointInformationEpoch=0, rebalanceTimeoutMs=-1)
        body |= dict.fromkeys(("instanceId", "rackId", "topology", "processId", "userEndpoint"))
        body |= dict.fromkeys(("clientTags", "taskOffsets", "taskEndOffsets", *NO_TASKS))
        return {**body, "shutdownApplication": False, **more}

    def _begin_shares(self) -> None:
        beat = self._beat("share", 0, subscribedTopicNames=["two"])
        self._epochs["share"] = self._joined("SHARE_GROUP_HEARTBEAT", beat)
        self.done("ALTER_SHARE_GROUP_OFFSETS", 0, altered("rest", "two"))
        self.done("ALTER_SHARE_GROUP_OFFSETS", 0, altered("forgotten", "two"))
        asked = {"groups": [{"groupId": "rest", "topics": None}]}
        self.done("DESCRIBE_SHARE_GROUP_OFFSETS", 0, asked)
        self.done("INITIALIZE_SHARE_GROUP_STATE", 0, self._state(stateEpoch=1, startOffset=0))
        self.done("READ_SHARE_GROUP_STATE", 0, self._state(leaderEpoch=0))

    def _state(self, partition: int = 0, group: str = "state", **said: Any) -> Told:
        part = {"partition": partition, **said}
        return {
            "groupId": group,
            "topics": [{"topicId": self._topic_ids["two"], "partitions": [part]}],
        }

    def _leader_epoch(self) -> int:
        self._leaders += 1
        return self._leaders

    def _written(self, **more: Any) -> Told:
        said = {
            "stateEpoch": 1,
            "leaderEpoch": self._leaders,
            "startOffset": 0,
            "deliveryCompleteCount": 0,
        }
        return self._state(**{**said, "stateBatches": [], **more})

    def of_classic(self) -> Iterator[Question]:
        """Requests without a write, most of them of a classic group."""
        member = {"groupId": "classic", "generationId": 1, "memberId": self._leader}
        synced = {**member, "assignments": []}
        topics = [{"name": "two", "partitions": [{"partitionIndex": 0}]}]
        simple = {"groupId": "simple", "generationIdOrMemberEpoch": -1, "memberId": ""}
        too_long = {**simple, "topics": [offsets(TOO_LONG)]}
        cases: list[tuple[str, str, int, Told]] = [
            ("heartbeat", "HEARTBEAT", 4, member),
            ("heartbeat of nobody", "HEARTBEAT", 4, {**member, "memberId": "x"}),
            ("of an old generation", "HEARTBEAT", 4, {**member, "generationId": 0}),
            ("sync", "SYNC_GROUP", 3, synced),
            ("leave of nobody", "LEAVE_GROUP", 5, {"groupId": "classic", **LEAVE}),
            ("leave of no group", "LEAVE_GROUP", 5, {"groupId": "no", **LEAVE}),
            ("too long", "OFFSET_COMMIT", 8, too_long),
            ("none to delete", "OFFSET_DELETE", 0, {"groupId": "classic", "topics": topics}),
            ("none of no group", "OFFSET_DELETE", 0, {"groupId": "no", "topics": topics}),
            ("delete no group", "DELETE_GROUPS", 2, {"groupsNames": ["no"]}),
            ("delete a group in use", "DELETE_GROUPS", 2, {"groupsNames": ["classic"]}),
        ]
        yield from (Question(*each) for each in cases)

    def of_transactional_offsets(self) -> Iterator[Question]:
        name = "TXN_OFFSET_COMMIT"
        cases: dict[str, Told] = {
            "": self._commits("open"),
            "too long": self._commits("open", offsets(TOO_LONG)),
            "one too long": self._commits("open", offsets("", TOO_LONG)),
            "of no topic": self._commits("open", offsets("", topic="none")),
            "one of no topic": self._commits("open", offsets(""), offsets("", topic="none")),
            "too long, of no topic": self._commits(
                "open", offsets(TOO_LONG), offsets("", topic="none")
            ),
            "too long, verified": self._commits("added", offsets(TOO_LONG)),
            "old epoch": self._commits("open", producerEpoch=0),
            "no transaction": self._commits("bare"),
            "no member": self._commits("open", memberId="x", generationId=5),
            "of members": self._commits("open", groupId="mixed"),
            "of no member": self._commits("open", groupId="mixed", memberId="x", generationId=5),
        }
        for what, body in cases.items():
            yield Question(f"{name} {what}", name, 3, body)

    def of_commits(self) -> Iterator[Question]:
        body = {"groupId": "simple", "generationIdOrMemberEpoch": -1, "memberId": ""}
        mixed = {**body, "groupId": "mixed"}
        cases: dict[str, Told] = {
            "": {**body, "topics": [offsets("")]},
            "one too long": {**body, "topics": [offsets("", TOO_LONG)]},
            "too long, of no topic": {
                **body,
                "topics": [offsets(TOO_LONG), offsets("", topic="none")],
            },
            "one of no topic": {**body, "topics": [offsets(""), offsets("", topic="none")]},
            "of nobody": {**mixed, "topics": [offsets("")], "memberId": "x"},
            "of an old epoch": {
                **mixed,
                "topics": [offsets("")],
                "memberId": MEMBERS["mixed"],
                "generationIdOrMemberEpoch": 0,
            },
        }
        for what, asked in cases.items():
            yield Question(f"OFFSET_COMMIT {what}", "OFFSET_COMMIT", 8, asked)
        for group in ("simple", "t", "none"):
            for stable in (False, True):
                asked = {"groups": [{"groupId": group, "topics": None}], "requireStable": stable}
                yield Question(f"OFFSET_FETCH {group} {stable}", "OFFSET_FETCH", 8, asked)
        both = [{"groupId": "none", "topics": None}, {"groupId": "simple", "topics": []}]
        asked = {"groups": both, "requireStable": True}
        yield Question("OFFSET_FETCH of two", "OFFSET_FETCH", 8, asked)
        asked = {
            "groupId": "simple",
            "topics": [{"name": "two", "partitionIndexes": [0]}],
            "requireStable": True,
        }
        yield Question("OFFSET_FETCH old", "OFFSET_FETCH", 7, asked)
        two = {
            "groups": [{"groupId": "mixed", "topics": None, "memberId": NOBODY, "memberEpoch": 3}],
            "requireStable": True,
        }
        yield Question("OFFSET_FETCH of nobody", "OFFSET_FETCH", 9, two)
        topics = [{"name": "two", "partitions": [{"partitionIndex": 0}]}]
        yield Question(
            "OFFSET_DELETE in use", "OFFSET_DELETE", 0, {"groupId": "mixed", "topics": topics}
        )

    def of_mixed(self) -> Iterator[Question]:
        cases: list[tuple[str, str, int, Told]] = [
            ("join again", "JOIN_GROUP", 9, self._joins()),
            ("join without an id", "JOIN_GROUP", 9, self._joins(memberId="")),
            ("another protocol", "JOIN_GROUP", 9, self._joins(protocolType="connect")),
            ("sync", "SYNC_GROUP", 5, self._syncs()),
            ("sync of an old one", "SYNC_GROUP", 5, self._syncs(generationId=0)),
            ("sync of nobody", "SYNC_GROUP", 5, self._syncs(memberId="x")),
            ("heartbeat", "HEARTBEAT", 4, self._member()),
            ("heartbeat of an old one", "HEARTBEAT", 4, self._member(generationId=0)),
            ("heartbeat of nobody", "HEARTBEAT", 4, self._member(memberId="x")),
            ("leave of nobody", "LEAVE_GROUP", 5, {"groupId": "mixed", **LEAVE}),
            ("leave of nobody, streams", "LEAVE_GROUP", 5, {"groupId": "streams", **LEAVE}),
            ("leave of nobody, share", "LEAVE_GROUP", 5, {"groupId": "share", **LEAVE}),
            (
                "a new group without an id",
                "JOIN_GROUP",
                9,
                self._joins(memberId="", groupId="fresh"),
            ),
            (
                "a new group of nobody",
                "JOIN_GROUP",
                9,
                self._joins(memberId="x", groupId="fresher"),
            ),
        ]
        yield from (Question(*each) for each in cases)
        api, epoch = "CONSUMER_GROUP_HEARTBEAT", self._epochs["mixed"]
        beats = {
            "": self._beat("mixed", epoch),
            "that knows": self._beat("mixed", epoch, topicPartitions=self._owned),
            "no assignor": self._beat("mixed", epoch, serverAssignor="none"),
            "leaves unknown": {**self._beat("mixed", -1), "memberId": NOBODY},
            "of no group": {**self._beat("mixed", 5), "groupId": "none"},
            "of a share group": {**self._beat("mixed", 5), "groupId": "share"},
            "instance": self._beat("mixed", epoch, instanceId="i"),
            "static leave": self._beat("mixed", -2, instanceId="i"),
            "bad": self._beat("mixed", -7),
            "bad pattern": self._beat("mixed", epoch, subscribedTopicRegex="("),
        }
        for what, body in beats.items():
            yield Question(f"{api} {what}", api, int("pattern" in what), body)
        for group in ("share", "mixed", "streams"):
            yield Question(f"delete {group}", "DELETE_GROUPS", 2, {"groupsNames": [group]})
        yield Question(
            "delete several", "DELETE_GROUPS", 2, {"groupsNames": ["none", "mixed", "share"]}
        )

    def of_streams(self) -> Iterator[Question]:
        api, epoch = "STREAMS_GROUP_HEARTBEAT", self._epochs["streams"]
        other = topology(part("0", "two"), epoch=5)
        tasks = [{"subtopologyId": "9", "partitions": [0]}]
        beats = {
            "": self._streams(epoch),
            "whole": self._streams(epoch, **{**STREAMS, "topology": None}),
            "of nobody": self._streams(5, memberId=NOBODY),
            "another epoch": self._streams(epoch + 5),
            "another topology": self._streams(0, **{**STREAMS, "topology": other}),
            "no such task": self._streams(epoch, **{**NO_TASKS, "activeTasks": tasks}),
            "leaves unknown": self._streams(-1, memberId=NOBODY),
            "of no group": self._streams(5, groupId="none"),
            "of a share group": self._streams(5, groupId="share"),
            "bad": self._streams(-7),
        }
        for what, body in beats.items():
            yield Question(f"{api} {what}", api, 0, body)
        yield Question("describe streams", "STREAMS_GROUP_DESCRIBE", 0, {"groupIds": ["streams"]})

    def of_share_groups(self) -> Iterator[Question]:
        api, epoch = "SHARE_GROUP_HEARTBEAT", self._epochs["share"]
        beats = {
            "": self._beat("share", epoch),
            "with topics": self._beat("share", epoch, subscribedTopicNames=["two"]),
            "of nobody": {**self._beat("share", 5), "memberId": NOBODY},
            "another epoch": self._beat("share", epoch + 5),
            "leaves unknown": {**self._beat("share", -1), "memberId": NOBODY},
            "of no group": {**self._beat("share", 5), "groupId": "none"},
            "bad": self._beat("share", -7),
        }
        for what, body in beats.items():
            yield Question(f"{api} {what}", api, 1, body)
        forgets = {"share": ["two"], "none": ["two"], "rest": ["none"], "forgotten": ["two"]}
        for group, topics in forgets.items():
            names = [{"topicName": each} for each in topics]
            body = {"groupId": group, "topics": names}
            yield Question(f"forget {group} {topics}", "DELETE_SHARE_GROUP_OFFSETS", 0, body)
        yield Question("forget nothing", "DELETE_SHARE_GROUP_OFFSETS", 0, FORGET_NOTHING)
        for api in ("DELETE_SHARE_GROUP_OFFSETS", "ALTER_SHARE_GROUP_OFFSETS"):
            yield Question(f"no topics, {api}", api, 0, {"groupId": "rest", "topics": []})
        for group, topic in (
            ("share", "two"),
            ("none", "none"),
            ("rest", "none"),
            ("forgotten", "two"),
        ):
            yield Question(
                f"alter {group} {topic}", "ALTER_SHARE_GROUP_OFFSETS", 0, altered(group, topic)
            )
        topics = [{"topicName": "two", "partitions": [0, 1]}]
        body = {"groups": [{"groupId": "rest", "topics": topics}]}
        yield Question("share offsets", "DESCRIBE_SHARE_GROUP_OFFSETS", 0, body)
        body = {"groupIds": ["share", "rest"], "includeAuthorizedOperations": False}
        yield Question("describe share", "SHARE_GROUP_DESCRIBE", 1, body)

    def of_states(self) -> Iterator[Question]:
        beyond = {"partition": 1}
        cases: list[tuple[str, str, Told]] = [
            ("read", "READ", self._state(leaderEpoch=0)),
            ("read by nobody", "READ", self._state(leaderEpoch=-1)),
            ("read what is not", "READ", self._state(leaderEpoch=0, **beyond)),
            ("read of no topic", "READ", self._state(leaderEpoch=0, partition=9)),
            ("read a bad one", "READ", self._state(leaderEpoch=0, partition=-1)),
            ("write what is not", "WRITE", self._written(**beyond)),
            ("write of an old state", "WRITE", self._written(stateEpoch=0)),
            ("write of a bad one", "WRITE", self._written(partition=-1)),
            ("init an old state", "INITIALIZE", self._state(stateEpoch=0, startOffset=0)),
            (
                "init a bad one",
                "INITIALIZE",
                self._state(stateEpoch=1, startOffset=0, partition=-1),
            ),
            ("init", "INITIALIZE", self._state(stateEpoch=1, startOffset=0, group="other")),
            ("read by a newer leader", "READ", self._state(leaderEpoch=self._leader_epoch())),
            (
                "init of no topic",
                "INITIALIZE",
                self._state(stateEpoch=0, startOffset=0, partition=9),
            ),
            ("delete nothing", "DELETE", self._state(**beyond)),
            ("delete of no topic", "DELETE", self._state(partition=9)),
        ]
        for what, verb, body in cases:
            yield Question(f"state: {what}", f"{verb}_SHARE_GROUP_STATE", 0, body)
        api = "READ_SHARE_GROUP_STATE_SUMMARY"
        yield Question("state: sum", api, 0, self._state(leaderEpoch=0))
        yield Question("state: sum by nobody", api, 0, self._state(leaderEpoch=-1))
        yield Question("state: sum what is not", api, 0, self._state(leaderEpoch=0, **beyond))

    def of_transactions(self) -> Iterator[Question]:
        ends = {"committed": True}
        pid = {"transactionTimeoutMs": LATE_MS, "producerId": -1, "producerEpoch": -1}
        cases: list[tuple[str, str, int, Told]] = [
            ("add what is there", "ADD_PARTITIONS_TO_TXN", 3, self._adds("open")),
            (
                "add of an old epoch",
                "ADD_PARTITIONS_TO_TXN",
                3,
                self._adds("open", producerEpoch=0),
            ),
            ("add offsets again", "ADD_OFFSETS_TO_TXN", 3, {**self._id("open"), "groupId": "t"}),
            ("end nothing", "END_TXN", 4, {**self._id("bare"), **ends}),
            ("end of an old epoch", "END_TXN", 4, {**self._id("open", producerEpoch=0), **ends}),
            ("init of nobody", "INIT_PRODUCER_ID", 4, {**pid, "transactionalId": None}),
            (
                "init of another",
                "INIT_PRODUCER_ID",
                4,
                {**pid, "transactionalId": "bare", "producerId": 9999, "producerEpoch": 0},
            ),
            (
                "describe",
                "DESCRIBE_TRANSACTIONS",
                0,
                {"transactionalIds": ["open", "busy", "bare", "ends", "fenced", "new"]},
            ),
            (
                "list",
                "LIST_TRANSACTIONS",
                1,
                {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1},
            ),
        ]
        yield from (Question(*each) for each in cases)

    def of_busy(self) -> Iterator[Question]:
        """Requests for ids with an uncommitted write, each sent twice."""
        pid = {"transactionTimeoutMs": LATE_MS, "producerId": -1, "producerEpoch": -1}
        cases: list[tuple[str, str, int, Told]] = [
            ("add", "ADD_PARTITIONS_TO_TXN", 3, self._adds("busy")),
            ("end", "END_TXN", 4, {**self._id("ends"), "committed": True}),
            ("init", "INIT_PRODUCER_ID", 4, {**pid, "transactionalId": "new"}),
            ("init busy", "INIT_PRODUCER_ID", 4, {**pid, "transactionalId": "busy"}),
            ("init fences", "INIT_PRODUCER_ID", 4, {**pid, "transactionalId": "fenced"}),
            ("add offsets", "ADD_OFFSETS_TO_TXN", 3, {**self._id("ends"), "groupId": "t"}),
            ("end busy", "END_TXN", 4, {**self._id("busy"), "committed": True}),
            ("old", "END_TXN", 4, {**self._id("busy", producerEpoch=7), "committed": True}),
        ]
        offsets_of = [
            Question("offsets busy", "TXN_OFFSET_COMMIT", 3, self._commits("busy")),
            Question("offsets, v2", "TXN_OFFSET_COMMIT", 5, self._commits("bare", groupId="tt")),
        ]
        yield from (Question(*each) for each in cases)
        yield from offsets_of
        yield from self.of_transactions()
        yield from (Question(f"{what}, again", *how) for what, *how in cases)
        yield from self.of_transactions()

    def of_rejoining(self) -> Iterator[Question]:
        """Requests once the follower follows again: for the new offset and state."""
        simple = {"groupId": "simple", "generationIdOrMemberEpoch": -1, "memberId": ""}
        ninth = offsets("")
        ninth["partitions"][0]["committedOffset"] = 9
        fetch = {"groups": [{"groupId": "simple", "topics": None}], "requireStable": True}
        known = self._state(leaderEpoch=self._leaders)
        too_long = self._commits("open", offsets(TOO_LONG))
        cases: list[tuple[str, str, int, Told]] = [
            ("write", "WRITE_SHARE_GROUP_STATE", 0, self._written(startOffset=9)),
            ("read", "READ_SHARE_GROUP_STATE", 0, known),
            ("sum", "READ_SHARE_GROUP_STATE_SUMMARY", 0, known),
            ("read a bad one", "READ_SHARE_GROUP_STATE", 0, self._state(-1, leaderEpoch=0)),
            ("commit", "OFFSET_COMMIT", 8, {**simple, "topics": [ninth]}),
            ("fetch", "OFFSET_FETCH", 8, fetch),
            ("sync", "SYNC_GROUP", 5, self._syncs()),
            ("too long", "TXN_OFFSET_COMMIT", 3, too_long),
            ("forget nothing", "DELETE_SHARE_GROUP_OFFSETS", 0, FORGET_NOTHING),
        ]
        yield from (Question(*each) for each in cases)

    def of_ends(self) -> Iterator[Question]:
        yield from self.of_transactions()
        yield Question("groups", "LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []})
        yield Question(
            "classic", "DESCRIBE_GROUPS", 5, {"groups": ["fresh", "fresher", "simple", "t"]}
        )
        yield Question("consumers", "CONSUMER_GROUP_DESCRIBE", 0, {"groupIds": ["mixed"]})


FORGET_NOTHING: Told = {"groupId": "rest", "topics": [{"topicName": "orders"}]}
JOINS: Told = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["two"], "topicPartitions": []}
STREAMS: Told = {
    "rebalanceTimeoutMs": 60_000,
    "topology": topology(part("0", "two")),
    "processId": "p1",
    "clientTags": [],
    **NO_TASKS,
}


def offsets(*metadata: str, topic: str = "two") -> Told:
    """Return a topic of a commit: a partition with each metadata."""
    parts = [
        {"partitionIndex": n, "committedOffset": 1, "committedMetadata": text}
        for n, text in enumerate(metadata)
    ]
    return {"name": topic, "partitions": parts}


def altered(group: str, topic: str) -> Told:
    partitions = [{"partitionIndex": 0, "startOffset": 0}]
    return {"groupId": group, "topics": [{"topicName": topic, "partitions": partitions}]}
