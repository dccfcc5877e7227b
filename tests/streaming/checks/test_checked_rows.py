"""Rows of the data checks: without repeats, with gaps and decreases."""

from typing import Any

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.protocol.generated.group_rows import GroupMetadataKey
from brokertwin.state.core import outputs
from brokertwin.streaming.checks import checked_rows, suites
from brokertwin.streaming.checks.suites import OVERDUE_MS
from tests.support.machine import START, Bench, header
from tests.support.state_items import something_of_every_kind


def rows_of(bench: Bench, topic: str) -> list[TopicRow]:
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


def pairs(one: str, other: str, *rows: TopicRow) -> list[tuple[Any, Any]]:
    return [(row[one], row[other]) for row in checked_rows.records(rows)]


OFFSETS = ("expectedOffset", "baseOffset")
SEQUENCES = ("expectedSequence", "baseSequence")
COMMITS = ("committedBefore", "committedOffset")


def test_a_cells_rows_have_no_gap_and_the_suites_columns() -> None:
    bench = something_of_every_kind()
    for number in range(3):
        bench.append("orders", header(2, 9, 0, 2 * number), partition=0)
    flat = checked_rows.records(rows_of(bench, outputs.RECORDS))
    for one, other in (OFFSETS, SEQUENCES):
        known = [(row[one], row[other]) for row in flat if row[one] is not None]
        assert known
        assert all(expected == value for expected, value in known)
    assert {row["idGivenBefore"] for row in flat} == {None}
    assert "ProducerIdIssued" in {row["type"] for row in flat}
    assert tuple(flat[0]) == suites.COLUMNS["records"]
    committed = checked_rows.offsets(rows_of(bench, outputs.offsets_topic("bench")), "bench")
    assert [tuple(row) for row in committed] == [suites.COLUMNS["offsets"]]
    assert (committed[0]["groupId"], committed[0]["committedOffset"]) == ("g", 3)
    responses = checked_rows.responses(rows_of(bench, outputs.RESPONSES), [])
    assert tuple(responses[0]) == suites.COLUMNS["responses"]
    assert {row["requestTimestamp"] for row in responses} == {None}


def test_rows_of_groups_are_no_committed_offsets() -> None:
    group_row = TopicRow(0, 0, START, GroupMetadataKey("g").encoded(), b"\0\3" + bytes(40), "a")
    foreign = [TopicRow(0, n, START, key, b"y", "b") for n, key in enumerate((b"x", b"\x7f\x7fx"))]
    rows = checked_rows.offsets([group_row, *foreign], "bench")
    assert [(row["offset"], row["groupId"]) for row in rows] == [(0, None), (1, None)]


def test_gaps_in_offsets_and_sequences_are_located() -> None:
    offsets = pairs(*OFFSETS, batch(0, 5), batch(1, 7), batch(2, 12), batch(3, 14))
    assert offsets == [(None, 5), (7, 7), (9, 12), (14, 14)]
    sequences = (batch(0, 0, 0), batch(1, 2, 2), batch(2, 4, 5))
    assert pairs(*SEQUENCES, *sequences) == [(None, 0), (2, 2), (4, 5)]
    last = 2**31 - 1
    assert pairs(*SEQUENCES, batch(0, 0, last), batch(1, 2, 1)) == [(None, last), (1, 1)]


def test_a_truncated_log_restarts_the_check() -> None:
    cut = record(1, type="LogTruncated", topicId="T", partition=0)
    assert found("expectedOffset", batch(0, 5, 0), cut, batch(2, 5, 0)) == [None] * 3
    assert found("expectedSequence", batch(0, 5, 0), cut, batch(2, 5, 0)) == [None] * 3
    moved = record(1, type="HighWatermarkMoved", topicId="T", partition=0, highWatermark=1)
    assert pairs(*OFFSETS, batch(0, 5), moved, batch(2, 5))[2] == (7, 5)
    expired = record(1, type="ProducersExpired")
    assert found("expectedSequence", batch(0, 0, 0), expired, batch(2, 2, 9)) == [None] * 3


def test_a_commit_may_decrease_only_across_generations() -> None:
    assert pairs(*COMMITS, group(0, 1), commit(1, 9), commit(2, 4))[1:] == [(None, 9), (9, 4)]
    later = pairs(*COMMITS, group(0, 1), commit(1, 9), group(2, 2), commit(3, 4))
    assert later[3] == (None, 4)
    assert pairs(*COMMITS, group(0, 1, 0), commit(1, 9), commit(2, 4))[2] == (None, 4)


def high_watermark(number: int, value: int) -> TopicRow:
    return record(number, type="HighWatermarkMoved", topicId="T", partition=0, highWatermark=value)


def test_a_high_watermark_that_goes_back_is_located() -> None:
    rows = [high_watermark(n, value) for n, value in enumerate((5, 7, 4))]
    assert found("highWatermarkBefore", *rows) == [None, 5, 7]
    cut = record(1, type="LogTruncated", topicId="T", partition=0)
    rows[1:2] = [cut]
    assert found("highWatermarkBefore", *rows) == [None, None, None]


def issued(number: int, producer_id: int, cell: bytes = b"a") -> TopicRow:
    return record(number, type="ProducerIdIssued", producerId=producer_id)._replace(key=cell)


def block(number: int, first: int) -> TopicRow:
    return record(number, type="ProducerIdBlockReceived", first=first, size=1000)


def test_a_producer_id_that_is_given_twice_is_located() -> None:
    """By any broker of the cluster, in whatever order; blocks are counted apart from ids."""
    ids = [issued(n, each) for n, each in enumerate((0, 2000, 1, 2, 2000, 1))]
    assert found("idGivenBefore", *ids) == [None, None, None, None, 2000, 1]
    assert found("idGivenBefore", issued(0, 7), issued(1, 7, b"b")) == [None, None]
    blocks = (block(0, 0), issued(1, 7), block(2, 2000), block(3, 1000))
    assert found("idGivenBefore", *blocks) == [None] * 4
    assert found("idGivenBefore", block(0, 0), block(1, 2000), block(2, 500))[2] == 500
    assert found("idGivenBefore", block(0, 500), block(1, 2000), block(2, 1200))[2] == 1200


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
    assert [(row["responses"], row["pendingMs"]) for row in flat] == [
        (2, None),
        (0, OVERDUE_MS + 1),
        (0, 2),
    ]
    assert tuple(flat[0]) == suites.COLUMNS["requests"]
    reported = checked_rows.responses([once, once, late], requests)
    assert [(row["id"], row["requestTimestamp"]) for row in reported] == [("x", START), ("w", None)]
    changed = response(f"{outputs.BROKER_CHANGES}x", 4)
    assert checked_rows.responses([changed], requests) == []
