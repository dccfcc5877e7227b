"""Producer snapshots: Kafka's file format, and reloading after a truncation."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Batch
from brokertwin.state.logs import producer_snapshot
from brokertwin.state.logs.producer import Producer, RememberedBatch, check
from brokertwin.state.logs.producer_snapshot import (
    CorruptSnapshot,
    LoadedSnapshot,
    ProducerEntry,
    crc32c,
    decode,
    encode,
    entry_of,
    file_name,
    kept,
    load,
    offset_of,
    truncate,
)

DAY = 86_400_000
NOW = 1_700_000_000_000

INT64 = st.integers(-(2**63), 2**63 - 1)
BATCHES = st.builds(
    RememberedBatch,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
    INT64,
)
PRODUCERS = st.builds(Producer, st.integers(0, 2**15 - 1), INT64, st.lists(BATCHES, max_size=5))


def one(sequence: int, offset: int, timestamp: int = NOW) -> Producer:
    return Producer(0, timestamp, [RememberedBatch(sequence, offset, 0, timestamp)])


def five() -> Producer:
    return Producer(0, NOW, [RememberedBatch(n, n, 0, NOW) for n in range(5)])


def test_file_name_has_20_digits() -> None:
    assert file_name(42) == "00000000000000000042.snapshot"
    assert offset_of("00000000000000000042.snapshot") == 42
    assert [offset_of(n) for n in ("42.snapshot", "00000000000000000042.log", "")] == [None] * 3


def test_batch_at_the_first_offset_is_remembered() -> None:
    assert ProducerEntry(7, 0, 3, 0, 0, NOW).producer().batches == [RememberedBatch(3, 0, 0, NOW)]
    assert ProducerEntry(7, 0, -1, -1, 0, NOW).producer().batches == []


def test_file_layout() -> None:
    snapshot = encode([(7, one(3, 9, timestamp=5))])
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 0, 3, 9, 0, 5, -1, -1)
    assert snapshot == struct.pack(">hI", 1, calc_crc32c(body)) + body
    assert len(encode([])) == 10


@given(st.binary(max_size=300))
def test_checksum_is_crc_32c(data: bytes) -> None:
    assert crc32c(data) == calc_crc32c(data)


@given(st.dictionaries(st.integers(0, 2**63 - 1), PRODUCERS, max_size=5))
def test_encoded_snapshot_is_decoded(producers: dict[int, Producer]) -> None:
    entries = decode(encode(producers.items()))
    assert entries == [entry_of(*item) for item in producers.items()]
    for entry in entries:
        assert not isinstance(entry, CorruptSnapshot)
        original, restored = producers[entry.producer_id], entry.producer()
        assert restored.producer_epoch == original.producer_epoch
        assert restored.batches[-1:] == [
            RememberedBatch(
                last.last_sequence, last.last_offset, last.offset_delta, entry.timestamp
            )
            for last in original.batches[-1:]
        ]


@given(st.data())
def test_changed_or_cut_file_is_corrupt(data: st.DataObject) -> None:
    snapshot = encode([(7, five()), (8, one(0, 5))])
    at = data.draw(st.integers(0, len(snapshot) - 1))
    flipped = bytearray(snapshot)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    assert isinstance(decode(bytes(flipped)), CorruptSnapshot)
    assert isinstance(decode(snapshot[:at]), CorruptSnapshot)
    assert isinstance(decode(snapshot + b"\0"), CorruptSnapshot)


@given(st.binary(max_size=200))
def test_decode_never_raises(data: bytes) -> None:
    decode(data)
    body = struct.pack(">i", len(data)) + data
    decode(struct.pack(">hI", 1, crc32c(body)) + body)


def test_corrupt_snapshot_has_a_reason() -> None:
    body = struct.pack(">i", 2) + bytes(46)
    cases = {
        b"": "0 bytes",
        struct.pack(">hI", 2, 0) + bytes(4): "version 2",
        struct.pack(">hI", 1, 0) + bytes(4): "CRC-32C",
        struct.pack(">hI", 1, crc32c(b"")): "number of entries",
        struct.pack(">hI", 1, crc32c(body)) + body: "2 entries do not fit",
    }
    for snapshot, reason in cases.items():
        found = decode(snapshot)
        assert isinstance(found, CorruptSnapshot)
        assert reason in found.reason


def test_example_16_truncation_keeps_the_snapshots_between_the_bounds() -> None:
    snapshots = {offset: encode([(1, one(offset - 1, offset - 1))]) for offset in range(1, 6)}
    left = kept(snapshots, 1, 3)
    assert (left[0], left[-1]) == (2, 3)
    loaded = truncate(snapshots, 1, 3, map_end_offset=5, now=NOW, expiration_ms=DAY)
    assert loaded == LoadedSnapshot(3, {1: one(2, 2)}, [])
    assert truncate(snapshots, 1, 3, map_end_offset=3, now=NOW, expiration_ms=DAY) is None


def test_example_16_after_a_reload_duplicates_of_older_batches_are_out_of_order() -> None:
    loaded = load({5: encode([(1, five())])}, 0, NOW, DAY)
    restored = loaded.producers[1]

    def repeat(sequence: int) -> Batch:
        return Batch(
            base_offset=0,
            last_offset_delta=0,
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
            record_count=1,
        )

    assert check(five(), repeat(3)).duplicate is not None
    assert check(restored, repeat(3)).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(restored, repeat(4)).duplicate is not None
    assert check(restored, repeat(5)).error is Error.NONE


def test_corrupt_snapshots_are_skipped_and_without_any_the_log_is_read_from_its_start() -> None:
    good = encode([(1, one(0, 0))])
    loaded = load({1: good, 2: good[:-1], 3: b""}, 0, NOW, DAY)
    assert (loaded.offset, loaded.corrupt) == (1, [3, 2])
    assert load({2: b"", 3: good[:9]}, 7, NOW, DAY) == LoadedSnapshot(7, {}, [3, 2])


def test_expired_producers_are_not_loaded() -> None:
    snapshot = encode([(1, one(0, 0, NOW - DAY)), (2, one(0, 1, NOW - DAY + 1))])
    assert list(load({2: snapshot}, 0, NOW, DAY).producers) == [2]


def test_producer_without_batches_is_loaded_without_batches() -> None:
    entry = ProducerEntry(1, 3, -1, -1, 0, 5)
    assert entry.producer() == Producer(3, 5, [])
    assert entry_of(1, entry.producer()) == entry
    assert producer_snapshot.NO_OFFSET == -1
