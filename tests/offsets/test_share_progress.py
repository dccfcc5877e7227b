"""Progress of share groups, from the rows of a real `__share_group_state`.

Written by Kafka 4.3.1: of ten records three were released, three rejected, two released twice, two
accepted, in six runs of `kafka-console-share-consumer`. Afterwards
`kafka-share-groups --describe --offsets` showed START-OFFSET 4, LAG 5.
"""

import pytest

from brokertwin.offsets.history import CoordinatorRow
from brokertwin.offsets.share_progress import ShareKey, ShareProgress, lag
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateBatch

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
KEY = "0007736861726572731f6a074a8c8f4c52b5a5dcb49fd6f48b00000000"
VALUES = [
    "0000000000000000000200000000ffffffffffffffff000001a20cf4cf4c000001a20cf4cf4c0100",
    "00000000000000000000000000000000000002000000000000000000000000000000020000010001000400000000",
    "00000000000000000000000000000000000002000000000000000300000000000000090000010001000400000000",
    "00000000000000000000000000000000000002000000000000000000000000000000020400020001000400000003",
    "00000000000000000000000000000000000302000000000000000300000000000000090000020001000400000000",
    "00000000000000000000000000000000000302000000000000000300000000000000040000030001000400000000",
    "00000000000000000000000000000000000302000000000000000500000000000000090000030001000400000000",
    "00000000000000000000000000000000000302000000000000000300000000000000030000040001000400000000",
    "00000000000000000000000000000000000302000000000000000400000000000000040000040001000400000000",
    "00000000000000000000000000000000000302000000000000000300000000000000030200050001000400000001",
    "00000000000000000000000000000000000402000000000000000400000000000000040200050001000400000001",
]
"""A snapshot and ten updates; each key starts with its kind."""

NOTES = ShareKey("sharers", "H2oHSoyPTFK1pdy0n9b0iw", 0)


def row(place: int, value: str | None, kind: int) -> CoordinatorRow:
    return CoordinatorRow(
        6, place, 0, bytes.fromhex(f"{kind:04x}{KEY}"), value and bytes.fromhex(value)
    )


def after(count: int) -> ShareProgress:
    progress = ShareProgress()
    for place, value in enumerate(VALUES[:count]):
        progress.take(row(place, value, min(place, 1)))
    assert progress.unread == {}
    return progress


def test_final_state_equals_that_of_kafkas_tool() -> None:
    found = after(len(VALUES)).found[NOTES]
    assert found.start_offset == 4
    assert lag(found, end_offset=10) == 5
    assert found.batches == [
        ShareStateBatch(4, 4, ACKNOWLEDGED, 5),
        ShareStateBatch(5, 9, AVAILABLE, 3),
    ]


@pytest.mark.parametrize(
    ("count", "start", "batches"),
    [
        (1, -1, []),
        (2, 0, [ShareStateBatch(0, 2, AVAILABLE, 1)]),
        (3, 0, [ShareStateBatch(0, 9, AVAILABLE, 1)]),
        (4, 0, [ShareStateBatch(0, 2, ARCHIVED, 2), ShareStateBatch(3, 9, AVAILABLE, 1)]),
        (5, 3, [ShareStateBatch(3, 9, AVAILABLE, 2)]),
    ],
)
def test_each_row_has_the_changes(count: int, start: int, batches: list[ShareStateBatch]) -> None:
    found = after(count).found[NOTES]
    assert (found.start_offset, found.batches) == (start, batches)


def test_lag_is_unknown_without_a_start_offset() -> None:
    """A group that has not read yet, and one from before Kafka 4.2, which does not count."""
    assert lag(after(1).found[NOTES], 10) is None
    assert lag(ShareSnapshot(0, 0, 3, -1), 10) is None


def test_update_without_its_snapshot_is_applied_to_an_empty_state() -> None:
    progress = ShareProgress()
    progress.take(row(4, VALUES[4], 1))
    found = progress.found[NOTES]
    assert (found.start_offset, found.batches) == (3, [ShareStateBatch(3, 9, AVAILABLE, 2)])


def test_tombstone_removes_the_state() -> None:
    progress = after(3)
    progress.take(row(3, None, 0))
    assert progress.found == {}


@pytest.mark.parametrize("value", [VALUES[0][:-2], VALUES[0] + "00", "0001" + VALUES[0][4:]])
def test_unreadable_row_is_reported_and_changes_nothing(value: str) -> None:
    progress = after(3)
    before = progress.found[NOTES]
    progress.take(row(3, value, 0))
    assert progress.unread.keys() == {(6, 3)}
    assert progress.found == {NOTES: before}


def test_rows_of_other_kinds_are_ignored() -> None:
    progress = ShareProgress()
    progress.take(row(0, VALUES[0], 7))
    assert (progress.found, progress.unread) == ({}, {})
