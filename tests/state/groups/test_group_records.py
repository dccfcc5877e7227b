"""Decoding of group records of a real `__consumer_offsets`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.primitives import uuid_of
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import (
    AssignmentRow,
    ClassicRow,
    EpochRow,
    GroupRowMember,
    MemberRow,
    OffsetRow,
    OtherRow,
)
from tests.support.offset_rows import (
    assignment_row,
    classic_row,
    epoch_row,
    member_row,
    offset_row,
)

RAW_ID = bytes(range(16))

MALFORMED = "too early|bytes are there|without a kind|before its epoch|length -"


@pytest.mark.parametrize("version", range(5))
def test_classic_group_of_each_version(version: int) -> None:
    key, value = classic_row("g", 7, {"m": {"orders": [0, 2]}}, version)
    member = GroupRowMember("m", None, "client", "/h", frozenset({("orders", 0), ("orders", 2)}))
    assert group_records.decode(key, value) == ClassicRow("g", 7, (member,))


def test_assignments_of_other_protocols_are_not_decoded() -> None:
    key, value = classic_row("connect", 1, {"m": {}}, 3, protocol_type="connect")
    row = group_records.decode(key, value)
    assert isinstance(row, ClassicRow)
    assert row.members[0].owned is None


def test_rows_of_a_consumer_group() -> None:
    decoded = [
        group_records.decode(*epoch_row("g", 4)),
        group_records.decode(*member_row("g", "m")),
        group_records.decode(*assignment_row("g", "m", 4, {RAW_ID: [1]})),
    ]
    assert decoded == [
        EpochRow("g", 4),
        MemberRow("g", "m", GroupRowMember("m", None, "client", "/h", frozenset())),
        AssignmentRow("g", "m", 4, frozenset({(uuid_of(RAW_ID), 1)})),
    ]


@pytest.mark.parametrize(
    ("row", "reported"),
    [
        (classic_row("g", 7, {}), ClassicRow("g", None, ())),
        (epoch_row("g", 4), EpochRow("g", None)),
        (member_row("g", "m"), MemberRow("g", "m", None)),
        (assignment_row("g", "m", 4, {}), AssignmentRow("g", "m", -1, None)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_null_value_is_a_tombstone(row: tuple[bytes, bytes], reported: group_records.Row) -> None:
    assert group_records.decode(row[0], None) == reported


def test_other_record_types_are_ignored() -> None:
    assert group_records.decode(struct.pack(">h", 12) + b"whatever", b"") == OtherRow(12)


def test_offset_is_decoded() -> None:
    row = group_records.decode(*offset_row("g", "orders", 1, 9))
    assert isinstance(row, OffsetRow)
    assert row.value is not None
    assert (row.key.group, row.key.topic, row.key.partition, row.value.offset) == (
        *("g", "orders", 1, 9),
    )


@pytest.mark.parametrize("version", range(5))
def test_truncated_group_is_rejected_at_any_length(version: int) -> None:
    key, value = classic_row("g", 7, {"m": {"orders": [0]}}, version)
    for end in range(len(value)):
        with pytest.raises(ValueError, match=MALFORMED):
            group_records.decode(key, value[:end])


@given(kind=st.sampled_from([0, 1, 2, 3, 5, 8, 9]), key=st.binary(max_size=20), value=st.binary())
def test_random_bytes_are_decoded_or_rejected(kind: int, key: bytes, value: bytes) -> None:
    try:
        group_records.decode(struct.pack(">h", kind) + key, value)
    except ValueError:
        return
