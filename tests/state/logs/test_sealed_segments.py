"""The topic `segments`: sealed segments are written to it, deleted ones get tombstones."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core import outputs
from brokertwin.state.logs import log as logs
from tests.support.machine import CLUSTER, Bench, header

CHUNK = 2
CHUNKS = 2


@pytest.fixture(autouse=True, scope="module")
def small_index() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "CHUNK_BATCHES_MAX", CHUNK)
        patch.setattr(logs, "INDEX_CHUNKS_MAX", CHUNKS)
        yield


def produce(bench: Bench, batches: int, partition: int = 0) -> None:
    for _ in range(batches):
        batch = header(size=100, locator="0:0:1")
        assert bench.append("a", batch, partition=partition)["errorCode"] == 0


def delete_below(bench: Bench, offset: int, partition: int = 0) -> None:
    response = bench.request(
        "DELETE_RECORDS", 2, name="a", partitionIndex=partition, offset=offset, timeoutMs=10000
    )
    assert response["topics"][0]["partitions"][0]["errorCode"] == 0


def compacted(bench: Bench) -> dict[tuple[str, int, int], list[dict[str, Any]]]:
    """Rows of the compacted topic by topic id, partition and base offset."""
    result = {}
    for row in bench.of(outputs.SEGMENTS):
        key = msgspec.json.decode(row.key or b"")
        assert key.pop("cluster") == CLUSTER
        place = (key["topicId"], key["partition"], key["baseOffset"])
        result.pop(place, None)
        if row.value is not None:
            result[place] = msgspec.json.decode(row.value)["batches"]
    return result


def test_segment_is_written_when_it_is_sealed() -> None:
    bench = Bench()
    topic_id = bench.topic("a")
    produce(bench, 5)
    (batches,) = compacted(bench).values()
    assert list(compacted(bench)) == [(topic_id, 0, 0)]
    assert [batch["baseOffset"] for batch in batches] == [0, 1]
    assert {batch["locator"] for batch in batches} == {"0:0:1"}


def test_segment_below_the_log_start_gets_a_tombstone() -> None:
    bench = Bench()
    bench.topic("a")
    produce(bench, 11)
    assert [base for _, _, base in compacted(bench)] == [0, 2, 4, 6]
    delete_below(bench, 5)
    assert [base for _, _, base in compacted(bench)] == [4, 6]
    delete_below(bench, 11)
    assert compacted(bench) == {}


def test_segments_of_a_deleted_topic_get_tombstones() -> None:
    bench = Bench()
    topic_id = bench.topic("a", partitions=2)
    produce(bench, 9)
    produce(bench, 7, partition=1)
    assert len(compacted(bench)) == 5
    bench.request("DELETE_TOPICS", 6, topicId=topic_id, timeoutMs=30000)
    assert compacted(bench) == {}
    (first, *others) = bench.of(outputs.SEGMENTS, bench.last)
    assert first.value is None
    assert len(others) == 4


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(produce), st.integers(1, 9)),
            st.tuples(st.just(delete_below), st.integers(0, 40)),
        ),
        max_size=12,
    )
)
def test_topic_has_exactly_the_segments_of_the_logs(steps: list[Any]) -> None:
    bench = Bench()
    topic_id = bench.topic("a")
    end = 0
    for step, number in steps:
        step(bench, number if step is produce else min(number, end))
        end += number if step is produce else 0
        named = logs.sealed_offsets(bench.cell.tables.of(1), topic_id, 0)
        assert {base for _, _, base in compacted(bench)} == named
