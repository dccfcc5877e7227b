"""ShareFetch: sessions, pending fetches, acknowledgements, locks."""

from collections.abc import Callable
from typing import Any

import pytest

from brokertwin.state.cell import check
from brokertwin.state.core import pending
from brokertwin.state.share import result_order
from tests.support.machine import header
from tests.support.share_groups import GROUP
from tests.support.share_members import Shared, batch, completed, got

LOCK_MS = 30_000
FULL, NO_SESSION, OTHER_EPOCH = 133, 122, 123


def test_expired_lock_wakes_a_pending_fetch() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    assert bench.fetch("b", 60_000) is None
    count = len(completed(bench))
    bench.tick(LOCK_MS - 1)
    assert len(completed(bench)) == count
    bench.tick(1)
    assert got(completed(bench)[-1]["response"]) == [(0, 2, 2)]
    assert bench.acknowledge("a", batch(0, 2, 1)) == 121


def test_records_are_delivered_up_to_the_brokers_limit() -> None:
    bench = Shared(given={"group.share.delivery.count.limit": "2"})
    for count in (1, 2):
        assert bench.fetch("a") == [(0, 2, count)]
        assert bench.acknowledge("a", batch(0, 2, 2)) == 0
    assert bench.fetch("a") == []
    bench.append("foo", header(1))
    bench.now += 1
    assert bench.fetch("a") == [(3, 3, 1)]


def test_released_records_go_to_a_pending_fetch() -> None:
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("b", 60_000) is None
    assert bench.acknowledge("a", batch(0, 2, 1, 2, 3)) == 0
    assert [(1, 1, 2)] in [got(each["response"]) for each in completed(bench)]


def test_records_of_a_lost_connection_are_found_after_a_max_wait() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    assert bench.fetch("b", 2_000) is None
    count = len(completed(bench))
    assert bench.lose("a") == []
    bench.tick(1_999)
    assert len(completed(bench)) == count, "released records wake no fetch"
    bench.tick(1)
    assert got(completed(bench)[-1]["response"]) == [(0, 2, 2)]
    assert bench.fetch("a") == NO_SESSION


def test_released_records_alone_are_found_after_another_fetch() -> None:
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("b", 60_000) is None
    assert bench.acknowledge("a", batch(0, 2, 2)) == 0
    count = len(completed(bench))
    limited = bench.share("c", 0, maxRecords=1, batchSize=1, shareAcquireMode=1)
    assert got(limited) == [(0, 0, 2)]
    assert len(completed(bench)) == count + 2
    assert [(1, 2, 2)] in [got(each["response"]) for each in completed(bench)]


def test_releasing_member_gets_its_records_with_the_next_request() -> None:
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("a", 0, batch(0, 2, 2)) == []
    assert bench.fetch("a") == [(0, 2, 2)]


def test_first_of_two_pending_fetches_gets_new_records() -> None:
    """The second one has released records, which gives it no priority."""
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("b", 60_000) is None
    count = len(completed(bench))
    assert bench.fetch("a", 50_000, batch(0, 2, 1, 2, 2)) is None
    assert [got(each["response"]) for each in completed(bench)[count:]] == [[(1, 2, 2)]]


def test_connection_ends_the_last_session_that_it_has_opened() -> None:
    """A connection that only continues a session does not end it."""
    bench = Shared()
    assert got(bench.share("a", 0, connection="one")) == [(0, 2, 1)]
    bench.append("foo", header(1))
    bench.now += 1
    assert got(bench.share("b", 0, connection="one")) == [(3, 3, 1)]
    assert got(bench.share("b", 1, connection="other")) == []
    bench.lose("other")
    assert got(bench.share("b", 2, connection="other")) == []
    bench.lose("one")
    assert bench.fetch("c") == [(3, 3, 2)]
    assert got(bench.share("a", 1)) == []
    assert got(bench.share("b", 3)) == NO_SESSION
    bench.lose("one")
    assert got(bench.share("a", 2)) == []


@pytest.mark.parametrize("closed", ["a", "b"])
def test_closed_session_detaches_its_connection(closed: str) -> None:
    """Sessions that it opens later end with it again."""
    bench = Shared()
    for member in ("a", "b"):
        bench.share(member, 0, connection="one")
    bench.share(closed, -1, connection="other")
    bench.lose("one")
    left = {"a": "b", "b": "a"}[closed]
    assert got(bench.share(left, 1)) != NO_SESSION
    assert got(bench.share("c", 0, connection="one")) == []
    bench.lose("one")
    assert (got(bench.share("c", 1)), got(bench.share(left, 2))) == (NO_SESSION, [])


def test_session_reopened_by_another_connection_does_not_end_with_the_former() -> None:
    bench = Shared()
    bench.share("a", 0, connection="one")
    bench.share("a", 0, connection="other")
    bench.lose("one")
    assert got(bench.share("a", 1, connection="other")) == []


def test_pending_fetch_of_a_lost_connection_releases_its_records() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    bench.fetch("b")
    assert bench.fetch("b", 60_000) is None
    bench.lose("b")
    bench.append("foo", header(1))
    assert bench.fetch("c") == [(3, 3, 2)]


def test_pending_fetch_completes_if_another_connection_closes_the_session() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    bench.fetch("b")
    assert bench.fetch("b", 60_000) is None
    assert got(bench.share("b", -1, connection="other")) == []
    bench.append("foo", header(1))
    assert got(completed(bench)[-1]["response"]) == [(3, 3, 1)]


def test_unknown_connection_ends_no_session() -> None:
    bench = Shared()
    assert got(bench.share("a", 0, connection="")) == [(0, 2, 1)]
    assert bench.lose("") != []
    assert got(bench.share("a", 1, connection="")) == []


def test_new_records_wake_a_pending_fetch() -> None:
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("b", 60_000) is None
    bench.append("foo", header(2))
    assert [(3, 4, 1)] in [got(each["response"]) for each in completed(bench)]


def test_closing_a_session_releases_its_records() -> None:
    bench = Shared()
    bench.fetch("a")
    assert got(bench.share("a", -1, 0, batch(0, 0, 1))) == []
    assert bench.fetch("b") == [(1, 2, 2)]
    assert got(bench.share("a", 1)) == NO_SESSION


def test_session_epochs_are_consecutive() -> None:
    bench = Shared()
    bench.share("a", 0)
    assert got(bench.share("a", 2)) == OTHER_EPOCH
    assert got(bench.share("a", 1)) == []
    assert got(bench.share("b", 1)) == NO_SESSION


def test_restarted_broker_knows_written_acknowledgements() -> None:
    """Records in flight are volatile, written states are durable."""
    bench = Shared()
    bench.fetch("a")
    bench.acknowledge("a", batch(0, 0, 1), batch(1, 1, 2))
    key = bench.cell.tables.shares.keys("1/share-partition/")[0]
    bench.cell.tables.shares.drop(key)
    name = key.split("/", 2)[2]
    pending.set_timer(bench.cell.tables.pending, f"share-lock/1/{name}", None)
    assert bench.fetch("b") == [(1, 1, 2), (2, 2, 1)]


def test_group_without_state_gets_an_error_after_the_wait() -> None:
    bench = Shared()
    assert bench.share("a", 0, 500, groupId="nobody") is None
    bench.tick(500)
    (response,) = [each["response"] for each in completed(bench)][-1:]
    assert response["responses"][0]["partitions"][0]["errorCode"] == -1


def test_altered_offsets_are_used_by_the_next_session() -> None:
    bench = Shared()
    bench.fetch("a")
    bench.acknowledge("a", batch(0, 2, 1))
    bench.share("a", -1)
    bench.share("z", -1)
    bench.beat("z", -1)
    at = {"partitionIndex": 0, "startOffset": 1}
    body = {"groupId": GROUP, "topics": [{"topicName": "foo", "partitions": [at]}]}
    assert bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, body)["errorCode"] == 0
    assert bench.fetch("b") == [(1, 2, 1)]


def test_number_of_sessions_is_limited() -> None:
    """No session is evicted, but a member may replace its own."""
    bench = Shared(given={"group.share.max.share.sessions": "2"})
    assert bench.fetch("a") == [(0, 2, 1)]
    assert bench.share("b", 0, 500) is None
    bench.tick(499)
    assert FULL not in [each["response"]["errorCode"] for each in completed(bench)]
    bench.tick(1)
    assert FULL in [each["response"]["errorCode"] for each in completed(bench)]
    bench.now += 590_000
    assert bench.share("b", 0) is None
    bench.tick(1)
    assert got(completed(bench)[-1]["response"]) == FULL
    assert got(bench.share("a", 0)) == [(0, 2, 2)]
    assert got(bench.share("z", -1)) == got(bench.share("b", 0)) == []


@pytest.mark.parametrize(("idle_ms", "response"), [("700000", FULL), ("600000", [(0, 2, 2)])])
def test_session_of_an_idle_connection_is_replaced(idle_ms: str, response: object) -> None:
    """The end of connections of a killed gateway is unknown."""
    given = {"group.share.max.share.sessions": "2", "connections.max.idle.ms": idle_ms}
    bench = Shared(given=given)
    assert bench.fetch("a") == [(0, 2, 1)]
    bench.now += 600_001
    result = bench.share("b", 0)
    bench.tick(1)
    assert got(result if result is not None else completed(bench)[-1]["response"]) == response
    assert check.check(bench.cell) == []


def test_deleting_a_topic_drops_its_records() -> None:
    bench = Shared()
    bench.fetch("a")
    bench.request("DELETE_TOPICS", 5, {"topicNames": ["foo"], "timeoutMs": 1000})
    assert check.check(bench.cell) == []
    assert bench.cell.tables.shares.keys("1/share-partition/") == []
    assert got(bench.share("a", 1)) == -1


def test_pending_fetch_completes_when_its_topic_is_deleted() -> None:
    bench = Shared()
    bench.fetch("a")
    assert bench.fetch("b", 60_000) is None
    before = len(completed(bench))
    bench.request("DELETE_TOPICS", 5, {"topicNames": ["foo"], "timeoutMs": 1000})
    assert check.check(bench.cell) == []
    reported = [
        each["response"] for each in completed(bench)[before:] if "responses" in each["response"]
    ]
    assert [each["acquisitionLockTimeoutMs"] for each in reported] == [LOCK_MS]


def test_throttled_member_gets_no_records_but_acquires_them() -> None:
    """The response has 77 bytes besides records; 78 above 126 bytes of them."""
    bench = Shared(quota_window_num=2, quota_window_size_seconds=1)
    entity = [{"entityType": "client-id", "entityName": "bench"}]
    rate = {"key": "consumer_byte_rate", "value": 100.0, "remove": False}
    body = {"entries": [{"entity": entity, "ops": [rate]}], "validateOnly": False}
    assert bench.request("ALTER_CLIENT_QUOTAS", 1, body)["entries"][0]["errorCode"] == 0
    size = header(3)["sizeInBytes"]
    response = bench.share("a", 0)
    assert (response["responses"], response["acquisitionLockTimeoutMs"]) == ([], LOCK_MS)
    assert response["throttleTimeMs"] == (size + 77 - 100) * 1000 // 100
    assert got(bench.share("b", 0)) == []
    bench.tick(LOCK_MS)
    rate["value"] = 10_000.0
    bench.request("ALTER_CLIENT_QUOTAS", 1, body)
    assert got(bench.share("b", 1)) == [(0, 2, 2)]


# Several partitions


def places(bench: Shared, given: dict[int, list[Any]]) -> list[dict[str, Any]]:
    """Return partitions of `foo` with acknowledgements, as in a request."""
    named = [
        {"partitionIndex": number, "acknowledgementBatches": batches}
        for number, batches in given.items()
    ]
    return [{"topicId": bench.ids["foo"], "partitions": named}]


def test_partitions_are_read_in_turn_and_those_with_records_move_to_the_end() -> None:
    # compared with Apache Kafka 4.3.1
    bench = Shared()
    assert bench.share("y", 0, 100, topics=places(bench, {1: [], 2: []})) is None
    bench.tick(100)
    bench.append("foo", header(3), partition=1)
    bench.append("foo", header(3), partition=2)
    found = []
    for epoch, added in enumerate([0, 1, 2, *[None] * 6]):
        topics = [] if added is None else places(bench, {added: []})
        one = {"topics": topics, "maxRecords": 1, "shareAcquireMode": 1}
        (responded,) = bench.share("a", epoch, 100, **one)["responses"]
        found += [
            (each["partitionIndex"], records["firstOffset"])
            for each in responded["partitions"]
            for records in each["acquiredRecords"]
        ]
    in_turn = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    assert found == in_turn


def test_renewing_request_gets_no_records() -> None:
    bench = Shared()
    assert bench.share("a", 0, isRenewAck=True, maxBytes=1)["errorCode"] == 42
    nothing = {"minBytes": 0, "maxBytes": 0, "maxRecords": 0}
    bench.fetch("a")
    assert bench.share("a", 1, isRenewAck=True, **nothing)["errorCode"] == 0


def test_partitions_without_acknowledgements_are_in_the_response_beside_others() -> None:
    # compared with Apache Kafka 4.3.1
    bench = Shared()
    bench.fetch("a")
    request: dict[str, Any] = {"groupId": GROUP, "memberId": "a", "isRenewAck": False}

    def result(epoch: int, given: dict[int, list[Any]]) -> list[tuple[int, int]]:
        body = request | {"shareSessionEpoch": epoch, "topics": places(bench, given)}
        response = bench.request("SHARE_ACKNOWLEDGE", 2, body)
        return [
            (each["partitionIndex"], each["errorCode"])
            for topic in response["responses"]
            for each in topic["partitions"]
        ]

    assert result(1, {0: [], 1: []}) == []
    assert result(2, {1: [], 0: [batch(0, 0, 1)]}) == [(1, 0), (0, 0)]
    assert result(3, {1: [], 0: [batch(5, 3, 1)]}) == [(0, 42)]
    assert result(4, {2: [], 0: [batch(2, 2, 1)], 9: []}) == [(2, 0), (0, 0), (9, 3)]


@pytest.mark.parametrize(
    "given",
    [
        [batch(0, 2, 1, 1)],
        [batch(0, 2, 1, 1, 1, 1)],
        [batch(0, 2)],
        [batch(0, 2, -1)],
        [batch(0, 2, 5)],
        [batch(0, 2, 4)],
        [batch(1, 2, 1), batch(0, 0, 1)],
    ],
    ids=["too few", "too many", "none", "below", "unknown", "renewal", "descending"],
)
def test_invalid_acknowledgements_change_nothing(given: list[Any]) -> None:
    """One type for all records, or one for each; renewals need the flag."""
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    assert bench.acknowledge("a", *given) == 42
    assert bench.acknowledge("a", batch(0, 2, 1, 2, 1)) == 0
    assert bench.fetch("b") == [(1, 1, 2)]


def test_last_record_of_a_batch_is_returned_with_its_batch() -> None:
    bench = Shared()
    bench.append("foo", header(2))
    shown = []
    for epoch in range(4):
        response = bench.share("a", epoch, maxRecords=1, shareAcquireMode=1)
        (result,) = response["responses"][0]["partitions"]
        shown.append((got(response), [each["baseOffset"] for each in result["batches"]]))
    assert shown == [([(n, n, 1)], [0 if n < 3 else 3]) for n in range(4)]


def test_unknown_acquire_mode_and_deleted_topics_in_a_final_request() -> None:
    # compared with Apache Kafka 4.3.1
    bench = Shared()
    assert got(bench.share("a", 0, shareAcquireMode=7)) == -1
    assert got(bench.share("a", 1)) == [(0, 2, 1)]
    gone = [{"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "partitions": []}]
    assert got(bench.share("a", 2, topics=gone)) == -1
    assert got(bench.share("a", -1, topics=gone)) == []
    assert got(bench.share("a", 3)) == NO_SESSION


def test_records_fetched_beside_a_deleted_topic_are_acquired() -> None:
    """Kafka fails in the response, after the acknowledgements."""
    bench = Shared()
    bench.share("a", 0, maxRecords=1, shareAcquireMode=1)
    here = {"partitionIndex": 0, "acknowledgementBatches": [batch(0, 0, 2)]}
    topics = [
        {"topicId": bench.ids["foo"], "partitions": [here]},
        {"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "partitions": []},
    ]
    assert got(bench.share("a", 1, topics=topics)) == -1
    assert bench.fetch("b") == [(0, 0, 2)], "the released records; the rest was fetched"


def test_partitions_have_the_order_of_a_scala_map() -> None:
    # compared with Apache Kafka 4.3.1
    ids = {"shared": "QoislpHATHaIQ3khUxQUZg", "parted": "RKjIAFaJQruOB22gGkKTtw"}
    ids |= {"split": "mT7F5Y7AQqK3q0NwW9hsbQ"}
    requests = [("shared", 0), ("shared", 1), ("parted", 0), ("split", 0)]
    ordered = result_order.fetched({(ids[name], number): name for name, number in requests})
    named = {ident: name for name, ident in ids.items()}
    found = [(named[topic_id], number) for topic_id, number in ordered]
    assert found == [("split", 0), ("shared", 0), ("shared", 1), ("parted", 0)]


def test_error_message_of_a_share_coordinator_is_returned() -> None:
    bench = Shared()
    bench.fetch("a")
    bench.beat("z", -1)
    at = {"partitionIndex": 0, "startOffset": 0}
    body = {"groupId": GROUP, "topics": [{"topicName": "foo", "partitions": [at]}]}
    assert bench.request("ALTER_SHARE_GROUP_OFFSETS", 0, body)["errorCode"] == 0
    response = bench.share("a", 1, 0, batch(0, 2, 1))
    (result,) = response["responses"][0]["partitions"]
    assert result["acknowledgeErrorCode"] == 6
    assert result["acknowledgeErrorMessage"].startswith("Error in write state RPC. The share coord")


def test_pending_fetch_omits_a_partition_that_has_moved() -> None:
    bench = Shared(brokers=(1, 2))
    bench.fetch("a")
    assert bench.fetch("a", 5_000) is None
    moved = {"name": "foo", "partitions": [{"partitionIndex": 0, "replicas": [2]}]}
    bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, {"timeoutMs": 1_000, "topics": [moved]})
    before = len(completed(bench))
    bench.tick(5_000)
    responses = completed(bench)
    assert len(responses) == before + 1, "the wait ended at once"
    assert responses[-1]["response"]["responses"] == []
    partition = bench.share("a", 2)["responses"][0]["partitions"][0]
    assert (partition["errorCode"], partition["currentLeader"]["leaderId"]) == (6, 2)


# Released records


def released() -> tuple[Shared, int]:
    """`b` is pending, `a` releases records; return the number of responses."""
    bench = Shared()
    bench.append("foo", header(2))
    assert bench.fetch("a") == [(0, 4, 1)]
    assert bench.fetch("b", 60_000) is None
    count = len(completed(bench))
    assert bench.acknowledge("a", batch(1, 3, 2)) == 0
    assert len(completed(bench)) == count
    return bench, count


@pytest.mark.parametrize(("given", "code"), [((4, 4, 1), 0), ((4, 4, 2), 0), ((1, 1, 1), 121)])
def test_next_acknowledgement_wakes_pending_fetches(given: tuple[int, ...], code: int) -> None:
    """Whatever its result; the records it releases are not available yet."""
    bench, count = released()
    assert bench.acknowledge("a", batch(*given)) == code
    assert [got(each["response"]) for each in completed(bench)[count:]] == [[(1, 3, 2)]]


def test_pending_fetch_comes_before_a_fetch_with_acknowledgements() -> None:
    bench, count = released()
    one = {"maxRecords": 1, "batchSize": 1, "shareAcquireMode": 1}
    assert got(bench.share("a", 2, 0, batch(4, 4, 1), **one)) == []
    assert got(completed(bench)[count]["response"]) == [(1, 3, 2)]


@pytest.mark.parametrize("ends", [Shared.lose, lambda bench, member: bench.share(member, -1)])
def test_closing_a_session_wakes_pending_fetches(ends: Callable[[Shared, str], Any]) -> None:
    bench, count = released()
    ends(bench, "a")
    assert got(completed(bench)[count]["response"]) == [(1, 3, 2)]
    assert bench.fetch("b") == [(0, 0, 2), (4, 4, 2)]


def test_fetch_wakes_others_before_its_released_records_are_available() -> None:
    bench = Shared()
    assert bench.share("y", 0, 100, topics=places(bench, {1: []})) is None
    bench.tick(100)
    bench.append("foo", header(3), partition=1)
    assert got(bench.share("a", 0, topics=places(bench, {0: [], 1: []}))) == [(0, 2, 1), (0, 2, 1)]
    assert bench.share("b", 0, 60_000) is None
    assert bench.share("c", 0, 60_000, topics=places(bench, {1: []})) is None
    count = len(completed(bench))
    assert got(bench.share("a", 1, maxRecords=0, topics=places(bench, {0: [batch(0, 2, 2)]}))) == []
    one = {"maxRecords": 1, "batchSize": 1, "shareAcquireMode": 1}
    assert got(bench.share("a", 2, topics=places(bench, {1: [batch(0, 2, 2)]}), **one)) == [
        (0, 0, 2)
    ]
    responses = [got(each["response"]) for each in completed(bench)[count:]]
    assert responses == [[], [(1, 2, 2)], [(0, 0, 2)]], "c is still pending"


ONE = {"maxRecords": 1, "batchSize": 1, "shareAcquireMode": 1}


def test_woken_fetches_get_distinct_records_once() -> None:
    """One of them is disconnected and releases its records."""
    bench = Shared()
    bench.append("foo", header(2))
    assert bench.fetch("a") == [(0, 4, 1)]
    assert bench.share("l", 0) is not None
    assert bench.share("b", 0) is not None
    for member in ("l", "b"):
        assert bench.share(member, 1, 60_000, **ONE) is None
    count = len(completed(bench))
    assert bench.acknowledge("a", batch(1, 3, 2)) == 0
    bench.lose("l")
    reported = [each for each in completed(bench)[count:] if got(each["response"]) == [(2, 2, 2)]]
    assert len(reported) == 1, [got(each["response"]) for each in completed(bench)[count:]]
    assert bench.fetch("z2") == [(1, 1, 3), (3, 3, 2)]


def test_any_number_of_lost_members_release_their_records() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    members = [f"m{number}" for number in range(130)]
    for member in members:
        assert bench.share(member, 0) is not None
        assert bench.share(member, 1, 60_000, **ONE) is None
    for member in members:
        assert bench.lose(member) == []
    bench.append("foo", header(300))
    assert bench.dead_letters(bench.last) == []
    assert check.check(bench.cell) == []


def test_records_released_by_an_acknowledgement_are_not_for_fetches_that_it_wakes() -> None:
    bench = Shared()
    bench.append("foo", header(2))
    assert bench.fetch("a") == [(0, 4, 1)]
    for member in ("b", "c"):
        assert bench.share(member, 0, 60_000, **ONE) is None
    count = len(completed(bench))
    assert bench.acknowledge("a", batch(1, 1, 2)) == 0
    assert bench.acknowledge("a", batch(3, 4, 2)) == 0
    assert [got(each["response"]) for each in completed(bench)[count:]] == [[(1, 1, 2)]]
