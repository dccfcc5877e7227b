"""Promises that requests and responses show: each one kept and broken."""

import base64
from typing import Any

from brokertwin.clients.consumer_protocol import encode_assignment
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.testing.auditor import exchanges
from brokertwin.testing.auditor.exchanges import GRACE_MS, SeenExchange

Body = dict[str, Any]


def exchange(
    at: int, api: str, request: Body, response: Body, client: str = "a", is_delivered: bool = True
) -> SeenExchange:
    """An exchange whose response is sent 5 ms after the request."""
    return SeenExchange(at, at + 5, client, api, request, response, is_delivered)


def commit(
    at: int, offset: int, generation: int = 1, error: int = 0, member: str = "m"
) -> SeenExchange:
    def body(**fields: int) -> list[Body]:
        return [{"name": "orders", "partitions": [{"partitionIndex": 0, **fields}]}]

    request = {
        "groupId": "billing",
        "memberId": member,
        "generationIdOrMemberEpoch": generation,
        "topics": body(committedOffset=offset),
    }
    return exchange(at, "OFFSET_COMMIT", request, {"topics": body(errorCode=error)})


def test_commits_that_grow_or_repeat_are_fine() -> None:
    assert list(exchanges.commits_back([commit(0, 4), commit(10, 4), commit(20, 7)])) == []


def test_a_commit_below_an_earlier_one_of_its_generation_is_reported() -> None:
    (violation,) = exchanges.commits_back([commit(0, 4), commit(10, 3)])
    assert violation.text == "a commits 3 of orders-0 after 4, both in generation 1"


def test_commits_of_other_generations_refused_and_overlapping_ones_are_not_compared() -> None:
    assert list(exchanges.commits_back([commit(0, 4), commit(10, 3, generation=2)])) == []
    refused = commit(10, 3, error=Error.REBALANCE_IN_PROGRESS)
    assert list(exchanges.commits_back([commit(0, 4), refused])) == []
    assert list(exchanges.commits_back([commit(0, 4), commit(2, 3)])) == []


def test_commits_of_two_clients_without_a_group_member_are_not_compared() -> None:
    first, second = (commit(time, offset, -1, member="") for time, offset in ((0, 4), (10, 3)))
    assert list(exchanges.commits_back([first, second._replace(client="b")])) == []
    assert len(list(exchanges.commits_back([first, second]))) == 1


def test_the_greatest_accepted_commit_of_each_partition_is_found() -> None:
    refused = commit(20, 9, error=Error.ILLEGAL_GENERATION)
    assert exchanges.committed([commit(0, 4), commit(10, 3, generation=2), refused]) == {0: 4}


def sync(
    at: int, member: str, partition: int, generation: int = 1, instance: str | None = None
) -> SeenExchange:
    assigned = encode_assignment([TopicPartition("orders", partition)])
    return exchange(
        at,
        "SYNC_GROUP",
        {
            "groupId": "billing",
            "generationId": generation,
            "memberId": member,
            "groupInstanceId": instance,
        },
        {"errorCode": 0, "assignment": base64.b64encode(assigned).decode()},
    )


def test_members_with_different_partitions_or_generations_share_nothing() -> None:
    fine = [sync(0, "m", 0), sync(0, "n", 1), sync(10, "n", 0, generation=2)]
    assert list(exchanges.owned_twice(fine)) == []


def test_a_partition_of_two_members_in_one_generation_is_reported() -> None:
    (violation,) = exchanges.owned_twice([sync(0, "m", 0), sync(0, "n", 0)])
    assert violation.text == "orders-0 is assigned to m and n in generation 1"


def test_a_static_member_that_comes_back_has_its_partitions() -> None:
    back = [sync(0, "m", 0, instance="i"), sync(10, "n", 0, instance="i")]
    assert list(exchanges.owned_twice(back)) == []
    (violation,) = exchanges.owned_twice([*back, sync(20, "o", 0, instance="j")])
    assert violation.text == "orders-0 is assigned to i and j in generation 1"


def test_clients_with_partitions_and_generations_are_found() -> None:
    joined = exchange(5, "JOIN_GROUP", {"groupId": "g"}, {"errorCode": 0, "generationId": 2})
    fields = {"errorCode": 0, "memberEpoch": 4, "assignment": {"topicPartitions": [{}]}}
    beat = exchange(9, "CONSUMER_GROUP_HEARTBEAT", {"groupId": "h"}, fields)
    waiting = exchange(9, "SYNC_GROUP", {"groupId": "g"}, {"errorCode": 27, "assignment": ""})
    assert exchanges.assigned([joined, waiting]) == set()
    empty = base64.b64encode(encode_assignment([])).decode()
    idle = exchange(9, "SYNC_GROUP", {"groupId": "g"}, {"errorCode": 0, "assignment": empty})
    left = exchange(9, "CONSUMER_GROUP_HEARTBEAT", {"groupId": "h"}, {"memberEpoch": -1})
    assert exchanges.assigned([joined, idle, left]) == set()
    assert exchanges.assigned([joined, beat]) == {beat.client}
    assert exchanges.generation_count([joined, joined, beat, waiting, left]) == 2


def heartbeat(
    at: int, member: str, *partitions: int, epoch: int = 1, error: int = 0
) -> SeenExchange:
    owned = [{"topicId": "T", "partitions": list(partitions)}]
    request = {
        "groupId": "billing",
        "memberId": member,
        "memberEpoch": epoch,
        "topicPartitions": owned,
    }
    return exchange(at, "CONSUMER_GROUP_HEARTBEAT", request, {"errorCode": error})


def test_a_partition_that_a_member_has_released_left_or_lost_has_a_new_owner() -> None:
    new = heartbeat(20, "n", 0, epoch=2)
    assert list(exchanges.owned_twice([heartbeat(0, "m", 0), heartbeat(10, "m"), new])) == []
    leaves = heartbeat(10, "m", 0, epoch=-1)
    assert list(exchanges.owned_twice([heartbeat(0, "m", 0), leaves, new])) == []
    fenced = heartbeat(10, "m", 0, error=Error.FENCED_MEMBER_EPOCH)
    assert list(exchanges.owned_twice([heartbeat(0, "m", 0), fenced, new])) == []


def test_a_partition_that_two_members_report_is_reported() -> None:
    (violation,) = exchanges.owned_twice([heartbeat(0, "m", 0), heartbeat(10, "n", 0)])
    assert violation.text == "T-0 is owned by m and n"


def end(at: int, epoch: int = 0, error: int = 0, is_delivered: bool = True) -> SeenExchange:
    request = {"transactionalId": "t", "producerId": 7, "producerEpoch": epoch, "committed": True}
    response = {"errorCode": error}
    return exchange(at, "END_TXN", request, response, is_delivered=is_delivered)


FENCED = end(0, error=Error.PRODUCER_FENCED)
LATER = 5 + GRACE_MS + 1


def test_a_fenced_producer_may_go_on_with_a_new_epoch_and_with_requests_under_way() -> None:
    assert (
        list(exchanges.after_fencing([FENCED, end(100), end(GRACE_MS), end(LATER, epoch=1)])) == []
    )


def test_a_producer_that_did_not_receive_the_error_may_send_again() -> None:
    lost = end(0, error=Error.PRODUCER_FENCED, is_delivered=False)
    assert list(exchanges.after_fencing([lost, end(100), end(LATER)])) == []


def test_a_client_that_may_not_have_read_the_error_is_not_accused() -> None:
    """A JVM without processor time closed the connection, and went on with a new one."""
    late = [end(LATER), end(LATER + 4)]
    assert list(exchanges.after_fencing([FENCED, *late])) == []
    new = [each._replace(connection="new") for each in (end(100), end(LATER))]
    assert list(exchanges.after_fencing([FENCED, *new])) == []


def test_a_request_after_the_producer_was_fenced_is_reported() -> None:
    (violation,) = exchanges.after_fencing([FENCED, end(100), end(LATER)])
    assert "a sends END_TXN 2001 ms after 90 PRODUCER_FENCED" in violation.text
    assert exchanges.fenced_count([FENCED]) == 1


def produce(at: int, error: int = 0) -> SeenExchange:
    batch = {"producerId": 7, "producerEpoch": 0}
    parts = [{"index": 0, "batches": [batch]}]
    results = [{"index": 0, "errorCode": error}]
    request = {"transactionalId": "t", "topicData": [{"name": "orders", "partitionData": parts}]}
    response = {"responses": [{"name": "orders", "partitionResponses": results}]}
    return exchange(at, "PRODUCE", request, response)


def test_an_old_epoch_is_final_for_every_request_but_a_produce() -> None:
    """INVALID_PRODUCER_EPOCH of a Produce only aborts the transaction (KIP-588)."""
    old = Error.INVALID_PRODUCER_EPOCH
    (violation,) = exchanges.after_fencing([end(0, error=old), end(100), end(LATER)])
    assert "47 INVALID_PRODUCER_EPOCH" in violation.text
    aborted = [produce(0, error=old), produce(100), produce(LATER)]
    assert list(exchanges.after_fencing(aborted)) == []
    (violation,) = exchanges.after_fencing(
        [produce(0, error=Error.PRODUCER_FENCED), produce(100), produce(LATER)]
    )
    assert "a sends PRODUCE 2001 ms after 90 PRODUCER_FENCED" in violation.text


def test_a_commit_after_the_member_was_removed_is_reported() -> None:
    unknown = commit(0, 4, error=Error.UNKNOWN_MEMBER_ID)
    (violation,) = exchanges.after_fencing([unknown, commit(100, 4), commit(LATER, 4)])
    assert "25 UNKNOWN_MEMBER_ID" in violation.text
    assert (
        list(exchanges.after_fencing([unknown, commit(100, 4), commit(LATER, 4, member="new")]))
        == []
    )


def test_documents_of_the_proxy_are_ordered_by_arrival() -> None:
    header = {"requestApiKeyName": "FETCH", "clientId": None}
    pending = {"time": 2, "requestHeader": header, "request": {}, "response": None}
    lost = {**pending, "time": 1, "response": {}, "delivered": False, "responseTime": 3.5}
    first, second = exchanges.seen([pending, lost])
    assert (first.time, first.end, first.client, first.is_delivered) == (1, 4.5, "", False)
    assert (second.time, second.is_delivered) == (2, False)
