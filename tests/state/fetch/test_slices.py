"""The slices of the session cache: eight today, one in the seed (spec: the option `shards=1`)."""

from typing import Any

import pytest

from brokertwin.state.cell.check import check
from brokertwin.state.core.errors import Error
from brokertwin.state.fetch.slices import Slices
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
    """The id of the session that the answer names; 0 for none."""
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body: dict[str, Any] = {"maxWaitMs": 0, "sessionId": session_id, "sessionEpoch": epoch}
    body["topics"] = [{"topic": "t", "partitions": [partition]}]
    found: int = bench.request("FETCH", 12, body)["sessionId"]
    return found


@pytest.mark.parametrize(("shards", "is_made"), [(8, False), (1, True)])
def test_where_the_room_is_whole_nobody_is_turned_away_while_some_is_left(
    shards: int, is_made: bool
) -> None:
    """Eight clients come, the third goes: the ninth's turn is that of the first slice."""
    bench = bench_of(shards)
    sessions = [fetch(bench) for _ in range(SLOTS)]
    assert all(sessions)
    fetch(bench, sessions[2], epoch=-1)
    assert bool(fetch(bench)) == is_made


def test_in_one_slice_lies_every_id() -> None:
    one = Slices(1000, 1)
    assert (one.room, one.id_range) == (1000, IDS)
    assert {one.slice_of(each) for each in (1, 268_435_455, IDS - 1)} == {0}
    sessions = [fetch(bench_of(1)) for _ in range(3)]
    assert all(1 <= each < IDS for each in sessions)


def test_one_slice_has_as_many_sessions_as_the_cache_has_slots() -> None:
    bench = bench_of(1, slots=30)
    assert all(fetch(bench) for _ in range(30))
    assert fetch(bench) == 0, "nobody is old enough to be evicted"


def test_a_cache_keeps_the_slices_with_which_it_has_begun() -> None:
    bench = bench_of(8)
    sessions = [fetch(bench) for _ in range(3)]
    bench.settings.broker_settings.brokertwin_fetch_session_cache_shards = 1
    assert all(sessions)
    fetch(bench, sessions[1], epoch=-1)
    assert fetch(bench)
    assert check(bench.cell) == []


def error_of(bench: Bench, session_id: int, epoch: int) -> int:
    body = {"maxWaitMs": 0, "sessionId": session_id, "sessionEpoch": epoch, "topics": []}
    found: int = bench.request("FETCH", 13, body)["errorCode"]
    return found


@pytest.mark.parametrize(("epoch", "known"), [(-1, 0), (0, 0), (1, 70)])
@pytest.mark.parametrize("shards", [8, 1])
def test_an_id_that_no_slice_has_is_a_server_error(shards: int, epoch: int, known: int) -> None:
    """Eight ranges end before the greatest id does, and Java rounds -1 in ranges up to 0."""
    bench = bench_of(shards)
    end = IDS // shards * shards
    for session_id in (1, -1, 1 - IDS // shards, end - 1):
        assert error_of(bench, session_id, epoch) == known
    for session_id in (-(IDS // shards), -IDS - 1, end, IDS):
        assert error_of(bench, session_id, epoch) == Error.UNKNOWN_SERVER_ERROR
