"""A whole life of a group, at a real broker and at ours: it comes, commits, goes, is deleted."""

import uuid
from typing import Any

from tests.support.group_walks import TIMEOUT_MS, TOPICS
from tests.support.patience import wait_until
from tests.support.streams_groups import NO_TASKS, internal, part, topology
from tests.support.walk_sides import Side, Step

Body = dict[str, Any]


def call(side: Side, api: str, version: int, **body: Any) -> Body:
    response = side.response(Step(api, version, body), [body.get("groupId", "")])
    assert not response.get("errorCode"), (api, response)
    return response


def delete(side: Side, group: str) -> None:
    (result,) = call(side, "DELETE_GROUPS", 2, groupsNames=[group])["results"]
    assert result["errorCode"] == 0, result


def classic_life(side: Side, group: str) -> None:
    """A member joins, commits some positions and not others, and leaves."""
    who = {"groupId": group, "memberId": "", "groupInstanceId": None, "protocolType": "consumer"}
    fields = {"sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": TIMEOUT_MS, "reason": None}
    fields["protocols"] = [{"name": "range", "metadata": "AAAAAAABAAZ3YWxrZWT/////"}]
    drawn = side.response(Step("JOIN_GROUP", 9, who | fields), [group])["memberId"]
    who["memberId"] = drawn
    generation = call(side, "JOIN_GROUP", 9, **who, **fields)["generationId"]
    assigned = [{"memberId": drawn, "assignment": "AAAAAAABAAZ3YWxrZWQAAAABAAAAAP////8="}]
    of = {**who, "generationId": generation}
    call(side, "SYNC_GROUP", 5, **of, protocolName="range", assignments=assigned)
    commit(side, group, memberId=drawn, generationIdOrMemberEpoch=generation)
    gone = {"memberId": drawn, "groupInstanceId": None, "reason": None}
    call(side, "LEAVE_GROUP", 5, groupId=group, members=[gone])
    commit(side, group, memberId="", generationIdOrMemberEpoch=-1, retentionTimeMs=1, version=4)
    delete(side, group)


def commit(side: Side, group: str, version: int = 9, **who: Any) -> None:
    partitions = [
        {"partitionIndex": number, "committedOffset": number + 5, "committedMetadata": "m"}
        for number in (0, 1)
    ]
    topics = [{"name": "walked", "partitions": partitions}]
    response = call(side, "OFFSET_COMMIT", version, groupId=group, topics=topics, **who)
    assert {each["errorCode"] for each in response["topics"][0]["partitions"]} == {0}


def consumer_life(side: Side, group: str) -> None:
    """A member gets its partitions, commits, leaves, and the empty group is deleted."""
    who = {"groupId": group, "memberId": "m", "instanceId": None, "rackId": "r"}
    who |= {"serverAssignor": "range", "subscribedTopicRegex": None, "topicPartitions": None}
    join = {**who, "rebalanceTimeoutMs": TIMEOUT_MS, "subscribedTopicNames": ["walked"]}
    join["topicPartitions"] = []
    api = "CONSUMER_GROUP_HEARTBEAT"
    epoch = call(side, api, 1, **join, memberEpoch=0)["memberEpoch"]
    commit(side, group, memberId="m", generationIdOrMemberEpoch=epoch)
    beat = {**who, "rebalanceTimeoutMs": -1, "subscribedTopicNames": None}
    call(side, api, 1, **beat, memberEpoch=-1)
    delete(side, group)


def share_life(side: Side, group: str) -> None:
    """A member joins, the state of its partitions begins, and it goes."""
    share_states(side, group, "walked")
    delete(side, group)


def share_life_with_deleted_topic(side: Side, group: str) -> None:
    share_states(side, group, "walked", "trodden")
    side.delete(["trodden"])
    delete(side, group)


def share_states(side: Side, group: str, *topics: str) -> None:
    """A member joins, stays until its partitions have state, and leaves."""
    who = {"groupId": group, "memberId": str(uuid.UUID(int=1)), "rackId": "r"}
    join = {**who, "memberEpoch": 0, "subscribedTopicNames": list(topics)}
    count = sum(TOPICS[each] for each in topics)
    epoch = call(side, "SHARE_GROUP_HEARTBEAT", 1, **join)["memberEpoch"]

    def has_all() -> bool:
        nonlocal epoch
        beat = {**who, "memberEpoch": epoch, "subscribedTopicNames": None}
        response = call(side, "SHARE_GROUP_HEARTBEAT", 1, **beat)
        epoch = response["memberEpoch"]
        topic_partitions = (response["assignment"] or {}).get("topicPartitions")
        return sum(len(each["partitions"]) for each in topic_partitions or []) == count

    wait_until(has_all)
    call(side, "SHARE_GROUP_HEARTBEAT", 1, **who, memberEpoch=-1, subscribedTopicNames=None)


def streams_life(side: Side, group: str) -> None:
    """A member with an endpoint and tags runs tasks that keep state, and goes."""
    changelog = internal(f"{group}-changelog", cleanup_policy="compact")
    runs = topology(part("0", "walked", stateChangelogTopics=[changelog]))
    who = {"groupId": group, "memberId": "m", "endpointInformationEpoch": 0}
    fields: Body = {
        "rebalanceTimeoutMs": TIMEOUT_MS,
        "topology": runs,
        "processId": "p",
        **NO_TASKS,
    }
    fields |= {"userEndpoint": {"host": "h", "port": 40_000}, "rackId": "r"}
    fields["clientTags"] = [{"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"}]
    epoch = call(side, "STREAMS_GROUP_HEARTBEAT", 0, **who, memberEpoch=0, **fields)["memberEpoch"]

    def has_all() -> bool:
        nonlocal epoch
        beat = {**who, "memberEpoch": epoch, "rebalanceTimeoutMs": -1}
        response = call(side, "STREAMS_GROUP_HEARTBEAT", 0, **beat)
        epoch = response["memberEpoch"]
        return bool(response["activeTasks"] and len(response["activeTasks"][0]["partitions"]) == 3)

    wait_until(has_all)
    commit(side, group, memberId="m", generationIdOrMemberEpoch=epoch)
    call(side, "STREAMS_GROUP_HEARTBEAT", 0, **who, memberEpoch=-1)
    delete(side, group)
