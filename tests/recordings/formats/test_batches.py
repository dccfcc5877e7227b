"""Batch headers for Produce requests: from dumps, by the offset that was answered and the size."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.batch_headers import Batch
from brokertwin.recordings.formats import dumps
from brokertwin.recordings.formats.batches import (
    BatchPartition,
    Completion,
    Headers,
    Missing,
    Needs,
)
from brokertwin.recordings.formats.order import Sorter
from brokertwin.recordings.formats.pipeline import sort
from tests.support.requestlogs import DUMP, REQUEST_LOGS, RUNS, SINGLE, dumps_of, logs_of, read

PRODUCE = 0
REFUSED = {"steady": 0, "follower_stop": 49, "leader_kill": 1}
"""Error responses to Produce that counts.txt of the recording names."""


def completed(files: list[Path], headers: Headers | None) -> tuple[Completion, list[Batch]]:
    documents, _ = read(*files)
    needs = Needs()
    for document in documents:
        needs.add(document)
    needs.close()
    completion = Completion(headers, needs.names)
    batches = []
    for document in documents:
        if document.header.request_api_key == PRODUCE:
            body = completion.complete(document.request, document.response, document.time)
            for topic in msgspec.json.decode(body)["topicData"]:
                for partition in topic["partitionData"]:
                    batches += msgspec.convert(partition.get("batches", []), list[Batch])
    return completion, batches


@pytest.mark.parametrize("run", RUNS)
def test_every_accepted_batch_is_found_in_the_replicas(run: str) -> None:
    completion, batches = completed(logs_of(run), dumps.read(dumps_of(run)))
    lost = completion.missing.pop(Missing.NOT_THERE, 0)
    assert completion.missing == Counter({Missing.REFUSED: REFUSED[run]} if REFUSED[run] else {})
    assert completion.completed == len(batches) > 0
    assert lost <= LOST[run]


LOST = {"steady": 0, "follower_stop": 0, "leader_kill": 0}


def test_a_header_equals_the_producers() -> None:
    _, batches = completed(logs_of("steady"), dumps.read(dumps_of("steady")))
    assert {batch.base_offset for batch in batches} == {0}
    by_producer: dict[int, int] = {}
    in_order = sorted(batches, key=lambda batch: (batch.crc, batch.base_sequence))
    assert len({batch.crc for batch in in_order}) == len(batches)
    for batch in batches:
        by_producer[batch.producer_id] = by_producer.get(batch.producer_id, 0) + batch.record_count
    assert all(records > 0 for records in by_producer.values())


def test_missing_sources_are_reported() -> None:
    completion, batches = completed(logs_of("steady"), None)
    assert not batches
    assert completion.missing == Counter({Missing.NOT_LOOKED_UP: 592})


def test_a_partition_without_dump_is_reported() -> None:
    only = [file for file in dumps_of("steady") if "steady-0" in file.name]
    completion, _ = completed(logs_of("steady"), dumps.read(only))
    assert completion.missing.keys() == {Missing.NOT_READ}


def test_after_a_truncation_the_size_identifies_the_batch() -> None:
    """Broker 1 acknowledged batches that it lost; others were written at their offsets."""
    place = BatchPartition("lk", 0)
    found = dumps.read(dumps_of("leader_kill"))[place]
    at_28 = {batch.crc for batch in found if batch.base_offset == 28}
    assert len(at_28) == 2
    _, batches = completed(logs_of("leader_kill"), {place: found})
    assert at_28 <= {batch.crc for batch in batches}


def one_batch(**fields: int) -> Headers:
    batch = Batch(base_offset=5, last_offset_delta=0, size_in_bytes=70, max_timestamp=1000)
    changed = msgspec.structs.replace(batch, **fields)
    return {BatchPartition("t", 0): [batch, changed]}


@pytest.mark.parametrize(
    ("size", "reply", "missing"),
    [
        (70, {"index": 0, "errorCode": 0, "baseOffset": 5}, None),
        (71, {"index": 0, "errorCode": 0, "baseOffset": 5}, Missing.OTHER_SIZE),
        (70, {"index": 0, "errorCode": 0, "baseOffset": 6}, Missing.NOT_THERE),
        (70, {"index": 0, "errorCode": 19, "baseOffset": -1}, Missing.REFUSED),
        (70, {"index": 1, "errorCode": 0, "baseOffset": 5}, Missing.NO_OFFSET),
    ],
)
def test_reasons_for_missing_headers(
    size: int, reply: dict[str, int], missing: Missing | None
) -> None:
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 0}]}]}
    request["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] = size  # type: ignore[index]
    response = {"responses": [{"name": "t", "partitionResponses": [reply]}]}
    completion = Completion(one_batch(), {})
    body = completion.complete(
        msgspec.Raw(msgspec.json.encode(request)), msgspec.Raw(msgspec.json.encode(response)), 0
    )
    assert completion.missing == Counter([missing] if missing else [])
    assert (b"batches" in bytes(body)) is (missing is None)


def test_output_of_kafkas_dump_tool_is_read() -> None:
    printed = dumps.read([REQUEST_LOGS / "single" / "orders.dump.gz"])
    deep = dumps.read([DUMP])
    assert {place: len(batches) for place, batches in printed.items()} == {
        BatchPartition("orders", 0): 85,
        BatchPartition("orders", 1): 87,
    }
    first = deep[BatchPartition("orders", 0)][12]
    assert first.base_timestamp <= first.max_timestamp
    for place, batches in printed.items():
        for batch, same in zip(batches, deep[place], strict=True):
            assert msgspec.structs.replace(same, base_timestamp=same.max_timestamp) == batch
    assert {batch.compression_type for batch in deep[place]} == {"none", "gzip"}


def test_a_real_log_is_completed_from_dumps() -> None:
    completion, _ = completed([SINGLE], dumps.read([DUMP]))
    assert (completion.completed, completion.missing) == (172, Counter())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "baseOffset\tlastOffset\n", "does not name its partition"),
        ("orders-0.tsv", "baseOffset\tlastOffset\n1\tx\n", "as a batch"),
        ("orders-0.tsv", "baseOffset\tlastOffset\n1\n", "as a batch"),
        ("any.txt", "hello\n", "has no batch"),
    ],
)
def test_a_file_without_a_dump_is_a_user_error(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        dumps.read([file])


def test_the_last_offset_of_a_batch_in_a_table_is_relative_to_its_base(tmp_path: Path) -> None:
    fields = {"baseOffset": 5, "lastOffset": 7, "records": 3, "bytes": 90}
    fields |= {"baseTimestamp": 1, "maxTimestamp": 2}
    table = tmp_path / "orders-0.tsv"
    table.write_text("\t".join(fields) + "\n" + "\t".join(map(str, fields.values())) + "\n")
    ((place, (batch,)),) = dumps.read([table]).items()
    assert place == BatchPartition("orders", 0)
    assert (batch.base_offset, batch.last_offset_delta, batch.record_count) == (5, 2, 3)


@pytest.mark.parametrize(("apis", "nameless"), [({1}, 2), ({1, 3}, 1)])
def test_topic_ids_of_fetches_without_a_name_are_counted(apis: set[int], nameless: int) -> None:
    """Metadata responses have the name of one of two."""
    documents, summary = read(*logs_of("leader_kill")[:1])
    chosen = [each for each in documents if each.header.request_api_key in apis]
    with Sorter() as sorter:
        sort(chosen, sorter, summary)
    assert summary.nameless_topic_ids == nameless
