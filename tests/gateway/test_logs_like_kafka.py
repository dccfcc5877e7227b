"""Logs compared with a real broker: validation, batches, segments, look-ups.

Both get the same requests, and each response is compared field by field, except the brokers'
clocks: the time of an append, and the bounds of a record's time.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from tests.gateway.test_cleaner_like_kafka import Side
from tests.support.batches import numbered
from tests.support.gateways import running_gateway
from tests.support.goldens import KEEPING, real_broker, tape
from tests.support.patience import wait_until

HOUR = 3_600_000
BY_TIME = {"segment.ms": "1000", "message.timestamp.after.max.ms": str(2**62)}
TOPICS = {
    "plain": {},
    "compact": {"cleanup.policy": "compact"},
    "both": {"cleanup.policy": "compact,delete"},
    "before": {"message.timestamp.before.max.ms": str(HOUR)},
    "after": {"message.timestamp.after.max.ms": str(HOUR)},
    "append-time": {
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1000",
        "message.timestamp.after.max.ms": "1000",
    },
    "small": {"max.message.bytes": "300"},
    "gzip": {"compression.type": "gzip", "max.message.bytes": "400"},
    "uncompressed": {"compression.type": "uncompressed", "max.message.bytes": "400"},
    "by-time": BY_TIME,
    "by-size": {"internal.segment.bytes": "200"},
}
PRODUCE_VERSIONS = (3, 7, 8, 12)
SIZES = (100, 180, 230, 231, 232, 240, 300, 400)
CHANGES: list[dict[str, str]] = [
    {"cleanup.policy": "compact"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "x"},
    {"cleanup.policy": "delete"},
    {"retention.ms": "-2"},
    {"retention.bytes": "-1"},
    {"segment.bytes": "13"},
    {"segment.ms": "0"},
    {"segment.jitter.ms": "-1"},
    {"segment.index.bytes": "3"},
    {"index.interval.bytes": "-1"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"delete.retention.ms": "-1"},
    {"min.cleanable.dirty.ratio": "1.1"},
    {"compression.type": "zip"},
    {"compression.gzip.level": "10"},
    {"message.timestamp.type": "x"},
    {"message.timestamp.before.max.ms": "-1"},
]
Step = Callable[[Side], Any]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side, int]]:
    """Start ours and a real broker, with the time of the recording."""
    with ExitStack() as stack:
        recording = stack.enter_context(tape("logs/logs"))
        real = stack.enter_context(real_broker(tmp_path / "broker"))
        now, clock = recording.clock()
        engine: Any = partial(LocalEngine, clock=clock)
        made = running_gateway(KEEPING, journal=tmp_path / "journal", engine_type=engine)
        address = stack.enter_context(made).addresses[1]
        both = Side(*address), Side(*real, track=recording)
        for side in both:
            stack.callback(side.conn.close)
            for name, configs in TOPICS.items():
                side.create(name, configs)
            for name in TOPICS:
                wait_until(partial(is_there, side, name))
        yield *both, now


def is_there(side: Side, name: str) -> bool:
    return bool(side.looked_up(name, -1)["errorCode"] == 0)


def produced(name: str, data: bytes, version: int = 12) -> Step:
    topic = {"name": name, "partitionData": [{"index": 0, "records": data}]}
    body = {"transactionalId": None, "acks": -1, "timeoutMs": 10_000, "topicData": [topic]}
    return lambda side: side.call("Produce", version, body)


def batch(timestamp: int, *keys: bytes | None, values: list[Any] | None = None) -> bytes:
    given = values or [b"v"] * len(keys)
    return bytes(numbered(len(keys), time=timestamp, keys=list(keys), values=given, step=5))


def deleted(name: str, offset: int, partition: int = 0) -> Step:
    body = {"name": name, "partitions": [{"partitionIndex": partition, "offset": offset}]}
    return lambda side: side.call("DeleteRecords", 2, {"topics": [body], "timeoutMs": 10_000})


def changed(name: str, configs: dict[str, str]) -> Step:
    changes = [{"name": key, "configOperation": 0, "value": v} for key, v in configs.items()]
    resource = {"resourceType": 2, "resourceName": name, "configs": changes}
    body = {"resources": [resource], "validateOnly": False}
    return lambda side: side.call("IncrementalAlterConfigs", 1, body)


def looked_up(name: str, timestamp: int) -> Step:
    return lambda side: side.looked_up(name, timestamp)


def read(name: str, offset: int, isolation: int) -> Step:
    return lambda side: side.fetched(name, offset, isolation)


def waited(side: Side, name: str, offset: int) -> tuple[Any, bool]:
    """Fetch an older segment with fewer bytes than the minimum."""
    began = time.monotonic()
    found = side.fetched(name, offset, 0, maxWaitMs=20_000, minBytes=1 << 20)
    return found, time.monotonic() - began < 15


def of_records(now: int) -> Iterator[tuple[str, Step]]:
    """Produce with keys, times and sizes that the topic restricts."""
    for version in PRODUCE_VERSIONS:
        for name in ("compact", "both"):
            keyless = batch(now, b"a", None, b"c", None)
            yield f"{name}, no key, v{version}", produced(name, keyless, version)
        old = numbered(4, time=now - 2 * HOUR, step=HOUR // 2)
        yield f"too old, v{version}", produced("before", old, version)
        new = numbered(4, time=now + HOUR // 2, step=HOUR // 2)
        yield f"too new, v{version}", produced("after", new, version)
        late = batch(now - 9 * HOUR, b"a", b"b")
        yield f"append time, v{version}", produced("append-time", late, version)
    for name in ("plain", "before", "after"):
        yield f"{name}, no time", produced(name, batch(-1, b"a", b"b"))
    yield "a tombstone", produced("compact", batch(now, b"a", b"a", values=[None, b"x"]))
    yield "an empty key", produced("compact", batch(now, b"", b"a"))
    for name in ("small", "gzip", "uncompressed"):
        for size in SIZES:
            data = batch(now, b"k", values=[b"v" * size])
            yield f"{name}, {size} bytes", produced(name, data)
        yield f"{name} as it is kept", kept_as(name)


def kept_as(name: str) -> Step:
    """Return the batches without their sizes, which depend on the compression library."""

    def read(side: Side) -> Any:
        result = side.fetched(name, 0, 0)
        for each in result["records"]:
            each.pop("size")
        return result

    return read


def of_segments(now: int) -> Iterator[tuple[str, Step]]:
    """Look up by time, and read, with record deletions in between."""
    for name in ("by-time", "by-size"):
        for number in range(6):
            keys = (f"k{number}a".encode(), f"k{number}b".encode())
            yield f"{name} {number}", produced(name, batch(now + number * 700, *keys))
        times = [-1, -2, -3, -4, -5, -6, 0]
        times += [now + each for each in (-1, 0, 5, 6, 700, 2100, 3505, 3506)]
        for offset in (0, -2, 13, 3, 2, 5, 6):
            yield f"{name}, deleted to {offset}", deleted(name, offset)
            for body in times:
                yield f"{name}, {body} after {offset}", looked_up(name, body)
            for at in range(0, 12, 2):
                yield f"{name}, read at {at} after {offset}", read(name, at, at % 4 // 2)
            yield f"{name}, a wait after {offset}", partial(waited, name=name, offset=6)
        yield f"{name}, all deleted", deleted(name, -1)
        for body in (-1, -2, -3, -4, -5, -6, 0, now):
            yield f"{name}, {body} after all", looked_up(name, body)
    for name in ("compact", "both", "nope"):
        yield f"{name}, deleted", deleted(name, 0)
    yield "no such partition", deleted("plain", 0, 7)


def of_settings(_now: int) -> Iterator[tuple[str, Step]]:
    for configs in CHANGES:
        yield str(configs), changed("plain", configs)


def plain(response: Any, now: int) -> Any:
    """Return a response without its broker's clock."""
    if isinstance(response, dict):
        result = {key: plain(each, now) for key, each in response.items()}
        if result.get("logAppendTimeMs", -1) >= now:
            result["logAppendTimeMs"] = "clock"
        return result
    if isinstance(response, list):
        return [plain(each, now) for each in response]
    return re.sub(r"within \[.*\]", "", response) if isinstance(response, str) else response


@pytest.mark.compares
def test_logs_are_written_cut_and_found_as_by_kafka(sides: tuple[Side, Side, int]) -> None:
    *both, now = sides
    for steps in (of_records, of_segments, of_settings):
        for label, step in steps(now):
            ours, real = (plain(step(side), now) for side in both)
            assert ours == real, label
