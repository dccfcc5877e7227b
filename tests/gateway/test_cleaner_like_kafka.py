"""The log cleaner: compare the cleaned logs with a real broker.

One pass cleans a wave of batches on either side. Segments roll by time, so a wave is in the active
one until a last batch, later by more than `segment.ms`, rolls it.
"""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from copy import copy
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.logs import log as logs
from brokertwin.testing.exam.batches import shown
from tests.support.batches import numbered
from tests.support.gateways import Running, running_gateway
from tests.support.goldens import (
    KEEPING,
    Connection,
    Tape,
    TapedConnection,
    Track,
    connection_to,
    real_broker,
    tape,
)
from tests.support.patience import wait_until

MINUTE = 60_000
SEGMENT_MS, LATER_MS = 10 * MINUTE, 11 * MINUTE
WAVES = 4
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "message.timestamp.after.max.ms": str(2**62),
    "delete.retention.ms": "86400000",
}
AT_ONCE = {"delete.retention.ms": "0"}
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "tombstones": AT_ONCE,
    "gzip": {**AT_ONCE, "compression.type": "gzip"},
    "append-time": {"message.timestamp.type": "LogAppendTime", "segment.ms": "100"},
    "idempotent": AT_ONCE,
    "committed": {**AT_ONCE, "cleanup.policy": "delete,compact"},
    "aborted": AT_ONCE,
    "aborted-kept": {},
    "too-young": {"min.compaction.lag.ms": str(2**40)},
    "clean-enough": {"min.cleanable.dirty.ratio": "1.0"},
    "deleted": {**AT_ONCE, "cleanup.policy": "compact,delete"},
    "late": {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "1"},
}
KEYS_LEFT, ALL_LEFT = [5, 7, 9, 11], [5, 10, 15, 20]
SIZES = {
    **dict.fromkeys(("plain", "tombstones", "gzip", "append-time", "idempotent"), KEYS_LEFT),
    "committed": [8, 13, 18, 22],
    "aborted": [4, 8, 14, 16],
    "aborted-kept": [4, 8, 16, 20],
    **dict.fromkeys(("too-young", "clean-enough", "late"), ALL_LEFT),
    "deleted": KEYS_LEFT,
}
"""Minimum number of batches after each wave, so that uncleaned logs do not agree by accident."""
Batch = tuple[list[str], list[str | None]]
DELETE_HORIZON_FLAG = 0x40
CLEANED_WITHIN_S = 60
AHEAD_MS = 30_000
"""Our clock is ahead, so that no append time equals a client's timestamp: docs/limits.md."""


class Side:
    """A broker, real or ours; calls of a real one are recorded on `track`."""

    def __init__(self, host: str, port: int, track: Track | None = None) -> None:
        connect = partial(connection_to, Address(host, port))
        self.conn: Connection = connect() if track is None else track.connection(connect)
        self.producers: dict[str, tuple[int, int]] = {}
        self.sequences: dict[str, int] = {}

    def on(self, track: Track) -> "Side":
        """Return the same real broker, with another track."""
        side = copy(self)
        side.conn = cast(TapedConnection, self.conn).on(track)
        return side

    def untaped(self) -> "Side":
        """Return the same real broker, without a recording."""
        side = copy(self)
        side.conn = cast(TapedConnection, self.conn).live
        return side

    def call(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> Any:
        return self.conn.call(api, version, body, **fields)

    def create(self, name: str, configs: dict[str, str]) -> None:
        given = [{"name": key, "value": value} for key, value in configs.items()]
        topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": []}
        body = {"topics": [{**topic, "configs": given}], "timeoutMs": 10_000, "validateOnly": False}
        response = self.call("CreateTopics", 7, body)
        assert response["topics"][0]["errorCode"] == 0, response

    def write(self, name: str, batch: Batch, timestamp: int, txn: str | None = None) -> None:
        keys, values = ([each.encode() for each in batch[0]], list(map(_bytes, batch[1])))
        fields: dict[str, Any] = {}
        if name in self.producers:
            pid, epoch = self.producers[name]
            sequence = self.sequences.get(name, 0)
            self.sequences[name] = sequence + len(keys)
            fields = {"pid": pid, "epoch": epoch, "seq": sequence, "txn": txn is not None}
        data = numbered(len(keys), time=timestamp, keys=keys, values=values, step=10, **fields)
        partition = {"index": 0, "records": data}
        body = {"transactionalId": txn, "acks": -1, "timeoutMs": 10_000}
        body["topicData"] = [{"name": name, "partitionData": [partition]}]

        def is_written() -> bool:
            response = self.call("Produce", 9, body)
            code = response["responses"][0]["partitionResponses"][0]["errorCode"]
            assert code in {0, 3, 6}, response  # a new topic may be unknown at first
            return bool(code == 0)

        wait_until(is_written)

    def begin_producer(self, name: str, txn: str | None) -> None:
        body = {"transactionalId": txn, "transactionTimeoutMs": 60_000}
        body |= {"producerId": -1, "producerEpoch": -1}
        if txn is not None:
            self.call("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [txn]})

        def is_there() -> bool:
            response = self.call("InitProducerId", 4, body)
            self.producers[name] = (response["producerId"], response["producerEpoch"])
            self.sequences[name] = 0
            return bool(response["errorCode"] == 0)

        wait_until(is_there)

    def transact(self, name: str, batches: list[Batch], timestamp: int, commits: bool) -> None:
        txn, (pid, epoch) = f"txn-{name}", self.producers[name]
        body: dict[str, Any] = {
            "v3AndBelowTransactionalId": txn,
            "v3AndBelowProducerId": pid,
            "v3AndBelowProducerEpoch": epoch,
            "v3AndBelowTopics": [{"name": name, "partitions": [0]}],
        }
        wait_until(
            lambda: (
                self.call("AddPartitionsToTxn", 3, body)["resultsByTopicV3AndBelow"][0][
                    "resultsByPartition"
                ][0]["partitionErrorCode"]
                == 0
            )
        )
        for batch in batches:
            self.write(name, batch, timestamp, txn)
        end = {"transactionalId": txn, "producerId": pid, "producerEpoch": epoch}
        assert self.call("EndTxn", 3, {**end, "committed": commits})["errorCode"] == 0
        wait_until(lambda: self.offset(name, -1, 1) == self.offset(name, -1, 0))

    def offset(self, name: str, timestamp: int, isolation: int = 0) -> int:
        return int(self.looked_up(name, timestamp, isolation)["offset"])

    def looked_up(self, name: str, timestamp: int, isolation: int = 0) -> dict[str, Any]:
        partition = {"partitionIndex": 0, "timestamp": timestamp, "currentLeaderEpoch": -1}
        body = {"replicaId": -1, "isolationLevel": isolation}
        body["topics"] = [{"name": name, "partitions": [partition]}]
        part: dict[str, Any] = self.call("ListOffsets", 7, body)["topics"][0]["partitions"][0]
        return part

    def read(self, name: str, offset: int, isolation: int) -> dict[str, Any]:
        """Read all records from `offset` on; a real broker's responses end at segments."""
        batches: list[Any] = []
        aborted: set[int] = set()
        while True:
            found = self.fetched(name, offset, isolation)
            aborted |= {each["firstOffset"] for each in found["abortedTransactions"] or ()}
            if not found["records"]:
                return found | {"records": batches, "abortedTransactions": sorted(aborted)}
            batches += found["records"]
            offset = batches[-1]["lastOffset"] + 1

    def fetched(self, name: str, offset: int, isolation: int, **fields: int) -> dict[str, Any]:
        partition = {
            "partition": 0,
            "currentLeaderEpoch": -1,
            "fetchOffset": offset,
            "lastFetchedEpoch": -1,
            "logStartOffset": -1,
            "partitionMaxBytes": 1 << 24,
        }
        body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 24, "isolationLevel": isolation}
        body |= {"sessionId": 0, "sessionEpoch": -1, "forgottenTopicsData": [], "rackId": ""}
        body |= {"topics": [{"topic": name, "partitions": [partition]}], "replicaId": -1}
        response = self.call("Fetch", 12, body | fields)
        part: dict[str, Any] = response["responses"][0]["partitions"][0]
        part["records"] = seen(part["records"] or b"")
        return part


class Sides(NamedTuple):
    ours: Side
    real: Side
    running: Running
    tape: Tape
    now: int

    def each(self) -> tuple[Side, Side]:
        return self.ours, self.real

    def clean(self) -> int:
        """Run our cleaner; the real broker's runs by itself."""

        async def passes() -> int:
            return int(await self.running.engine.clean_logs())

        return int(self.running.run(passes()))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def seen(data: bytes) -> list[dict[str, Any]]:
    """Return the batches without clocks and producer ids."""
    result, at = shown(data), 0
    for batch in result:
        (size,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        batch["size"] = size if "codec" not in batch else 0
        batch["hasHorizon"] = bool(attributes & DELETE_HORIZON_FLAG)
        batch["hasProducer"] = batch.pop("producerId") >= 0
        if batch["hasHorizon"] or "control" in batch["flags"]:
            batch["baseTimestamp"] = batch["size"] = "clock"  # timestamps count from the horizon
        if "control" in batch["flags"] or "logAppendTime" in batch["flags"]:
            batch["baseTimestamp"] = batch["maxTimestamp"] = batch["size"] = "clock"
        at += 12 + size
    return result


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    """Start both; our small index would seal other logs."""
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
    quick = {"log.cleaner.backoff.ms": "100"}
    with ExitStack() as stack:
        recording = stack.enter_context(tape("logs/cleaner", quick))
        real = stack.enter_context(real_broker(tmp_path / "broker", quick))
        now, clock = recording.clock()
        slow = {**KEEPING, "log.cleaner.backoff.ms": "86400000"}
        engine: Any = partial(LocalEngine, clock=lambda: clock() + AHEAD_MS)
        made = running_gateway(slow, journal=tmp_path / "journal", engine_type=engine)
        running = stack.enter_context(made)
        both = Side(*running.addresses[1]), Side(*real, track=recording)
        for side in both:
            stack.callback(side.conn.close)
        yield Sides(*both, running, recording, now)


def waves(number: int) -> list[Batch]:
    """Return a wave's batches: repeated keys, tombstones, and keys of this wave only."""
    return [
        (["a", "b", "a"], [f"a{number}", "b", "again"]),
        ([f"only-{number}", "t"], ["x", None if number % 2 else "there"]),
        (["b"], [None if number == 1 else f"b{number}"]),
        (["gone"], [None]),
    ]


def write_wave(side: Side, name: str, number: int, now: int) -> None:
    """Write a wave, and the batch that rolls the segment."""
    if name in ("committed", "aborted", "aborted-kept"):
        if number == 0:
            side.begin_producer(name, f"txn-{name}")
        is_committed = name == "committed" or number == 2
        side.transact(name, waves(number)[:2], now, is_committed)
        side.transact(name, waves(number)[2:], now, number == 3 or is_committed)
    else:
        if name == "idempotent" and number in (0, 2):
            side.begin_producer(name, None)
        for batch in waves(number):
            side.write(name, batch, now)
    later = now + (number + 1) * LATER_MS
    last = ([f"cut-{number}"], ["cut"])
    if name in ("committed", "aborted", "aborted-kept"):
        side.transact(name, [last], later, True)
    else:
        if name == "append-time":
            time.sleep(0.15)
        side.write(name, last, later)


def contents(side: Side, name: str) -> list[Any]:
    end = side.offset(name, -1)
    return [side.read(name, 0, isolation) for isolation in (0, 1)] + [end]


def look_ups(side: Side, name: str, now: int) -> list[Any]:
    times = [-1, -2, 0, now - 1, now, now + 5, now + 15, now + 20, now + LATER_MS + 1]
    times += [now + WAVES * LATER_MS, now + WAVES * LATER_MS + 1]
    if name == "append-time":
        times = [-1, -2, 0, now + WAVES * LATER_MS]
    else:
        times.append(-3)
    result = [side.looked_up(name, each) for each in times]
    timestamps = {now + wave * LATER_MS + step for wave in range(WAVES + 1) for step in (0, 10, 20)}
    for each in result:
        if each["timestamp"] not in timestamps:
            each["timestamp"] = "clock"  # of a marker, or of an append
    return result


@pytest.mark.compares
def test_cleaner_leaves_the_same_records_as_kafkas(sides: Sides) -> None:
    now = sides.now
    sizes: dict[str, list[int]] = {name: [] for name in TOPICS}
    for side in sides.each():
        for name, configs in TOPICS.items():
            side.create(name, CONFIGS | configs)
    for number in range(WAVES):
        for name in TOPICS:
            for side in sides.each():
                write_wave(side, name, number, now)
        sides.clean()
        for name in TOPICS:
            agree(sides, name, now)
            sizes[name].append(len(contents(sides.ours, name)[0]["records"]))
    delete_and_compare(sides, now)
    assert sizes == SIZES


def agree(sides: Sides, name: str, now: int) -> None:
    """Wait until the real broker has cleaned to the same records, and compare look-ups."""
    ours = contents(sides.ours, name)
    theirs = sides.tape.response(
        ["contents", name], lambda: contents_once_cleaned(sides, name, ours)
    )
    assert ours == theirs, differences(name, ours, theirs)
    for one, other in zip(*(look_ups(side, name, now) for side in sides.each()), strict=True):
        assert one == other, name


def contents_once_cleaned(sides: Sides, name: str, expected: list[Any]) -> list[Any]:
    """Return the real broker's records, waiting for the expected ones."""
    live = sides.real.untaped()
    with suppress(AssertionError):  # the caller shows the difference
        wait_until(lambda: contents(live, name) == expected, patience_s=CLEANED_WITHIN_S)
    return contents(live, name)


def differences(name: str, ours: list[Any], theirs: list[Any]) -> str:
    lines = [name]
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        lines.append(f"aborted {one['abortedTransactions']} {other['abortedTransactions']}")
        for each, its in zip_longest(one["records"], other["records"]):
            lines += ["   =" if each == its else f"ours {each}\nreal {its}"]
    return "\n".join(lines)


def delete_and_compare(sides: Sides, now: int) -> None:
    """Delete records in the middle of a cleaned part, and compare the same look-ups."""
    for name in TOPICS:
        partition = {"partitionIndex": 0, "offset": 9}
        body = {"topics": [{"name": name, "partitions": [partition]}], "timeoutMs": 10_000}
        responses = [side.call("DeleteRecords", 2, body) for side in sides.each()]
        assert responses[0] == responses[1]
        found = [
            [side.read(name, 9, 1), side.read(name, 3, 0), *look_ups(side, name, now)]
            for side in sides.each()
        ]
        for one, other in zip(*found, strict=True):
            assert one == other, name
