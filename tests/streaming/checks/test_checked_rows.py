"""Rows of the data checks: without repeats, with gaps and decreases."""

from typing import Any

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.state.core import outputs
from brokertwin.streaming.checks import checked_rows, suites
from brokertwin.streaming.checks.checked_rows import OVERDUE_MS
from tests.support.machine import START, Bench, header
from tests.support.state_items import something_of_every_kind


def rows_of(bench: Bench, topic: str) -> list[TopicRow]:
    """Return the output rows of a bench's cell for a topic."""
    given = [row for row in bench.rows if row.topic == topic]
    return [TopicRow(0, n, START + n, row.key, row.value, row.id) for n, row in enumerate(given)]


def record(number: int, **fields: Any) -> TopicRow:
    entry = {"machine": 1, "time": START, "eventId": "r", "record": fields}
    return TopicRow(0, number, START, b"a", msgspec.json.encode(entry), f"a/0/{number}/0")


def batch(number: int, base_offset: int, sequence: int = -1, count: int = 2) -> TopicRow:
    fields = {"baseOffset": base_offset, "lastOffsetDelta": count - 1, "baseSequence": sequence}
    fields |= {"producerId": 7, "producerEpoch": 0}
    return record(number, type="BatchAppended", topicId="T", partition=0, batch=fields)


def commit(number: int, offset: int) -> TopicRow:
    place = {"groupId": "g", "topic": "t", "partition": 0}
    return record(number, type="OffsetCommitted", offset=offset, **place)


def group(number: int, generation: int, members: int = 1) -> TopicRow:
    known = {"generation": generation, "members": [{}] * members}
    key = {"type": "GroupMetadataKey", "group": "g"}
    return record(number, type="GroupRecord", key=key, value=known)


def found(name: str, *rows: TopicRow) -> list[Any]:
    return [row[name] for row in checked_rows.records(rows)]


def test_a_cells_rows_have_no_gap_and_the_suites_columns() -> None:
    bench = something_of_every_kind()
    for number in range(3):
        bench.append("orders", header(2, 9, 0, 2 * number), partition=0)
    flat = checked_rows.records(rows_of(bench, outputs.RECORDS))
    assert {row[name] for row in flat for name in checked_rows.DISTANCES} == {0}
    assert "ProducerIdIssued" in {row["type"] for row in flat}
    assert tuple(flat[0]) == suites.COLUMNS["records"]
    committed = checked_rows.offsets(rows_of(bench, outputs.offsets_topic("bench")), "bench")
    assert [tuple(row) for row in committed] == [suites.COLUMNS["offsets"]]
    assert (committed[0]["groupId"], committed[0]["committedOffset"]) == ("g", 3)
    responses = checked_rows.responses(rows_of(bench, outputs.RESPONSES), [])
    assert tuple(responses[0]) == suites.COLUMNS["responses"]
    assert {row["requests"] for row in responses} == {0}


def test_gaps_in_offsets_and_sequences_are_located() -> None:
    assert found("offsetGap", batch(0, 5), batch(1, 7), batch(2, 12), batch(3, 14)) == [0, 0, 3, 0]
    sequences = (batch(0, 0, 0), batch(1, 2, 2), batch(2, 4, 5))
    assert found("sequenceGap", *sequences) == [0, 0, 1]
    last = 2**31 - 1
    assert found("sequenceGap", batch(0, 0, last), batch(1, 2, 1)) == [0, 0]


def test_a_truncated_log_restarts_the_check() -> None:
    cut = record(1, type="LogTruncated", topicId="T", partition=0)
    assert found("offsetGap", batch(0, 5, 0), cut, batch(2, 5, 0)) == [0, 0, 0]
    assert found("sequenceGap", batch(0, 5, 0), cut, batch(2, 5, 0)) == [0, 0, 0]
    moved = record(1, type="HighWatermarkMoved", topicId="T", partition=0, highWatermark=1)
    assert found("offsetGap", batch(0, 5), moved, batch(2, 5)) == [0, 0, -2]
    expired = record(1, type="ProducersExpired")
    assert found("sequenceGap", batch(0, 0, 0), expired, batch(2, 2, 9)) == [0, 0, 0]


def test_a_commit_may_decrease_only_across_generations() -> None:
    assert found("committedBack", group(0, 1), commit(1, 9), commit(2, 4)) == [0, 0, 5]
    assert found("committedBack", group(0, 1), commit(1, 9), group(2, 2), commit(3, 4)) == [0] * 4
    assert found("committedBack", group(0, 1, 0), commit(1, 9), commit(2, 4)) == [0, 0, 0]


def high_watermark(number: int, value: int) -> TopicRow:
    return record(number, type="HighWatermarkMoved", topicId="T", partition=0, highWatermark=value)


def test_a_high_watermark_that_goes_back_is_located() -> None:
    assert found("highWatermarkBack", *map(high_watermark, range(3), (5, 7, 4))) == [0, 0, 3]
    cut = record(1, type="LogTruncated", topicId="T", partition=0)
    assert found("highWatermarkBack", high_watermark(0, 5), cut, high_watermark(2, 4)) == [0, 0, 0]


def issued(number: int, producer_id: int, cell: bytes = b"a") -> TopicRow:
    return record(number, type="ProducerIdIssued", producerId=producer_id)._replace(key=cell)


def block(number: int, first: int) -> TopicRow:
    return record(number, type="ProducerIdBlockReceived", first=first, size=1000)


def test_a_producer_id_that_is_given_twice_is_located() -> None:
    """By any broker of the cluster, in whatever order; blocks are counted apart from ids."""
    ids = [issued(n, each) for n, each in enumerate((0, 2000, 1, 2, 2000, 1))]
    assert found("idsGivenBefore", *ids) == [0, 0, 0, 0, 1, 1]
    assert found("idsGivenBefore", issued(0, 7), issued(1, 7, b"b")) == [0, 0]
    assert found("idsGivenBefore", block(0, 0), issued(1, 7), block(2, 2000), block(3, 1000)) == [
        *(0, 0, 0, 0)
    ]
    assert found("idsGivenBefore", block(0, 0), block(1, 2000), block(2, 500)) == [0, 0, 500]
    assert found("idsGivenBefore", block(0, 500), block(1, 2000), block(2, 1200)) == [0, 0, 500]


def event(name: str, at: int) -> TopicRow:
    document = {"id": name, "cluster": "a", "broker": 1, "requestHeader": {"requestApiKey": 3}}
    return TopicRow(0, at, START + at, b"a", msgspec.json.encode(document), name)


def response(name: str, at: int, error: str | None = None) -> TopicRow:
    document = {"id": name, "cluster": "a", "broker": 1, "responseTime": 1, "error": error}
    return TopicRow(0, at, START + at, None, msgspec.json.encode(document), name)


def test_responses_are_counted_and_missing_ones_become_overdue() -> None:
    requests = [event("x", 0), event("y", 1), event("z", OVERDUE_MS)]
    once, late = response("x", 2), response("w", OVERDUE_MS + 2)
    flat = checked_rows.requests(requests, [once, once, response("x", 3, "other"), late])
    assert [(row["answers"], row["isOverdue"]) for row in flat] == [
        (2, False),
        (0, True),
        (0, False),
    ]
    assert tuple(flat[0]) == suites.COLUMNS["requests"]
    reported = checked_rows.responses([once, once, late], requests)
    assert [(row["id"], row["requests"]) for row in reported] == [("x", 1), ("w", 0)]
    changed = response(f"{outputs.BROKER_CHANGES}x", 4)
    assert checked_rows.responses([changed], requests) == []
