"""Record batches: made for requests, valid or broken, and shown from responses.

Source: KIP-98; `DefaultRecordBatch`, `DefaultRecord` in Kafka.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crc32c import crc32c

from brokertwin.protocol import compression
from brokertwin.protocol.primitives import read_varint, write_varint
from brokertwin.protocol.record_batches import HEADER, HEADER_BYTES, LOG_OVERHEAD

CODEC_MASK, APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
CHECKED_FROM = 21
FLAGS = ((TRANSACTIONAL, "txn"), (CONTROL, "control"), (APPEND_TIME, "logAppendTime"))
MARKERS = {0: "ABORT", 1: "COMMIT"}
LEFT_OUT = 9
"""Bytes of a batch from its leader epoch to its CRC."""

SHOWN_MAX = 60
"""Longer values are shown by their size."""

BROKERS_PREFIX = b"__"
"""Beginning of the names of headers that a broker adds."""


def made(
    *,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    time: int,
    step: int = 0,
    pid: int = -1,
    epoch: int = -1,
    seq: int = -1,
    txn: bool = False,
    control: bool = False,
    base: int = 0,
    magic: int = 2,
    attributes: int = 0,
    codec: str = "none",
    leader_epoch: int = -1,
    count: int | None = None,
    last_delta: int | None = None,
    has_bad_crc: bool = False,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> bytes:
    """Return a batch.

    Args:
        values: the records' values; None is a tombstone.
        keys: the records' keys; None for records without keys.
        time: of the first record, in ms since 1970.
        step: ms between records.
        pid: producer id; -1: not idempotent.
        epoch: producer epoch.
        seq: base sequence.
        txn: the batch is transactional.
        control: the batch has control records.
        base: base offset.
        magic: format; only 2 is a valid batch.
        attributes: further attribute bits.
        codec: compression.
        leader_epoch: partition leader epoch.
        count: number of records in the header, if it is wrong.
        last_delta: last offset delta in the header, if it is wrong.
        has_bad_crc: the checksum is wrong.
        headers: of each record.
    """
    records = b"".join(
        _record(place, place * step, keys[place] if keys else None, value, headers)
        for place, value in enumerate(values)
    )
    number = len(values)
    bits = attributes | compression.NAMES.index(codec)
    bits |= (TRANSACTIONAL if txn else 0) | (CONTROL if control else 0)
    tail = struct.pack(
        ">hiqqqhii",
        bits,
        number - 1 if last_delta is None else last_delta,
        time,
        time + (number - 1) * step,
        pid,
        epoch,
        seq,
        number if count is None else count,
    )
    tail += compression.compress(codec, records) if codec != "none" else records
    crc = crc32c(tail) ^ (0xFFFF if has_bad_crc else 0)
    return struct.pack(">qiibI", base, len(tail) + LEFT_OUT, leader_epoch, magic, crc) + tail


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _record(
    offset: int,
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes]],
) -> bytes:
    out = bytearray(b"\0") + _varint(delta) + _varint(offset)
    for part in (key, value):
        out += _varint(-1) if part is None else _varint(len(part)) + part
    out += _varint(len(headers))
    for name, held in headers:
        out += _varint(len(name)) + name + _varint(len(held)) + held
    return _varint(len(out)) + bytes(out)


def shown(data: bytes) -> list[dict[str, Any]]:
    """Return the complete batches of a record set, with their records as text."""
    records, at = [], 0
    while at + HEADER_BYTES <= len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        end = at + LOG_OVERHEAD + size
        if end > len(data) or end < at + HEADER_BYTES:
            break
        records.append(_shown(data[at:end]))
        at = end
    return records


def _shown(batch: bytes) -> dict[str, Any]:
    base, _, leader_epoch, magic, crc, bits, last, first, greatest, pid, epoch, seq, count = (
        HEADER.unpack_from(batch)
    )
    header: dict[str, Any] = {
        "baseOffset": base,
        "lastOffset": base + last,
        "magic": magic,
        "partitionLeaderEpoch": leader_epoch,
        "producerId": pid,
        "producerEpoch": epoch,
        "baseSequence": seq,
        "baseTimestamp": first,
        "maxTimestamp": greatest,
        "flags": [name for mask, name in FLAGS if bits & mask],
        "isCrcValid": crc32c(batch[CHECKED_FROM:]) == crc,
    }
    codec = bits & CODEC_MASK
    if codec:
        header["codec"] = compression.NAMES[codec] if codec < len(compression.NAMES) else codec
    else:
        header["records"] = _texts(batch, base, count, bool(bits & CONTROL))
    return header


def committed_values(response: Any) -> list[str]:
    """Return the values of the records that a read_committed consumer shows."""
    partition = response["responses"][0]["partitions"][0]
    begins = sorted(
        (each["firstOffset"], each["producerId"])
        for each in partition.get("abortedTransactions") or ()
    )
    aborted: set[int] = set()
    lines = []
    for batch in shown(partition["records"] or b""):
        while begins and begins[0][0] <= batch["lastOffset"]:
            aborted.add(begins.pop(0)[1])
        if "control" in batch["flags"]:
            if batch["records"] == ["ABORT"]:
                aborted.discard(batch["producerId"])
        elif not ("txn" in batch["flags"] and batch["producerId"] in aborted):
            lines += [record.partition(":")[2] for record in batch["records"]]
    return lines


def _texts(batch: bytes, base: int, count: int, is_control: bool) -> list[str]:
    texts, at = [], HEADER_BYTES
    try:
        for _ in range(count):
            size, at = read_varint(batch, at)
            end = at + size
            _, at = read_varint(batch, at + 1)
            delta, at = read_varint(batch, at)
            key, at = _part(batch, at)
            value, at = _part(batch, at)
            text = _marker(key) if is_control else _text(base + delta, key, value)
            texts.append(text + "".join(_brokers_headers(batch, at)))
            at = end
    except (IndexError, struct.error):
        texts.append("unreadable")
    return texts


def _brokers_headers(batch: bytes, at: int) -> Iterator[str]:
    """Yield the headers of dead letters, whose names clients do not use."""
    count, at = read_varint(batch, at)
    for _ in range(count):
        name, at = _part(batch, at)
        value, at = _part(batch, at)
        if name and name.startswith(BROKERS_PREFIX):
            yield f" {name.decode('latin1')}={(value or b'').decode('latin1')}"


def _part(batch: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(batch, at)
    return (None, at) if size < 0 else (batch[at : at + size], at + size)


def _marker(key: bytes | None) -> str:
    return MARKERS.get(struct.unpack_from(">h", key, 2)[0], "?") if key else "?"


def _text(offset: int, key: bytes | None, value: bytes | None) -> str:
    held = "null" if value is None else value.decode("latin1")
    if len(held) >= SHOWN_MAX:
        held = f"({len(held)} bytes)"
    return f"{offset}:{key.decode('latin1') + '=' if key else ''}{held}"


def from_fields(fields: Mapping[str, Any], time: int) -> bytes:
    """Return the batch that an expression describes.

    Args:
        fields: arguments of `made`, and `number` in place of values, `at` in place of a time.
        time: the scenario's time in ms, to which `at` is added.
    """
    given = dict(fields)
    number = given.pop("number", 1)
    values = given.pop("values", None) or [b"v%d" % place for place in range(number)]
    at = time + given.pop("at", 0)
    return made(values=values, time=given.pop("time", at), **given)
