"""End markers compared with those of Apache Kafka 4.3.1 in the captures, byte by byte."""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import calc_crc32c

from brokertwin.protocol import control_batches
from brokertwin.protocol.batch_headers import Batch, EndMarker

CAPTURES = Path(__file__).parents[2] / "captures"
CHECKED_FROM = 21


def fetched_markers(capture: str) -> Iterator[dict[str, Any]]:
    with gzip.open(CAPTURES / f"{capture}.jsonl.gz") as lines:
        for line in lines:
            exchange = msgspec.json.decode(line)
            if exchange["requestHeader"]["requestApiKey"] == 1:
                for topic in exchange["response"]["responses"]:
                    for partition in topic["partitions"]:
                        yield from (b for b in partition["batches"] if b["isControl"])


@pytest.mark.parametrize(("capture", "markers"), [("txn_isolation", 48), ("txn_loop_ck", 90)])
def test_the_markers_of_the_captures(capture: str, markers: int) -> None:
    """The checksum also covers type and coordinator epoch, which are not in the header."""
    found: Counter[bool] = Counter()
    for recorded in fetched_markers(capture):
        made = {
            is_commit: control_batches.end_batch(
                recorded["producerId"],
                recorded["producerEpoch"],
                EndMarker(is_commit=is_commit, coordinator_epoch=0),
                recorded["baseOffset"],
                recorded["baseTimestamp"],
            )
            for is_commit in (False, True)
        }
        (is_commit,) = (kind for kind, batch in made.items() if batch.crc == recorded["crc"])
        found[is_commit] += 1
        made[is_commit].partition_leader_epoch = recorded["partitionLeaderEpoch"]
        shown = msgspec.to_builtins(made[is_commit])
        assert {name: shown[name] for name in recorded} == recorded
    assert found.total() == markers
    assert set(found) == {False, True}


@pytest.mark.parametrize("is_append_time", [False, True])
def test_bytes_are_a_batch_that_clients_can_read(is_append_time: bool) -> None:
    marker = EndMarker(is_commit=True, coordinator_epoch=7, is_append_time=is_append_time)
    batch = control_batches.end_batch(10, 3, marker, 42, 1_700_000_000_000)
    batch.partition_leader_epoch = 5
    data = control_batches.to_bytes(batch)
    assert len(data) == batch.size_in_bytes == control_batches.SIZE_IN_BYTES
    assert calc_crc32c(data[CHECKED_FROM:]) == batch.crc
    read = DefaultRecordBatch(data)
    assert read.validate_crc()
    assert (read.is_transactional, read.is_control_batch) == (True, True)
    assert (read.base_offset, read.leader_epoch, read.producer_id) == (42, 5, 10)
    assert (read.producer_epoch, read.base_sequence) == (3, -1)
    (record,) = read
    assert (record.key, record.value) == (b"\0\0\0\1", b"\0\0\0\0\0\7")
    assert record.timestamp_type == int(is_append_time)


def test_abort_marker_has_another_type() -> None:
    marker = EndMarker(is_commit=False, coordinator_epoch=0)
    (record,) = DefaultRecordBatch(
        control_batches.to_bytes(control_batches.end_batch(1, 0, marker, 0, 0))
    )
    assert record.key == b"\0\0\0\0"


def test_only_end_markers_have_bytes() -> None:
    with pytest.raises(AssertionError, match="not an end marker"):
        control_batches.to_bytes(Batch(base_offset=0, last_offset_delta=0))
