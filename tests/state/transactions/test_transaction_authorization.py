"""Permissions for transaction requests, in Kafka's order."""

from typing import Any

from brokertwin.state.access.authorizer import CLASS_NAME, Operation, PatternType, ResourceType
from tests.support.transactions import Holder, TransactionBench

ADMIN, ALICE = "User:ANONYMOUS", "User:alice"
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53


class Guarded(TransactionBench):
    """Alice has only permissions granted by `let`; anonymous clients have all."""

    def __init__(self) -> None:
        super().__init__(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
        self.topic("b")
        self.principal = ADMIN
        self.holder: Holder = self.init()
        self.principal = ALICE

    def send(
        self, api: str | int, version: int, body: dict[str, Any] | None = None, **event: Any
    ) -> str:
        principal = getattr(self, "principal", ADMIN)
        return super().send(api, version, body, **{"principal": principal, **event})

    def let(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        acl = {
            "resourceType": resource_type,
            "resourceName": name,
            "resourcePatternType": PatternType.LITERAL,
            "principal": ALICE,
            "host": "*",
            "operation": operation,
            "permissionType": 3,
        }
        response = self.request("CREATE_ACLS", 3, {"creations": [acl]}, principal=ADMIN)
        assert [each["errorCode"] for each in response["results"]] == [0]


def test_transactional_id_permission_is_checked_first() -> None:
    bench = Guarded()
    assert bench.init().error == ID_DENIED
    assert bench.add("t1", bench.holder, a=[0], b=[0]) == {"a": [ID_DENIED], "b": [ID_DENIED]}
    assert bench.add_offsets("t1", bench.holder) == ID_DENIED
    assert bench.commit_offset("t1", bench.holder, 1) == ID_DENIED
    assert bench.end("t1", bench.holder)["errorCode"] == ID_DENIED
    assert bench.described()["errorCode"] == ID_DENIED


def test_topic_permissions_are_next_and_one_denied_topic_rejects_all() -> None:
    bench = Guarded()
    bench.let(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t1")
    bench.let(Operation.WRITE, ResourceType.TOPIC, "a")
    assert bench.add("t1", bench.holder, a=[0], b=[0]) == {"a": [55], "b": [TOPIC_DENIED]}
    assert bench.described()["topics"] == []
    assert bench.add("t1", bench.holder, a=[0]) == {"a": [0]}
    assert bench.end("t1", bench.holder)["errorCode"] == 0


def test_group_and_topic_permissions_are_checked_for_offsets() -> None:
    bench = Guarded()
    bench.let(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t1")
    assert bench.add_offsets("t1", bench.holder) == GROUP_DENIED
    assert bench.commit_offset("t1", bench.holder, 1) == GROUP_DENIED
    bench.let(Operation.READ, ResourceType.GROUP, "g")
    assert bench.add_offsets("t1", bench.holder) == 0
    assert bench.commit_offset("t1", bench.holder, 1) == TOPIC_DENIED
    bench.let(Operation.READ, ResourceType.TOPIC, "a")
    assert bench.commit_offset("t1", bench.holder, 1) == 0


def test_requests_between_brokers_need_cluster_permission() -> None:
    bench = Guarded()
    transaction = {
        "transactionalId": "t1",
        "producerId": bench.holder.producer_id,
        "producerEpoch": bench.holder.epoch,
        "topics": [{"name": "a", "partitions": [0]}],
    }
    response = bench.request("ADD_PARTITIONS_TO_TXN", 5, {"transactions": [transaction]})
    assert (response["errorCode"], response["resultsByTransaction"]) == (CLUSTER_DENIED, [])


def test_descriptions_contain_only_ids_with_describe_permission() -> None:
    bench = Guarded()
    bench.principal = ADMIN
    bench.init("t2")
    bench.add("t1", bench.holder, a=[0], b=[0])
    bench.principal = ALICE
    bench.let(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t1")
    bench.let(Operation.DESCRIBE, ResourceType.TOPIC, "b")
    listed = bench.request("LIST_TRANSACTIONS", 1, {})["transactionStates"]
    assert [each["transactionalId"] for each in listed] == ["t1"]
    assert bench.described()["topics"] == [{"topic": "b", "partitions": [0]}]


def test_lists_are_filtered_by_state_producer_and_duration() -> None:
    bench = TransactionBench()
    first, second = bench.init("t1"), bench.init("t2")
    bench.add("t2", second, a=[0])
    bench.now += 500

    def listed(**filters: Any) -> list[str]:
        response = bench.request("LIST_TRANSACTIONS", 1, filters)
        return [each["transactionalId"] for each in response["transactionStates"]]

    assert listed() == ["t1", "t2"]
    assert listed(producerIdFilters=[first.producer_id]) == ["t1"]
    assert listed(stateFilters=["Ongoing"]) == ["t2"]
    assert listed(stateFilters=["ongoing"]) == []
    assert listed(durationFilter=499) == ["t1", "t2"]
    assert listed(durationFilter=500) == ["t1"]
