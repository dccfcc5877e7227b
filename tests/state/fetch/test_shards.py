"""Shards of the session cache: eight in Kafka, one in the seed (`shards=1`)."""

from itertools import pairwise
from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.check import check
from brokertwin.state.fetch.shards import ShardLayout
from tests.support.machine import Bench

SLOTS = 8
IDS = 2**31 - 1


def bench_of(shards: int, slots: int = SLOTS) -> Bench:
    bench = Bench(
        brokertwin_fetch_session_cache_shards=shards,
        max_incremental_fetch_session_cache_slots=slots,
    )
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1}
    bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
    return bench


def fetch(bench: Bench, session_id: int = 0, epoch: int = 0) -> int:
    """Session id of the response; 0 for none."""
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body: dict[str, Any] = {"maxWaitMs": 0, "sessionId": session_id, "sessionEpoch": epoch}
    body["topics"] = [{"topic": "t", "partitions": [partition]}]
    result: int = bench.request("FETCH", 12, body)["sessionId"]
    return result


@pytest.mark.parametrize(("shards", "is_made"), [(8, False), (1, True)])
def test_one_shard_rejects_no_session_while_there_is_room(shards: int, is_made: bool) -> None:
    """Of eight clients the third leaves; the ninth's turn is the first shard."""
    bench = bench_of(shards)
    sessions = [fetch(bench) for _ in range(SLOTS)]
    assert all(sessions)
    fetch(bench, sessions[2], epoch=-1)
    assert bool(fetch(bench)) == is_made


def test_one_shard_has_every_id() -> None:
    one = ShardLayout(1000, 1)
    assert (one.room, one.id_range) == (1000, IDS)
    assert {one.shard_of(each) for each in (1, 268_435_455, IDS - 1)} == {0}
    bench = bench_of(1)
    sessions = [fetch(bench) for _ in range(SLOTS)]
    assert all(1 <= each < IDS for each in sessions)
    spread = [abs(each - next_one) for each, next_one in pairwise(sessions)]
    assert min(spread) > 1000, "a client cannot guess another's id"


def test_one_shard_has_all_slots_of_the_cache() -> None:
    bench = bench_of(1, slots=30)
    assert all(fetch(bench) for _ in range(30))
    assert fetch(bench) == 0, "no session is old enough to be evicted"


def test_cache_keeps_its_number_of_shards() -> None:
    bench = bench_of(8)
    sessions = [fetch(bench) for _ in range(3)]
    bench.settings.broker_settings.brokertwin_fetch_session_cache_shards = 1
    assert all(sessions)
    fetch(bench, sessions[1], epoch=-1)
    assert fetch(bench)
    assert check(bench.cell) == []


def error_of(bench: Bench, session_id: int, epoch: int) -> int:
    body = {"maxWaitMs": 0, "sessionId": session_id, "sessionEpoch": epoch, "topics": []}
    error_code: int = bench.request("FETCH", 13, body)["errorCode"]
    return error_code


@pytest.mark.parametrize(("epoch", "known"), [(-1, 0), (0, 0), (1, 70)])
@pytest.mark.parametrize("shards", [8, 1])
def test_id_outside_of_all_shards_is_a_server_error(shards: int, epoch: int, known: int) -> None:
    """Eight ranges end before the greatest id, and Java rounds -1 in ranges up to 0."""
    bench = bench_of(shards)
    end = IDS // shards * shards
    for session_id in (1, -1, 1 - IDS // shards, end - 1):
        assert error_of(bench, session_id, epoch) == known
    for session_id in (-(IDS // shards), -IDS - 1, end, IDS):
        assert error_of(bench, session_id, epoch) == Error.UNKNOWN_SERVER_ERROR
