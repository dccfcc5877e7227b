"""Data checks of a live audit's rows: real ones are good, and each planted violation is found."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.streaming.checks import checked_live, suites
from brokertwin.streaming.checks import snapshot_checks as checks
from tests.streaming.live.test_operator import audited, lines_of
from tests.support import audits

RECORDINGS = ("group_kp", "txn_loop_ck", "txn_fencing_ck")
KEY = "key, keyOfValues"
Rows = Mapping[str, Mapping[bytes, bytes | None]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """The rows of state topics after some captures, each of another cluster."""
    found: dict[str, dict[bytes, bytes | None]] = {}
    for recording in RECORDINGS:
        (path,) = audits.RECORDINGS[recording]
        lines = [each._replace(cluster=recording) for each in lines_of(path, 1)]
        for topic, own in audited(lines, 5).rows.items():
            found.setdefault(topic, {}).update(own)
    return found


def unmet(rows: Rows, kind: str) -> set[str]:
    def read(topic: str) -> list[TopicRow]:
        return [
            TopicRow(0, offset, 0, key, value, "")
            for offset, (key, value) in enumerate(rows[topic].items())
        ]

    found = checked_live.of_kind(kind, read)
    assert found
    frame = checks.frame_of(found, checked_live.columns(kind))
    return {", ".join(each.columns) for each in checks.check(frame, suites.OF_LIVE[kind]).findings}


@pytest.mark.parametrize("kind", suites.OF_LIVE)
def test_rows_of_a_live_audit_meet_every_expectation(rows: Rows, kind: str) -> None:
    assert unmet(rows, kind) == set()


PLANTED: list[tuple[str, dict[str, Any], set[str]]] = [
    ("sessions", {"session_id": 0}, {"session_id", KEY}),
    ("sessions", {"epoch": 0}, {"epoch"}),
    ("producers", {"producer_id": -1}, {"producer_id", KEY}),
    ("producers", {"epoch": -1}, {"epoch"}),
    ("producers", {"last_sequence": 10**6}, {"last_of_batches, last_sequence"}),
    ("producers", {f"batch_{n}": None for n in range(1, 6)}, {"batches"}),
    ("producer-ids", {"state": "closed"}, {"state"}),
    ("groups", {"members": -1}, {"members"}),
    ("groups", {"offsets": -1}, {"offsets"}),
    ("offsets", {"offset": -1}, {"offset"}),
    ("offsets", {"partition": -1}, {"partition", KEY}),
    ("offsets", {"topic": "t" * 250}, {"topic", KEY}),
    ("offsets", {"cluster": None}, {"cluster", KEY}),
]


@pytest.mark.parametrize(("kind", "values", "columns"), PLANTED)
def test_a_planted_violation_is_found(
    rows: Rows, kind: str, values: dict[str, Any], columns: set[str]
) -> None:
    topic = checked_live.TABLES[kind].name
    key, value = next((key, value) for key, value in rows[topic].items() if value is not None)
    wrong = msgspec.json.encode({**msgspec.json.decode(value), **values})
    assert unmet({**rows, topic: {**rows[topic], key: wrong}}, kind) == columns


def test_a_gap_between_batches_is_found(rows: Rows) -> None:
    for key, value in rows["producers"].items():
        row = msgspec.json.decode(value or b"{}")
        if row["batch_2"] is not None:
            row["batch_1"]["last_sequence"] += 1
            wrong = {**rows["producers"], key: msgspec.json.encode(row)}
            assert unmet({**rows, "producers": wrong}, "producers") == {
                "sequence_after_1, first_sequence_2"
            }
            return
    raise AssertionError("no producer with two batches")


def test_a_producer_id_of_two_transactional_ids_is_found(rows: Rows) -> None:
    key, value = next((k, v) for k, v in rows["transactions"].items() if v is not None)
    twin, row = msgspec.json.decode(key), msgspec.json.decode(value)
    twin["transactional_id"] = row["transactional_id"] = "twin"
    added = {msgspec.json.encode(twin): msgspec.json.encode(row)}
    wrong = {**rows, "transactions": {**rows["transactions"], **added}}
    assert unmet(wrong, "producer-ids") == {"cluster, producer_id"}
