"""Record sets: header facts sent to the machine, and bytes returned to readers."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from brokertwin.protocol import compression
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import render
from brokertwin.protocol.compression import DecompressionError
from brokertwin.protocol.errors import Error
from tests.support.batches import CODECS, START, batch

CRC, ATTRIBUTES, LAST_DELTA, MAX_TIMESTAMP, COUNT = 17, 21, 23, 35, 57


def with_crc(data: bytearray) -> bytes:
    struct.pack_into(">I", data, CRC, calc_crc32c(bytes(data[ATTRIBUTES:])))
    return bytes(data)


def changed(data: bytes, position: int, form: str, value: int) -> bytes:
    """Return the batch with a changed header field and a valid CRC."""
    patched = bytearray(data)
    struct.pack_into(form, patched, position, value)
    return with_crc(patched)


def placed(base_offset: int, epoch: int, max_timestamp: int) -> Batch:
    return Batch(
        base_offset=base_offset,
        last_offset_delta=0,
        partition_leader_epoch=epoch,
        max_timestamp=max_timestamp,
    )


def headers(found: records.RecordSet) -> list[dict[str, Any]]:
    return [render(each, 0) for each in found.batches]


@pytest.mark.parametrize("codec", CODECS)
def test_produced_batch_is_described_by_its_header(codec: str) -> None:
    values = [word * 100 for word in (b"one", b"two", b"three")]
    data = batch(*values, codec=codec, producer=(7, 2, 11))
    found = records.parse(data)
    (header,) = headers(found)
    assert (found.error, found.data, found.size_in_bytes) == (Error.NONE, data, len(data))
    assert header == {
        "baseOffset": 0,
        "lastOffsetDelta": 2,
        "producerId": 7,
        "producerEpoch": 2,
        "baseSequence": 11,
        "partitionLeaderEpoch": header["partitionLeaderEpoch"],
        "baseTimestamp": START,
        "maxTimestamp": START + 2,
        "sizeInBytes": len(data),
        "recordCount": 3,
        "magic": 2,
        "compressionType": codec,
        "isTransactional": False,
        "isControl": False,
        "crc": struct.unpack_from(">I", data, CRC)[0],
        "greatestDelta": 2,
    }


@pytest.mark.parametrize("data", [None, b"", b"\0" * 11])
def test_missing_batch_is_no_error_at_the_edge(data: bytes | None) -> None:
    assert records.parse(data) == records.RecordSet(len(data or b""), [], Error.NONE, None)


@given(st.integers(0, 8 * len(batch(b"one", b"two")) - 1))
@settings(deadline=None)
def test_every_flipped_bit_is_detected(bit: int) -> None:
    """Except in base offset and leader epoch, which the CRC does not cover."""
    data = bytearray(batch(b"one", b"two"))
    data[bit // 8] ^= 1 << bit % 8
    found = records.parse(bytes(data))
    if bit // 8 < 8:
        assert found.batches[0].base_offset != 0
    elif not 12 <= bit // 8 < 16:
        assert found.error or len(found.batches) != 1 or found.batches[0].magic != 2


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_without_an_exception(data: bytes) -> None:
    assert records.parse(data).size_in_bytes == len(data)


@given(st.binary(max_size=60), st.sampled_from(sorted(CODECS)))
@settings(deadline=None)
def test_any_records_after_a_valid_header_are_parsed_without_an_exception(
    tail: bytes, codec: str
) -> None:
    header = bytearray(batch(b"one", codec="none")[: records.HEADER_BYTES]) + tail
    struct.pack_into(">i", header, 8, len(header) - records.LOG_OVERHEAD)
    struct.pack_into(">h", header, ATTRIBUTES, CODECS[codec])
    assert records.parse(with_crc(header)).error in {
        Error.NONE,
        Error.INVALID_RECORD,
        Error.UNKNOWN_SERVER_ERROR,
    }


@pytest.mark.parametrize(("byte", "magic"), [(3, 3), (255, -1)])
def test_unknown_magic_of_the_first_batch_is_corrupt(byte: int, magic: int) -> None:
    data = bytearray(batch(b"one"))
    data[16] = byte
    described = Batch(base_offset=0, last_offset_delta=0, magic=magic, size_in_bytes=len(data))
    actual = records.parse(bytes(data))
    assert actual == records.RecordSet(len(data), [described], Error.CORRUPT_MESSAGE, None)
    assert records.parse(batch(b"two") + bytes(data)).batches == []


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_impossible_batch_size_is_corrupt(size: int) -> None:
    data = bytearray(batch(b"one"))
    struct.pack_into(">i", data, 8, size)
    assert records.parse(bytes(data)).error == Error.CORRUPT_MESSAGE


def test_batch_shorter_than_its_header_is_corrupt() -> None:
    data = bytearray(batch(b"one")[:40])
    struct.pack_into(">i", data, 8, 40 - records.LOG_OVERHEAD)
    assert records.parse(bytes(data)).error == Error.CORRUPT_MESSAGE


def test_partial_batch_at_the_end_is_skipped() -> None:
    data = batch(b"one")
    assert len(records.parse(data + data[:30]).batches) == 1
    assert records.parse(data[:-1]).batches == []


def test_two_batches_are_described_as_two() -> None:
    assert len(records.parse(batch(b"one") * 2).batches) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda data: changed(changed(data, COUNT, ">i", 3), LAST_DELTA, ">i", 2),
        lambda data: changed(changed(data, COUNT, ">i", 1), LAST_DELTA, ">i", 0),
        lambda data: changed(data, records.HEADER_BYTES, ">B", 0x7E),
        lambda data: changed(data, records.HEADER_BYTES, ">B", 0x01),
    ],
    ids=["more records than there are", "fewer", "a record too long", "of negative size"],
)
def test_undecodable_records_are_invalid(change: Callable[[bytes], bytes]) -> None:
    found = records.parse(change(batch(b"one", b"two")))
    assert found.error == Error.INVALID_RECORD


def test_inconsistent_record_count_is_left_to_the_machine() -> None:
    found = records.parse(changed(batch(b"one", b"two"), COUNT, ">i", 5))
    assert (found.error, found.batches[0].record_count) == (Error.NONE, 5)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_an_unknown_server_error(codec: int) -> None:
    found = records.parse(changed(batch(b"one"), ATTRIBUTES, ">h", codec))
    assert found.error == Error.UNKNOWN_SERVER_ERROR
    assert found.batches[0].compression_type == "unknown"


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_wrongly_compressed_records_are_an_unknown_server_error(codec: str) -> None:
    plain = changed(batch(b"one" * 9), ATTRIBUTES, ">h", CODECS[codec])
    assert records.parse(plain).error == Error.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", CODECS)
def test_max_timestamp_is_corrected(codec: str) -> None:
    times = [START, START + 50, START + 20]
    data = batch(b"one" * 100, b"two", b"three", codec=codec, timestamps=times)
    found = records.parse(changed(data, MAX_TIMESTAMP, ">q", START + 999))
    assert found.error == Error.NONE
    assert found.batches[0].max_timestamp == START + 50
    assert found.data == data


@given(
    base_offset=st.integers(0, 2**62),
    epoch=st.integers(0, 2**31 - 1),
    codec=st.sampled_from(sorted(CODECS)),
)
@settings(deadline=None)
def test_reader_gets_bytes_with_the_log_offset(base_offset: int, epoch: int, codec: str) -> None:
    data = batch(b"one", b"two", codec=codec)
    place = placed(base_offset, epoch, START + 1)
    stored = records.as_stored(data, place)
    assert stored[16:] == data[16:]
    assert stored[8:12] == data[8:12]
    read = MemoryRecords(bytes(stored)).next_batch()
    assert read.validate_crc()
    assert [record.offset for record in read] == [base_offset, base_offset + 1]


def test_log_append_time_is_set_with_a_valid_crc() -> None:
    place = placed(5, 0, START + 12_345)
    stored = records.as_stored(batch(b"one", b"two"), place)
    read = MemoryRecords(bytes(stored)).next_batch()
    assert read.validate_crc()
    actual = [(record.timestamp, record.timestamp_type) for record in read]
    assert actual == [(START + 12_345, 1)] * 2


def test_log_append_time_may_be_the_greatest_timestamp() -> None:
    place = placed(5, 0, START)
    place.has_append_time = True
    read = records.as_stored(batch(b"one"), place)
    (record,) = MemoryRecords(bytes(read)).next_batch()
    assert (record.timestamp, record.timestamp_type) == (START, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_flag_of_a_producer_is_cleared(codec: str) -> None:
    data = batch(b"one" * 100, b"two", codec=codec)
    found = records.parse(changed(data, ATTRIBUTES, ">h", CODECS[codec] | 8))
    assert (found.data, found.batches[0]) == (data, records.batch_headers(data)[0])
    assert found.seen is not None and found.seen.has_append_time


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_in_a_batch(codec: str) -> None:
    times = [START, START + 9, START + 4]
    data = batch(b"one" * 100, b"two", b"three", codec=codec, timestamps=times)
    assert records.timestamps_of(data, 100) == [(100, START), (101, START + 9), (102, START + 4)]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_decompression_stops_at_the_limit(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch(b"\0" * 100_000, codec=codec)
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 1000)
    with pytest.raises(DecompressionError):
        records.records_of(data)
    assert records.parse(data).error == Error.UNKNOWN_SERVER_ERROR


def test_truncated_data_cannot_be_decompressed() -> None:
    text = bytes(range(256)) * 1_000
    for name in compression.NAMES[1:]:
        data = compression.compress(name, text)
        assert compression.decompress(name, data) == text
        for size in (len(data) - 1, len(data) // 2):
            with pytest.raises(DecompressionError):
                compression.decompress(name, data[:size])
    frames = compression.compress("zstd", text) + compression.compress("zstd", text)
    assert compression.decompress("zstd", frames) == 2 * text
    nothing = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert compression.decompress("zstd", nothing + frames) == 2 * text
    with pytest.raises(DecompressionError):
        compression.decompress("zstd", frames + nothing[:-1])
    empty = compression.compress("zstd", b"") * 20_000
    assert compression.decompress("zstd", empty) == b"", "each frame is looked at once"
