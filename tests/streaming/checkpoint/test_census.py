"""Counts of a state's objects from its columns."""

from brokertwin.streaming.checkpoint.census import Shrunk, census
from tests.support.groups import GroupBench
from tests.support.machine import CLUSTER, Bench
from tests.support.replicas import TOPIC, Replicas
from tests.support.state_items import something_of_every_kind


def test_an_empty_state_has_zero_counts() -> None:
    found = census({CLUSTER: Bench().cell.columns()})
    assert (found.groups, found.sessions, found.partitions, found.shrunk) == ({}, 0, 0, [])


def test_groups_sessions_transactions_and_producers_are_counted() -> None:
    bench = GroupBench()
    bench.stable("one")
    bench.request("INIT_PRODUCER_ID", 4, {"transactionalId": "tx", "transactionTimeoutMs": 60_000})
    bench.request("FETCH", 12, maxWaitMs=0, minBytes=0, sessionId=0, sessionEpoch=0, topics=[])
    found = census({CLUSTER: bench.cell.columns()})
    assert found.groups == {"Stable": 1}
    assert (found.sessions, found.producers, found.waiting) == (1, 0, 0)
    assert found.partitions == 2 + 1, "those of the topic and of __consumer_offsets"
    assert (found.under_replicated, found.offline) == (0, 0)


def test_partitions_without_leader_or_in_sync_replicas_are_listed() -> None:
    replicas = Replicas()
    replicas.stop(3)
    found = census({CLUSTER: replicas.bench.cell.columns()})
    assert (found.partitions, found.under_replicated, found.offline) == (1, 1, 0)
    assert found.shrunk == [Shrunk(CLUSTER, TOPIC, 0, 1, [1, 2, 3], [1, 2])]
    replicas.stop(2)
    replicas.stop(1)
    found = census({CLUSTER: replicas.bench.cell.columns()})
    assert (found.under_replicated, found.offline) == (1, 1)
    assert found.shrunk[0].leader == -1


def test_lags_are_signed_and_offsets_beyond_the_log_end_are_counted() -> None:
    bench = something_of_every_kind()
    body = {"groupId": "h", "generationIdOrMemberEpoch": -1, "memberId": ""}
    for group, offset in (("g", 1), ("h", 10)):
        partition = {"partitionIndex": 1, "committedOffset": offset}
        topics = [{"name": "orders", "partitions": [partition]}]
        bench.request("OFFSET_COMMIT", 8, {**body, "groupId": group, "topics": topics})
    found = census({CLUSTER: bench.cell.columns()})
    assert (found.lags, found.beyond_log_end) == ({"g": 2, "h": -7}, 1)
