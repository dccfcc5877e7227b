"""Followers open privileged fetch sessions at their leaders (seed 000, KIP-227)."""

from typing import Any

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import FollowedPartition, ReplicaFetch, ReplicaResponse
from brokertwin.state.fetch.fetch_session import EVICTION_MS
from brokertwin.state.replication import copying
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import ItemKind, Row
from tests.support.machine import CLUSTER, Bench, header
from tests.support.replicas import Replicas


def rows(bench: Bench, kind: ItemKind, **wanted: Any) -> list[Row]:
    found = state_rows.rows(kind, {CLUSTER: bench.cell.columns()})
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def sessions(bench: Bench, **wanted: Any) -> list[Row]:
    return rows(bench, ItemKind.SESSIONS, **wanted)


def topic(bench: Bench, name: str, brokers: list[int], partitions: int) -> None:
    wanted = {"name": name, "numPartitions": -1, "replicationFactor": -1}
    wanted["assignments"] = [{"partitionIndex": p, "brokerIds": brokers} for p in range(partitions)]
    bench.request("CREATE_TOPICS", 7, topics=[wanted], timeoutMs=30_000)


def test_each_follower_has_a_privileged_session_at_its_leader() -> None:
    replicas = Replicas((1, 2, 3))
    replicas.produce()
    found = sessions(replicas.bench)
    assert [(row["broker"], row["clientId"], row["isPrivileged"]) for row in found] == [
        (1, "broker-2-fetcher-0", True),
        (1, "broker-3-fetcher-0", True),
    ]
    assert [row["partitions"] for row in found] == [1, 1]


def test_each_fetcher_thread_has_a_session_with_all_its_partitions() -> None:
    bench = Bench((1, 2), num_replica_fetchers=4)
    topic(bench, "test", [1, 2], 8)
    for partition in range(4):
        bench.append("test", header(), partition=partition)
    actual = {row["clientId"]: row["partitions"] for row in sessions(bench)}
    assert actual == {f"broker-2-fetcher-{fetcher}": 2 for fetcher in range(4)}
    threads = sorted(row["thread"] for row in rows(bench, ItemKind.FETCHERS))
    assert threads == [f"ReplicaFetcherThread-{fetcher}-1" for fetcher in range(4) for _ in "ab"]


def test_session_shows_the_high_watermark_that_the_follower_got() -> None:
    """Seed 000; the log start is the follower's own."""
    replicas = Replicas((1, 2))
    replicas.produce(count=5)
    (found,) = rows(replicas.bench, ItemKind.SESSION_PARTITIONS)
    assert (found["fetchOffset"], found["highWatermark"]) == (5, 5)
    replicas.bench.request("DELETE_RECORDS", 2, name="orders", partitionIndex=0, offset=3)
    replicas.produce(count=2)
    (found,) = rows(replicas.bench, ItemKind.SESSION_PARTITIONS)
    assert (found["fetchOffset"], found["highWatermark"]) == (7, 7)
    assert found["fetcherLogStartOffset"] == 3


def test_epoch_advances_with_each_request_and_only_changed_partitions_are_named() -> None:
    bench = Bench((1, 2))
    topic(bench, "test", [1, 2], 3)
    bench.append("test", header(), partition=0)
    (before,) = sessions(bench)
    bench.append("test", header(), partition=2)
    (after,) = sessions(bench)
    assert after["sessionId"] == before["sessionId"]
    assert after["epoch"] > before["epoch"]
    found = rows(bench, ItemKind.SESSION_PARTITIONS)
    assert {row["partition"]: row["fetchOffset"] for row in found} == {0: 1, 1: 0, 2: 1}
    follower = Broker(2, bench.cell.tables, bench.settings, bench.now)
    known = follower.topic_by_name("test")
    assert known is not None
    response = ReplicaResponse(1, 2, [FollowedPartition(known.topic_id, 2, 1, 0)])
    (request,) = copying.next_fetches(follower, response).copies
    assert isinstance(request, ReplicaFetch)
    assert [(each.partition, each.fetch_offset) for each in request.partitions] == [(2, 1)]


def test_partition_leaves_the_session_with_its_leader() -> None:
    replicas = Replicas((1, 2, 3))
    topic(replicas.bench, "other", [1, 2], 1)
    replicas.produce()
    replicas.bench.append("other", header())
    assert [row["partitions"] for row in sessions(replicas.bench, broker=1)] == [2, 1]
    replicas.sever(1)
    replicas.end_sessions()
    replicas.rejoin(1)
    replicas.produce()
    assert sessions(replicas.bench, broker=1) == []
    led_by_2 = {row["clientId"]: row["partitions"] for row in sessions(replicas.bench, broker=2)}
    assert led_by_2 == {"broker-1-fetcher-0": 2, "broker-3-fetcher-0": 1}


def test_deleted_topic_leaves_the_session() -> None:
    replicas = Replicas((1, 2))
    replicas.produce()
    (one,) = sessions(replicas.bench)
    assert one["partitions"] == 1
    replicas.bench.request("DELETE_TOPICS", 6, topicId=replicas.topic_id, timeoutMs=1_000)
    assert sessions(replicas.bench) == []


def test_restarted_follower_opens_another_session_and_a_stopped_leader_loses_its_own() -> None:
    replicas = Replicas((1, 2))
    replicas.produce()
    (first,) = sessions(replicas.bench)
    replicas.stop(2)
    replicas.start(2)
    replicas.produce()
    found = sessions(replicas.bench, broker=1)
    assert len(found) == 2
    assert first["sessionId"] in [row["sessionId"] for row in found]
    replicas.stop(1)
    assert sessions(replicas.bench, broker=1) == []


def test_idle_follower_keeps_its_slot_from_consumers() -> None:
    """A follower here does not repeat a fetch without news, but it is not idle."""
    slots = {
        "max_incremental_fetch_session_cache_slots": 1,
        "brokertwin_fetch_session_cache_shards": 1,
    }
    replicas = Replicas((1, 2), Bench((1, 2), **slots))
    replicas.produce()
    (follower,) = sessions(replicas.bench)
    replicas.bench.now += 2 * EVICTION_MS
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body = {
        "sessionEpoch": 0,
        "maxBytes": 1000,
        "topics": [{"topicId": replicas.topic_id, "partitions": [partition]}],
    }
    assert replicas.bench.request("FETCH", 13, body)["sessionId"] == 0
    assert [row["sessionId"] for row in sessions(replicas.bench)] == [follower["sessionId"]]
