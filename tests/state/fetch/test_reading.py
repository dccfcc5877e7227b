"""Reads that a session makes unnecessary, and sessions kept in memory."""

import random
from collections import Counter
from itertools import compress
from typing import Any

import pytest
from msgspec.structs import replace

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.apis import fetch as fetch_api
from brokertwin.state.apis.fetch import Fetch
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Request
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch import places, reading
from brokertwin.state.fetch.fetch_session import NewSession, SessionCache, is_news
from brokertwin.state.fetch.places import FetchPlace, opened
from brokertwin.state.fetch.reading import PartitionRead, ReadLimits
from brokertwin.state.fetch.session_items import FetchPartition
from brokertwin.state.fetch.shards import SHARDS, ShardLayout
from tests.support.histories import seeded
from tests.support.machine import Bench, header

REQUESTED = FetchPartition(ZERO_UUID, "t", 0, 0, 1000, -1, -1, -1)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Read the partitions of a session without it, too; count the omitted ones."""
    real, seen = reading.read_all, Counter[bool]()

    def both(
        broker: Broker, read: list[FetchPlace], limits: ReadLimits
    ) -> tuple[list[PartitionRead], list[str]]:
        keys = [place.key for place in read]
        for place in read:
            place.key = ""
        whole, nothing = real(broker, read, limits)
        for place, key in zip(read, keys, strict=True):
            place.key = key
        actual, quiet = real(broker, read, limits)
        left_out = [
            bool(place.key)
            and limits.replica_id < 0
            and each.is_quiet
            and not is_news(place.cached, each)
            for place, each in zip(read, whole, strict=True)
        ]
        seen.update(is_out for place, is_out in zip(read, left_out, strict=True) if place.key)
        assert nothing == []
        assert quiet == [each.identity for each in compress(whole, left_out)]
        assert actual == [each for each, is_out in zip(whole, left_out, strict=True) if not is_out]
        return actual, quiet

    monkeypatch.setattr(reading, "read_all", both)
    return seen


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Check each partition as if for the first time; count repeated ones."""
    real, let_in = fetch_api._screen, Counter[bool]()

    def both(
        broker: Broker, request: Request, fetch: Fetch, fetch_places: list[FetchPlace], *given: Any
    ) -> None:
        before = [place.topic for place in fetch_places]
        real(broker, request, fetch, fetch_places, *given)
        actual = [_lies(place) for place in fetch_places]
        for place, topic in zip(fetch_places, before, strict=True):
            if place in fetch.places:
                let_in[topic is not None and place.topic is topic] += 1
            place.topic = None
        afresh = replace(fetch, places=[], refused=[])
        real(broker, request, afresh, fetch_places, *given)
        assert (afresh.places, afresh.refused) == (fetch.places, fetch.refused)
        assert [_lies(place) for place in fetch_places] == actual

    monkeypatch.setattr(fetch_api, "_screen", both)
    return let_in


def _lies(place: FetchPlace) -> tuple[Any, ...]:
    cached = place.cached
    return place.topic, place.topic_id, place.log, cached.requested.topic, cached.watched_log


def test_omitted_partitions_have_no_news(seen: Counter[bool], let_in: Counter[bool]) -> None:
    for seed in (4, 5, 13):
        story = seeded(seed, 150)
        cell = Cell(story.settings)
        for offset, document in enumerate(story.documents):
            cell.handle(document, Position(0, offset))
    assert seen[True] > 10 and seen[False] > 50
    assert let_in[True] > 30 and let_in[False] > 50


def test_no_news_is_omitted_when_logs_and_requests_change(seen: Counter[bool]) -> None:
    """Both isolation levels, transactions, and deletions from the log start."""
    source, bench, session_id, ends = random.Random(5), Bench(), 0, [0] * 4
    bench.topic("a", 4)
    for epoch in range(300):
        partition = source.randrange(4)
        if source.random() < 0.3:
            own = {"isTransactional": True, "producerId": 7, "producerEpoch": 0}
            fields = own if source.random() < 0.3 else {}
            result = bench.append("a", header(1, **fields), partition=partition)
            ends[partition] += result["errorCode"] == 0
        elif source.random() < 0.2:
            bench.request(
                "DELETE_RECORDS", 2, name="a", partitionIndex=partition, offset=-1, timeoutMs=1000
            )
        named = [
            {
                "partition": p,
                "fetchOffset": ends[p] - source.choice((0, 0, 0, 1)),
                "partitionMaxBytes": 99,
            }
            for p in range(4)
            if epoch == 0 or source.random() < 0.3
        ]
        response = bench.request(
            "FETCH",
            12,
            maxBytes=1 << 20,
            isolationLevel=int(source.random() < 0.1),
            sessionId=session_id,
            sessionEpoch=epoch,
            topics=[{"topic": "a", "partitions": named}] if named else [],
        )
        assert response is not None and response["errorCode"] == 0
        session_id = response["sessionId"]
    assert seen[True] > 50 and seen[False] > 100


def test_rejected_partition_is_checked_again_until_it_exists(let_in: Counter[bool]) -> None:
    bench, codes, session_id = Bench(), [], 0
    bench.topic("a", 1)
    wanted = {"topic": "a", "partitions": [{"partition": 1, "partitionMaxBytes": 99}]}
    for epoch in range(5):
        if epoch == 4:
            more = [{"name": "a", "count": 2, "assignments": None}]
            bench.request("CREATE_PARTITIONS", 3, {"topics": more, "timeoutMs": 1000})
        body = {"sessionId": session_id, "sessionEpoch": epoch, "maxBytes": 1 << 20}
        response = bench.request("FETCH", 12, {**body, "topics": [] if epoch else [wanted]})
        assert response is not None
        session_id = response["sessionId"]
        parts = [part for topic in response["responses"] for part in topic["partitions"]]
        codes += [part["errorCode"] for part in parts]
    assert codes == [3, 3, 3, 3, 0]


def session(table: Table, session_id: int) -> SessionCache:
    cache = SessionCache(table, 1, ShardLayout(SHARDS), 0)
    new = NewSession("app", False, False, "nonce", session_id)
    cache.create(new, [reading.refused(REQUESTED, REQUESTED.identity, 3)])
    return cache


def test_session_in_memory_ends_with_its_item() -> None:
    table = Table()
    session(table, 7)
    before = opened(table, 1, 7)
    assert before is not None and before is opened(table, 1, 7)
    for key in table.keys("1/"):  # like a broker that stops
        table.drop(key)
    assert opened(table, 1, 7) is None
    session(table, 7)
    after = opened(table, 1, 7)
    assert after is not None and after is not before


def test_closed_session_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "OPENED_MAX", 0)
    table = Table()
    session(table, 7).remove(7)
    assert opened(table, 1, 7) is None
    assert not any(table.derived.values())
