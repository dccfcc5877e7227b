"""Facts of clusters: event time, the span that a log covers, transactional ids and places."""

import msgspec

from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.streaming.live.facts import ALIVE_MS, ClusterFacts, FactRow, learned

NOW = 1_800_000_000_000


def read(facts: ClusterFacts, source: str, *spans: tuple[int, int, int], now: int = NOW) -> None:
    """Learn from one line for each broker, first ms and last ms."""
    exchanges = [
        RecordedExchange(
            RecordedRequest(f"{source}:1", first, last, broker, "c", "", "x", "FETCH", 13), {}, {}
        )
        for broker, first, last in spans
    ]
    for row in learned("shop", source, exchanges, facts, now):
        facts.add(encoded(row))


def encoded(row: FactRow) -> FactRow:
    """A row as the topic returns it."""
    return row._replace(value=msgspec.json.decode(msgspec.json.encode(row.value)))


def test_event_time_is_that_of_the_log_that_is_behind() -> None:
    facts = ClusterFacts()
    assert facts.event_time(NOW) == 0
    read(facts, "requests/0", (1, 100, 900), (2, 100, 400))
    assert facts.event_time(NOW) == 400
    read(facts, "requests/0", (1, 900, 2_000), now=NOW + ALIVE_MS)
    assert facts.event_time(NOW + ALIVE_MS) == 400
    read(facts, "requests/0", (1, 2_000, 3_000), now=NOW + ALIVE_MS + 1)
    assert facts.event_time(NOW + ALIVE_MS + 1) == 3_000, "no agent ships the log of broker 2"


def test_a_log_in_two_partitions_is_covered_where_both_are_read() -> None:
    facts = ClusterFacts()
    read(facts, "requests/0", (1, 100, 900))
    read(facts, "requests/1", (1, 200, 500))
    assert facts.known.is_covered(1, 200, 500)
    assert not facts.known.is_covered(1, 100, 500)
    assert not facts.known.is_covered(1, 200, 900)


def test_facts_are_written_once_and_in_any_order() -> None:
    body = {
        "groupId": "billing",
        "transactionalId": "tx",
        "producerId": 7,
        "producerEpoch": 0,
        "topics": [{"name": "orders", "partitions": [{"partitionIndex": 3}]}],
    }
    line = RecordedRequest("x:1", 1, 2, 1, "c", "", "x", "TXN_OFFSET_COMMIT", 3)
    rows = list(learned("shop", "x/0", [RecordedExchange(line, body, {})], ClusterFacts(), NOW))
    facts, reverse = ClusterFacts(), ClusterFacts()
    for row in [*rows, *rows]:
        facts.add(encoded(row))
    for row in reversed(rows):
        reverse.add(encoded(row))
    assert facts == reverse
    assert facts.known.producers == {7: "tx"}
    assert [*facts.known.places[7]] == [("billing", "orders", 3)]
    again = learned("shop", "x/0", [RecordedExchange(line, body, {})], facts, NOW)
    assert [each.what for each in again] == ["span"]
