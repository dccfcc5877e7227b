"""Expiry of groups and offsets, compared with a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import Client, running_gateway
from tests.support.goldens import real_broker, tape
from tests.support.patience import wait_until

pytestmark = pytest.mark.compares

SETTINGS = {
    "offsets.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
EMPTY, GONE = "Empty", 69


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[list[Client]]:
    with (
        real_broker(tmp_path / "broker", SETTINGS) as address,
        tape("groups/expiry", SETTINGS) as recording,
        running_gateway(SETTINGS) as gateway,
        gateway.client() as ours,
        recording.connection(lambda: Client(address)) as real,
    ):
        yield [ours, real]


def test_an_empty_share_group_outlives_an_empty_consumer_group(sides: list[Client]) -> None:
    """The deleted consumer group shows that the expiry has run."""
    for client in sides:
        come_and_go(client)
    assert [described(client, "SHARE_GROUP_DESCRIBE", "shares") for client in sides] == [EMPTY] * 2


def come_and_go(client: Client) -> None:
    """Let a member of each group join and leave, and wait until the consumer group is deleted."""
    client.topic("read")
    client.call("FIND_COORDINATOR", 6, keyType=0, coordinatorKeys=["shares", "consumes"])
    share = {"groupId": "shares", "memberId": MEMBER, "rackId": None}
    consumer = {"groupId": "consumes", "memberId": MEMBER, "rebalanceTimeoutMs": 60_000}
    join_and_leave(client, "SHARE_GROUP_HEARTBEAT", share)
    join_and_leave(client, "CONSUMER_GROUP_HEARTBEAT", {**consumer, "topicPartitions": []})
    wait_until(lambda: described(client, "CONSUMER_GROUP_DESCRIBE", "consumes") == GONE)


def join_and_leave(client: Client, api: str, body: dict[str, Any]) -> None:
    join = {**body, "memberEpoch": 0, "subscribedTopicNames": ["read"]}
    wait_until(lambda: client.call(api, 1, join)["errorCode"] == 0)
    leave = {**body, "memberEpoch": -1, "subscribedTopicNames": None}
    assert client.call(api, 1, leave)["errorCode"] == 0


def described(client: Client, api: str, group: str) -> str | int:
    body = {"groupIds": [group], "includeAuthorizedOperations": False}
    reported = client.call(api, 1, body)["groups"][0]
    return str(reported["groupState"]) if not reported["errorCode"] else int(reported["errorCode"])
