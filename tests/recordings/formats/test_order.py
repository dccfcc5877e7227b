"""Documents are sorted by time of arrival, outside of memory, and connections keep their order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.recordings.formats.order import ArrivalOrder, Sorter
from brokertwin.recordings.formats.pipeline import sort
from brokertwin.recordings.formats.summary import Summary
from tests.support.requestlogs import logs_of, read

DOCUMENTS = st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=40), st.booleans()))


@given(DOCUMENTS, st.sampled_from([1, 30, 10_000]))
def test_documents_are_sorted_by_time_and_position(
    documents: list[tuple[int, bytes, bool]], run_bytes: int
) -> None:
    with Sorter(run_bytes) as sorter:
        for time, document, mark in documents:
            sorter.add(time, document, mark)
        assert len(sorter) == len(documents)
        sorted_ones = [(entry.time, entry.document, entry.mark) for entry in sorter]
    assert sorted_ones == sorted(documents, key=lambda one: one[0])


@pytest.mark.parametrize(("size", "run_bytes"), [(700_000, 1), (100_000, 1_000_000)])
def test_documents_and_runs_larger_than_the_buffer_are_complete(size: int, run_bytes: int) -> None:
    large = [bytes([number]) * size for number in range(12)]
    with Sorter(run_bytes) as sorter:
        for number, document in enumerate(large):
            sorter.add(-number, document)
        assert [entry.document for entry in sorter] == large[::-1]


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 9))))
def test_a_connections_times_never_decrease(requests: list[tuple[str, int]]) -> None:
    arrivals = ArrivalOrder()
    given_times = [(name, arrivals.time(name, time)) for name, time in requests]
    for connection in "xy":
        times = [time for name, time in given_times if name == connection]
        assert times == sorted(times)
        requested = [time for name, time in requests if name == connection]
        assert all(kept >= time for kept, time in zip(times, requested, strict=True))


def test_several_brokers_logs_become_one_history_in_order_of_arrival() -> None:
    """Lines are in order of completion; requests that waited are far from where they arrived."""
    documents, _ = read(*logs_of("steady"))
    moved = [
        later.time < earlier.time
        for earlier, later in pairwise(documents)
        if earlier.source == later.source
    ]
    assert sum(moved) > 100
    with Sorter() as sorter:
        sort(documents, sorter, Summary())
        entries = list(sorter)
    times = [entry.time for entry in entries]
    assert times == sorted(times)
    lines: dict[tuple[int | None, str], list[int]] = {}
    by_place = {document.place: document for document in documents}
    for entry in entries:
        place = entry.document[entry.document.index(b'"id":"') + 6 :].split(b'"')[0].decode()
        document = by_place[place]
        key = (document.broker, document.connection)
        lines.setdefault(key, []).append(int(place.rpartition(":")[2]))
    assert all(numbers == sorted(numbers) for numbers in lines.values())
