"""Rows of `__consumer_offsets` in the bytes that a broker writes."""

import struct
from collections.abc import Iterable, Mapping, Sequence

from brokertwin.offsets.history import CoordinatorRow
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.state.core.records import OffsetCommitted
from brokertwin.state.groups import offset_records

HOUR_MS = 3_600_000


def written(rows: Iterable[tuple[bytes, bytes | None]], begin: int = 0) -> list[CoordinatorRow]:
    return [
        CoordinatorRow(0, offset, offset * HOUR_MS, key, value)
        for offset, (key, value) in enumerate(rows, begin)
    ]


def offset_row(
    group: str, topic: str, partition: int, offset: int, at: int = 0, topic_id: Uuid = ZERO_UUID
) -> tuple[bytes, bytes]:
    record = OffsetCommitted(group, topic, partition, offset, 0, "", at, -1, topic_id)
    return offset_records.committed(record)


def classic_row(
    group: str,
    generation: int,
    members: Mapping[str, Mapping[str, Sequence[int]]],
    version: int = 3,
    protocol_type: str = "consumer",
) -> tuple[bytes, bytes]:
    """A classic group with its members' partitions by topic."""
    is_flexible = version == 4
    out = struct.pack(">h", version) + _text(protocol_type, is_flexible)
    out += struct.pack(">i", generation)
    out += _text("range", is_flexible) + _text(next(iter(members), ""), is_flexible)
    if version >= 2:
        out += struct.pack(">q", 1)
    out += _count(len(members), is_flexible)
    for member, topics in members.items():
        out += _text(member, is_flexible)
        if version >= 3:
            out += b"\x00" if is_flexible else b"\xff\xff"
        out += _text("client", is_flexible) + _text("/h", is_flexible)
        out += struct.pack(">i", 1) * (2 if version >= 1 else 1)
        out += _count(0, is_flexible)
        assignment = _assignment(topics)
        out += _count(len(assignment), is_flexible) + assignment
        out += b"\x00" if is_flexible else b""
    out += b"\x00" if is_flexible else b""
    return _key(2, group), out


def epoch_row(group: str, epoch: int) -> tuple[bytes, bytes]:
    """A KIP-848 group has an epoch."""
    return _key(3, group), struct.pack(">hi", 0, epoch) + b"\x00"


def member_row(group: str, member: str) -> tuple[bytes, bytes]:
    """A KIP-848 member."""
    value = b"\x00\x00\x00\x00" + _text("client", True) + _text("/h", True)
    value += b"\x02" + _text("orders", True) + b"\x00" + struct.pack(">i", 1) + b"\x00\x00"
    return _key(5, group, member), value


def assignment_row(
    group: str, member: str, epoch: int, owned: Mapping[bytes, Sequence[int]]
) -> tuple[bytes, bytes]:
    """Return the partitions of a KIP-848 member, by the bytes of topic ids."""
    value = struct.pack(">hiib", 0, epoch, epoch - 1, 0) + _count(len(owned), True)
    for topic_id, numbers in owned.items():
        value += topic_id + _count(len(numbers), True)
        value += struct.pack(f">{len(numbers)}i", *numbers) + b"\x00"
    return _key(8, group, member), value + b"\x01\x00"


def _assignment(topics: Mapping[str, Sequence[int]]) -> bytes:
    out = struct.pack(">hi", 1, len(topics))
    for topic, numbers in topics.items():
        out += _text(topic, False) + struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)
    return out + struct.pack(">i", -1)


def _key(kind: int, *names: str) -> bytes:
    return struct.pack(">h", kind) + b"".join(_text(name, False) for name in names)


def _text(text: str, is_flexible: bool) -> bytes:
    encoded = text.encode()
    length = bytes([len(encoded) + 1]) if is_flexible else struct.pack(">h", len(encoded))
    return length + encoded


def _count(count: int, is_flexible: bool) -> bytes:
    return bytes([count + 1]) if is_flexible else struct.pack(">i", count)
