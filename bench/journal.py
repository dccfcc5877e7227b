"""The time and size of the local engine's journal.

    python bench/journal.py [--records 20000] [--only 1s …] [--directory DIR]

One gateway engine in this process, without sockets: Produces of one 1,000-byte batch by an
idempotent producer to a topic with one partition and `retention.bytes` of 1 MiB, and an
OffsetCommit after every hundredth. Printed for each policy: requests per second; median and 99th
percentile of a request in ms; final size of the journal and the batch files; and the duration of
the next start, with and without compaction.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import structlog
from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.gateway import edge_fields
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import AT_ONCE, JournalOptions
from brokertwin.protocol.frames import RequestFrame, encode_request, read_request
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.events import RequestHeader

NEVER_BYTES = 1 << 60
COMPACTED_FROM = 1 << 20
COMMIT_EVERY = 100
SETTINGS = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}
CONFIGS = {"retention.bytes": "1048576", "segment.bytes": "1048576"}
POLICIES = {"never": None, "1s": 1000, "100ms": 100, "10ms": 10, "always": AT_ONCE}


def engine_of(path: Path, fsync_ms: int | None, compacted_from: int) -> LocalEngine:
    typed, _ = parse(SETTINGS)
    return LocalEngine("bench", [1], typed, JournalOptions(path, fsync_ms, compacted_from))


async def send(engine: LocalEngine, api: str, version: int, body: dict[str, Any]) -> Any:
    """Send a request and return the response body."""
    header = {"requestApiKey": API_KEYS[api], "requestApiVersion": version, "correlationId": 1}
    read = read_request(encode_request(RequestFrame(header, body)), RequestHeader)
    request = EdgeRequest(1, "c", "User:ANONYMOUS", "127.0.0.1", *read)
    if isinstance(request.body, ProduceRequest):
        await edge_fields.put_locators(edge_fields.store_batches(engine, 1, version, request.body))
    answer = await engine.submit(request)
    assert answer.error is None, answer.error
    return answer.document(version)


async def prepared(engine: LocalEngine) -> int:
    """Create a topic and a group coordinator; return a producer id."""
    await engine.start()
    configs = [{"name": name, "value": value} for name, value in CONFIGS.items()]
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1, "configs": configs}
    await send(engine, "CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 1000})
    await send(engine, "FIND_COORDINATOR", 4, {"coordinatorKeys": ["g"]})
    body = {"transactionalId": None, "transactionTimeoutMs": 60_000}
    await send(engine, "INIT_PRODUCER_ID", 4, body)
    return int((await send(engine, "INIT_PRODUCER_ID", 4, body))["producerId"])


async def load(engine: LocalEngine, records: int) -> list[float]:
    """Produce; return the seconds of each request."""
    producer, took = await prepared(engine), []
    for number in range(records):
        now = int(time.time() * 1000)
        builder = DefaultRecordBatchBuilder(2, 0, 0, producer, 0, number, 4096)
        builder.append(0, now, b"key", bytes(930), [])
        data = {"index": 0, "records": bytes(builder.build())}
        body = {
            "acks": -1,
            "timeoutMs": 1000,
            "topicData": [{"name": "t", "partitionData": [data]}],
        }
        begun = time.perf_counter()
        answer = await send(engine, "PRODUCE", 9, body)
        took.append(time.perf_counter() - begun)
        assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0
        if number % COMMIT_EVERY == 0:
            partitions = [{"partitionIndex": 0, "committedOffset": number}]
            topics = [{"name": "t", "partitions": partitions}]
            await send(engine, "OFFSET_COMMIT", 8, {"groupId": "g", "topics": topics})
        await asyncio.sleep(0)
    return took


async def measured(path: Path, fsync_ms: int | None, compacted_from: int, records: int) -> str:
    """Measure one policy; return a line of the table."""
    engine = engine_of(path, fsync_ms, compacted_from)
    begun = time.perf_counter()
    took = await load(engine, records)
    rate = records / (time.perf_counter() - begun)
    await engine.clean_logs()
    await engine.close()
    again = engine_of(path, fsync_ms, NEVER_BYTES)
    begun = time.perf_counter()
    await again.start()
    start = time.perf_counter() - begun
    await again.close()
    files = sum(file.stat().st_size for file in path.with_name("journal.batches").iterdir())
    slow = statistics.quantiles(took, n=100)[-1]
    return (
        f"{rate:8.0f}/s {statistics.median(took) * 1000:7.2f} {slow * 1000:7.2f} ms"
        f"  most {max(took) * 1000:6.1f} ms"
        f"  journal {path.stat().st_size / 1e6:7.2f} MB  batches {files / 1e6:6.2f} MB"
        f"  start {start:6.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", help="names of cases")
    parser.add_argument("--directory", type=Path, help="where the files are; a temporary one")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    cases: list[tuple[str, int | None, int]] = [("never, not compacted", None, NEVER_BYTES)]
    cases += [(name, fsync_ms, COMPACTED_FROM) for name, fsync_ms in POLICIES.items()]
    for name, fsync_ms, compacted_from in cases:
        if given.only and name not in given.only:
            continue
        with tempfile.TemporaryDirectory(dir=given.directory) as directory:
            path = Path(directory) / "journal"
            print(
                f"{name:22}", asyncio.run(measured(path, fsync_ms, compacted_from, given.records))
            )


if __name__ == "__main__":
    main()
