"""A new coordinator loads every kind of record and describes the same groups."""

from typing import Any, get_args

import pytest

from brokertwin.state.core.group_records import GroupKey, GroupRecord
from brokertwin.state.logs.log import batches_from
from brokertwin.state.replication import internal_logs
from tests.support.coordinators import GROUPS, Coordinators
from tests.support.replicas import BROKERS, TOPIC
from tests.support.streams_groups import NO_TASKS, STATEFUL, task_ids

TIMEOUT_MS = 60_000
SILENCE_MS = 1_800_000
CONFIGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    **{f"group.{kind}.session.timeout.ms": "60000" for kind in ("consumer", "share", "streams")},
}
DESCRIBED = {
    "classic": ("DESCRIBE_GROUPS", 5, "groups"),
    "modern": ("CONSUMER_GROUP_DESCRIBE", 1, "groupIds"),
    "shared": ("SHARE_GROUP_DESCRIBE", 1, "groupIds"),
    "streams": ("STREAMS_GROUP_DESCRIBE", 0, "groupIds"),
}
Body = dict[str, Any]
LEAVING = {"memberId": "m", "memberEpoch": -1, "rebalanceTimeoutMs": -1}


class Kinds(Coordinators):
    """A group of each kind with a member, offsets, a transaction, and deletions."""

    def __init__(self) -> None:
        super().__init__(offsets_topic_num_partitions=1, given=CONFIGS)
        for group in ("simple", "gone", "g"):
            self.offset(group, 5)
        self.on("DELETE_GROUPS", 2, {"groupsNames": ["gone"]})
        place = {"name": TOPIC, "partitions": [{"partitionIndex": 0}]}
        self.on("OFFSET_DELETE", 0, {"groupId": "simple", "topics": [place]})
        assert self.response(self.transaction(7))["errorCode"] == 0
        self.classic()
        self.modern("deleted")
        self.on("CONSUMER_GROUP_HEARTBEAT", 1, {"groupId": "deleted", **LEAVING})
        self.on("DELETE_GROUPS", 2, {"groupsNames": ["deleted"]})
        self.modern("modern")
        self.shared()
        self.streams()

    def on(self, api: str, version: int, body: Body) -> Body:
        response: Body = self.response(self.send(api, version, body, self.coordinator(GROUPS)))
        assert not response.get("errorCode"), (api, response)
        return response

    def offset(self, group: str, offset: int, **who: Any) -> None:
        partitions = [{"partitionIndex": 0, "committedOffset": offset}]
        body = {"groupId": group, "topics": [{"name": TOPIC, "partitions": partitions}], **who}
        response = self.on("OFFSET_COMMIT", 9, body)
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0, response

    def classic(self) -> None:
        body = {"groupId": "classic", "protocolType": "consumer", "groupInstanceId": "i"}
        fields = {"sessionTimeoutMs": SILENCE_MS, "rebalanceTimeoutMs": SILENCE_MS, "memberId": ""}
        protocols = [{"name": "range", "metadata": "QQ=="}]
        sent = {**body, **fields, "protocols": protocols}
        waits = self.send("JOIN_GROUP", 9, sent, self.coordinator(GROUPS))
        self.bench.tick(6_000)
        member = {**body, "memberId": self.response(waits)["memberId"], "generationId": 1}
        assigned = [{"memberId": member["memberId"], "assignment": "Qg=="}]
        self.on("SYNC_GROUP", 5, {**member, "protocolName": "range", "assignments": assigned})
        who = {"memberId": member["memberId"], "generationIdOrMemberEpoch": 1}
        self.offset("classic", 8, **who, groupInstanceId="i")

    def beats(self, api: str, version: int, joins: Body, later: Body) -> None:
        """Join and send heartbeats until nothing changes."""
        epoch = self.on(api, version, {**joins, "memberEpoch": 0})["memberEpoch"]
        for _ in range(4):
            self.bench.tick(1_500)
            beat = {**later, "memberEpoch": epoch, "groupId": joins["groupId"]}
            self.last = (api, version, {"memberId": joins["memberId"], **beat})
            epoch = self.on(*self.last)["memberEpoch"]

    def modern(self, group: str) -> None:
        """A subscription by name and by a regular expression."""
        fields = {"groupId": group, "memberId": "m", "subscribedTopicRegex": "or.*", "rackId": "r"}
        fields |= {"subscribedTopicNames": [TOPIC], "rebalanceTimeoutMs": TIMEOUT_MS}
        later = {"rebalanceTimeoutMs": -1}
        self.beats("CONSUMER_GROUP_HEARTBEAT", 1, {**fields, "topicPartitions": []}, later)

    def shared(self) -> None:
        fields = {"groupId": "shared", "memberId": "m", "subscribedTopicNames": [TOPIC]}
        self.beats("SHARE_GROUP_HEARTBEAT", 1, fields, {"subscribedTopicNames": None})

    def streams(self) -> None:
        """Tasks with reported state."""
        runs: Body = STATEFUL["subtopologies"][0] | {"sourceTopics": [TOPIC]}
        fields = {"groupId": "streams", "memberId": "m", "processId": "p", "clientTags": []}
        fields |= {"topology": {"epoch": 0, "subtopologies": [runs]}, **NO_TASKS}
        fields |= {"rebalanceTimeoutMs": TIMEOUT_MS, "endpointInformationEpoch": 0}
        has = {**NO_TASKS, "activeTasks": task_ids(["0_0"])}
        later = {"rebalanceTimeoutMs": -1, "endpointInformationEpoch": 0, **has}
        self.beats("STREAMS_GROUP_HEARTBEAT", 0, fields, later)

    def described(self) -> dict[str, Any]:
        """Groups and offsets as clients see them."""
        found: dict[str, Any] = {
            group: self.on(api, version, {field: [group]})["groups"]
            for group, (api, version, field) in DESCRIBED.items()
        }
        every = self.on("LIST_GROUPS", 5, {})["groups"]
        requests = [{"groupId": each["groupId"], "topics": None} for each in every]
        found["offsets"] = self.on("OFFSET_FETCH", 8, {"groups": requests})["groups"]
        return {**found, "listed": sorted(every, key=str)}

    def written(self) -> set[type]:
        """Types of records in the log; for rows of groups, those of their keys."""
        leader = self.coordinator(GROUPS)
        log = self.log(GROUPS, leader)
        return {
            type(record.key if isinstance(record, GroupRecord) else record)
            for batch in batches_from(self.bench.cell.tables.of(leader), log, 0)
            for record in internal_logs.in_batch(batch.written)
        }


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_every_kind_of_record_is_loaded(how: str) -> None:
    kinds = Kinds()
    assert kinds.written() >= {*internal_logs.OF_GROUPS, *get_args(GroupKey)} - {GroupRecord}
    described, old = kinds.described(), kinds.coordinator(GROUPS)
    assert {each["groupId"] for each in described["listed"]} == {"simple", "g", *DESCRIBED}
    (modern,) = described["modern"]
    assert modern["members"][0]["assignment"]["topicPartitions"] != []
    getattr(kinds.replicas, how)(old)
    kinds.bench.tick(10_000)
    assert kinds.coordinator(GROUPS) in {*BROKERS} - {old}
    kinds.on(*kinds.last)  # only heartbeats show the topics of a topology
    assert kinds.described() == described
