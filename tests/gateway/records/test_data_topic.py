"""Batch bytes in a real Kafka, and sealed index parts read at the gateway."""

import asyncio
import errno
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from brokertwin.errors import UserError
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.gateway.records.topic_rows import RowCache, RowPosition, RowReader
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.locators import Locator
from brokertwin.state.core.outputs import SegmentKey
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S, growing

WAIT_S = PATIENCE_S


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@pytest.fixture(scope="module")
def bench(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobBench]:
    return JobBench(kafka, tmp_path_factory.mktemp("job"), data_partitions=2)


@asynccontextmanager
async def data_topic(bench: JobBench, cache_bytes: int = 1 << 20) -> AsyncIterator[DataTopic]:
    data = DataTopic(bench.client, bench.prefix, cache_bytes)
    await data.start()
    try:
        yield data
    finally:
        await data.close()


@asynccontextmanager
async def sealed_segments(bench: JobBench, wait_s: float = WAIT_S) -> AsyncIterator[SealedSegments]:
    segments = SealedSegments(bench.client, bench.prefix, "a", wait_s)
    await segments.start()
    try:
        yield segments
    finally:
        await segments.close()


def delete_below(bench: JobBench, partition: int, offset: int) -> None:
    topic = topics.full_name(bench.prefix, topics.DATA)
    admin = topics.admin_client(bench.client)
    futures = admin.delete_records([TopicPartition(topic, partition, offset)])
    for future in futures.values():
        future.result(WAIT_S)


def test_locator_is_decoded_as_encoded() -> None:
    locator = Locator(3, 2**62, 104_857_600)
    assert Locator.of(str(locator)) == locator
    for text in ("", "1", "1:2", "1:2:3:4", "-1:2:3", "a:b:c", "1:2:3\n", "\u0661:2:3"):
        assert Locator.of(text) is None


def test_cache_evicts_the_least_recently_used() -> None:
    cache = RowCache(10)
    for offset in range(3):
        cache.put(RowPosition(0, offset), b"four")
        assert cache.get(RowPosition(0, 0)) or offset == 2
    assert cache.get(RowPosition(0, 1)) is None
    cache.put(RowPosition(1, 0), b"more than ten bytes")
    assert cache.get(RowPosition(1, 0)) is None
    assert cache.size_in_bytes == 8


@in_a_loop
async def test_missing_topic_is_an_error_with_a_hint(kafka: str, tmp_path: Path) -> None:
    client = JobBench(kafka, tmp_path).client
    with pytest.raises(UserError, match=r"has no topic nowhere\.data"):
        await DataTopic(client, "nowhere").start()


@in_a_loop
async def test_batches_of_one_gateway_are_read_by_another(bench: JobBench) -> None:
    batches = [os.urandom(200 + number) for number in range(1500)]
    async with data_topic(bench) as writer, data_topic(bench) as reader:
        places = await asyncio.gather(*(writer.put(batch) for batch in batches))
        assert len(set(places)) == len(batches)
        for group in (reader, writer):
            actual = await asyncio.gather(*(group.get(place) for place in places))
            assert actual == batches
        assert [await reader.get(place) for place in places] == batches


@in_a_loop
async def test_batches_are_read_without_room_in_the_cache(bench: JobBench) -> None:
    batches = [os.urandom(300) for _ in range(1200)]
    async with data_topic(bench, cache_bytes=0) as data:
        places = await asyncio.gather(*(data.put(batch) for batch in batches))
        again = await asyncio.gather(*(data.get(place) for place in reversed(places)))
        assert again[::-1] == batches
        twice = await asyncio.gather(data.get(places[0]), data.get(places[0]))
        assert twice == [batches[0]] * 2


@in_a_loop
async def test_large_batch_is_read_whole_and_one_above_the_limit_refused(
    bench: JobBench,
) -> None:
    large = os.urandom(20_000_000)
    async with data_topic(bench) as data:
        assert await data.get(await data.put(large)) == large
        with pytest.raises(OSError, match="a batch of") as refused:
            await data.put(bytes(topics.DATA_BYTES_MAX + 1))
        assert refused.value.errno == errno.EMSGSIZE


@in_a_loop
async def test_deleted_or_unknown_batches_are_not_found(bench: JobBench) -> None:
    async with data_topic(bench) as data, data_topic(bench) as reader:
        places = [await data.put(b"old %d" % number) for number in range(20)]
        old = [locator for place in places if (locator := Locator.of(place)) is not None]
        first = min(old)
        in_partition = sorted(each for each in old if each.partition == first.partition)
        kept = in_partition[len(in_partition) // 2]
        delete_below(bench, kept.partition, kept.offset)
        found = await asyncio.gather(*(reader.get(str(each)) for each in in_partition))
        assert [each is not None for each in found] == [each >= kept for each in in_partition]
        assert await reader.get(str(kept._replace(size=kept.size + 1))) is None
        assert await reader.get(str(kept._replace(offset=10**9))) is None
        assert await reader.get("no locator") is None


@in_a_loop
async def test_unresponsive_partition_delays_no_other(bench: JobBench) -> None:
    topic = topics.full_name(bench.prefix, topics.DATA)
    async with data_topic(bench) as data:
        locator = Locator.of(await data.put(b"there"))
    assert locator is not None
    for timeout_s in growing(1.5):
        rows = RowReader(bench.client, topic, 0, timeout_s=timeout_s)
        rows.start()
        lost = asyncio.ensure_future(rows.read(RowPosition(99, 0)))
        await asyncio.sleep(0)
        there = asyncio.ensure_future(rows.read(RowPosition(locator.partition, locator.offset)))
        await asyncio.wait([lost, there])
        with pytest.raises(OSError, match="cannot read"):
            await lost
        if there.exception() is None:
            break
        await rows.close()
    assert await there == b"there"
    waits = asyncio.ensure_future(rows.read(RowPosition(98, 0)))
    await asyncio.sleep(0)
    await rows.close()
    with pytest.raises(OSError, match="closed"):
        await waits


@in_a_loop
async def test_failed_producer_of_data_is_replaced(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with data_topic(bench) as data:
        writer = data._writer
        assert writer is not None
        fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", fatal=True)
        delivered = writer._delivered
        monkeypatch.setattr(writer, "_delivered", lambda f, _, m: delivered(f, fatal, m))
        with pytest.raises(OSError, match="gap"):
            await data.put(b"first")
        assert await data.get(await data.put(b"second")) == b"second"


def write_segment(bench: JobBench, key: SegmentKey, batches: list[object] | None) -> None:
    """Write a row of `segments` as the job does; None is a tombstone."""
    producer = Producer(topics.writer_configuration(bench.client))
    value = {**msgspec.to_builtins(key), "batches": batches}
    producer.produce(
        topics.full_name(bench.prefix, "segments"),
        key=msgspec.json.encode(key),
        value=None if batches is None else msgspec.json.encode(value),
    )
    assert producer.flush(WAIT_S) == 0


@in_a_loop
async def test_announced_segment_is_waited_for(bench: JobBench) -> None:
    key = SegmentKey("a", "kkkkkkkkkkkkkkkkkkkkkk", 2, 640)
    async with sealed_segments(bench) as segments:
        waits = asyncio.ensure_future(segments.segment(key.topic_id, 2, 640))
        await asyncio.sleep(0.05)
        assert not waits.done()
        elsewhere = SegmentKey("b", key.topic_id, 2, 640)
        await asyncio.to_thread(write_segment, bench, elsewhere, [{"baseOffset": 1}])
        await asyncio.to_thread(write_segment, bench, key, [{"baseOffset": 640}])
        assert await asyncio.wait_for(waits, WAIT_S) == [{"baseOffset": 640}]


@in_a_loop
async def test_missing_or_deleted_segment_is_none(bench: JobBench) -> None:
    key = SegmentKey("a", "mmmmmmmmmmmmmmmmmmmmmm", 0, 0)
    write_segment(bench, key, [{"baseOffset": 0}])
    async with sealed_segments(bench) as segments:
        assert await segments.segment(key.topic_id, 0, 0) == [{"baseOffset": 0}]
    write_segment(bench, key, None)
    write_segment(bench, SegmentKey("a", "n" * 22, 0, 0), [])
    async with sealed_segments(bench) as segments:
        assert await segments.segment("n" * 22, 0, 0) == []
    async with sealed_segments(bench, wait_s=0.1) as segments:
        assert await segments.segment("o" * 22, 0, 0) is None
    async with sealed_segments(bench) as segments:
        await segments.segment("n" * 22, 0, 0)  # the tombstone is earlier
        segments._wait_s = 0.1
        assert await segments.segment(key.topic_id, 0, 0) is None
