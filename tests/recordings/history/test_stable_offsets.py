"""The transaction that holds back the last stable offset of a partition."""

import pytest

from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.stable_offsets import (
    PRODUCES_MAX,
    StableOffset,
    TransactionInPartition,
)


def exchange(
    at: int, api: str, request: dict[str, object], response: dict[str, object]
) -> RecordedExchange:
    line = RecordedRequest(f"x:{at}", at, at, 1, "c", "", "c", api, 9)
    return RecordedExchange(line, request, response)


def write(stable: StableOffset, offset: int, name: str = "tx") -> None:
    body = {"transactionalId": name, "producerId": 7}
    stable.written(exchange(offset, "PRODUCE", body, {"offset": offset}))


def fetch(stable: StableOffset, offset: int, watermark: int) -> TransactionInPartition | None:
    """Fetch, and return the transaction that holds back consumers."""
    found = {"lastStable": offset, "highWatermark": watermark}
    request = {"readsCommitted": True}
    assert not list(stable.fetched(exchange(watermark, "FETCH", request, found), "orders", 0))
    return stable.holder


@pytest.mark.parametrize("is_seen_between", [False, True])
def test_without_markers_a_producers_next_transaction_is_found(is_seen_between: bool) -> None:
    """A capture has no WriteTxnMarkers; the LSO shows that the first transaction has ended."""
    stable = StableOffset()
    write(stable, 0)
    if is_seen_between:
        assert fetch(stable, 2, 2) is None
    write(stable, 2)
    write(stable, 3)
    holder = fetch(stable, 2, 4)
    assert holder is not None
    assert holder.line.place == "x:2"


def test_an_offset_between_two_produces_has_no_known_transaction() -> None:
    stable = StableOffset()
    write(stable, 0)
    write(stable, 4)
    assert fetch(stable, 3, 5) is None


def test_markers_end_all_that_a_producer_wrote() -> None:
    stable = StableOffset()
    write(stable, 0)
    write(stable, 2)
    marker = exchange(3, "WRITE_TXN_MARKERS", {"producerIds": [7]}, {})
    assert not list(stable.marked(marker, KnownFacts(producers={7: "tx"})))
    assert (stable.open, stable.later) == ({}, {})


def test_the_produces_of_a_long_transaction_are_bounded() -> None:
    stable = StableOffset()
    for offset in range(10 * PRODUCES_MAX):
        write(stable, offset)
    assert len(stable.later["tx"]) == PRODUCES_MAX
