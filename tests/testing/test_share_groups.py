"""Share consumers at the test broker: a record has one member at a time, also in trouble."""

from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.testing import KafkaBroker
from tests.support.gateways import Client
from tests.support.patience import wait_until

GROUP, LOCK_MS, REFUSED = "billing", 30_000, 41
pytestmark = pytest.mark.kafka_broker(topics=["orders"])


class Member:
    """A member of the group that reads `orders`."""

    def __init__(self, broker: KafkaBroker, name: str) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self._client = Client(Address(host, int(port)))
        self._name, self._epoch = name, 0
        self._client.call("FIND_COORDINATOR", 6, keyType=0, coordinatorKeys=[GROUP])
        self._assigned: list[Any] = []
        beat = {"groupId": GROUP, "memberId": name, "subscribedTopicNames": ["orders"]}
        epoch = 0

        def is_assigned() -> bool:
            nonlocal epoch
            response = self._client.call("SHARE_GROUP_HEARTBEAT", 1, beat, memberEpoch=epoch)
            epoch = response["memberEpoch"]
            broker.advance_time(1_000)  # the least time between two assignments
            self._assigned = (response["assignment"] or {"topicPartitions": []})["topicPartitions"]
            return bool(self._assigned)

        wait_until(is_assigned)

    def fetch(self, *given: dict[str, Any]) -> Any:
        """Return first offset and delivery count of a fetch, or its error."""
        parts = [{"partitionIndex": 0, "acknowledgementBatches": list(given)}]
        body = {"groupId": GROUP, "memberId": self._name, "shareSessionEpoch": self._epoch}
        body |= {"maxWaitMs": 50, "minBytes": 1, "maxRecords": 500, "batchSize": 500}
        body["topics"] = [{"topicId": self._assigned[0]["topicId"], "partitions": parts}]
        response = self._client.call("SHARE_FETCH", 1, body, forgottenTopicsData=[])
        if response["errorCode"]:
            return response["errorCode"]
        self._epoch += 1
        return [
            (each["firstOffset"], each["deliveryCount"])
            for topic in response["responses"]
            for partition in topic["partitions"]
            for each in partition["acquiredRecords"]
        ]

    def configure(self, kind: int, name: str, config: str, value: str) -> None:
        configs = [{"name": config, "configOperation": 0, "value": value}]
        resource = {"resourceType": kind, "resourceName": name, "configs": configs}
        body = {"resources": [resource], "validateOnly": False}
        response = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        assert [each["errorCode"] for each in response["responses"]] == [0]

    def close(self) -> None:
        self._client.close()


def accepted(offset: int) -> dict[str, Any]:
    return {"firstOffset": offset, "lastOffset": offset, "acknowledgeTypes": [1]}


def test_a_record_belongs_to_one_member_until_its_lock_or_connection_ends(
    kafka_broker: KafkaBroker,
) -> None:
    one, other = Member(kafka_broker, "one"), Member(kafka_broker, "other")
    assert (one.fetch(), other.fetch()) == ([], [])
    kafka_broker.produce("orders", "first")
    assert (one.fetch(), other.fetch()) == ([(0, 1)], [])
    kafka_broker.advance_time(LOCK_MS)
    assert other.fetch() == [(0, 2)]
    assert other.fetch(accepted(0)) == []
    kafka_broker.produce("orders", "second")
    assert one.fetch() == [(1, 1)]
    one.close()
    wait_until(lambda: other.fetch() == [(1, 2)])
    assert other.fetch(accepted(1)) == []
    other.close()


def test_a_share_fetch_fails_on_request(kafka_broker: KafkaBroker) -> None:
    member = Member(kafka_broker, "one")
    refused = kafka_broker.fail_next("SHARE_FETCH", "NOT_CONTROLLER")
    assert (member.fetch(), refused.hits) == (REFUSED, 1)
    assert member.fetch() == []
    member.close()


@pytest.mark.kafka_broker(
    topics=["orders", "dlq"],
    version="4.4",
    config={"errors.deadletterqueue.topic.name.prefix": "dlq"},
)
def test_dead_letters_are_records(kafka_broker: KafkaBroker) -> None:
    member = Member(kafka_broker, "one")
    member.configure(2, "dlq", "errors.deadletterqueue.group.enable", "true")
    member.configure(32, GROUP, "errors.deadletterqueue.topic.name", "dlq")
    assert member.fetch() == []
    kafka_broker.produce("orders", "bad")
    assert member.fetch() == [(0, 1)]
    assert member.fetch({**accepted(0), "acknowledgeTypes": [3]}) == []
    (letter,) = kafka_broker.records("dlq")
    assert (letter.key, letter.value) == (None, None)
    assert ("__dlq.errors.offset", b"0") in letter.headers
    member.close()
