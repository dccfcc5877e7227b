"""Crashes at each file operation of the journal lose nothing acknowledged."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.gateway import edge_fields
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import AT_ONCE, JournalOptions, Persistence
from brokertwin.protocol.frames import RequestFrame, encode_request, read_request
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import check as check_cell
from brokertwin.state.cell.restart_image import columns_at_rest
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core import pending
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.tables import columns_of_tables
from brokertwin.state.logs import log as logs
from tests.support.batches import START, batch
from tests.support.crashing_disks import CrashError, CrashingDisk, Lost

COMPACTED_FROM = 3_000
FILE_BYTES = 400
"""Size of a file of batches; four fit into it."""

State = dict[str, Any]


class Followed(LocalEngine):
    """An engine that keeps its state before the last event, and that event."""

    before: Cell
    last: bytes = b""

    def _opened(self, options: JournalOptions) -> Persistence:
        persistence = super()._opened(options)
        persistence.store._file_bytes = FILE_BYTES  # type: ignore[attr-defined]
        return persistence

    def _handle(self, document: bytes, is_kept: bool) -> list[Output] | None:
        if is_kept:
            self.before, self.last = self._cell.copy(), document
        return super()._handle(document, is_kept)


def state_of(cell: Cell) -> State:
    """Return the tables, without the time of the last event, which ticks advance."""
    columns = columns_of_tables(columns_at_rest(cell))
    return {name: msgspec.msgpack.decode(each) if each else {} for name, each in columns.items()}


def made(path: Path, disk: CrashingDisk, fsync_ms: int | None) -> Followed:
    typed, _ = parse({"log.cleaner.backoff.ms": "86400000"})
    options = JournalOptions(path, fsync_ms, COMPACTED_FROM, disk)
    return Followed("tested", [1], typed, options, clock=lambda: START)


def edge_request(api: str, version: int, body: dict[str, Any]) -> EdgeRequest:
    header = {"requestApiKey": API_KEYS[api], "requestApiVersion": version, "correlationId": 1}
    read = read_request(encode_request(RequestFrame(header, body)), RequestHeader)
    return EdgeRequest(1, "c", "User:ANONYMOUS", "127.0.0.1", *read)


async def send(engine: LocalEngine, api: str, version: int, body: dict[str, Any]) -> Any:
    request = edge_request(api, version, body)
    if isinstance(request.body, ProduceRequest):
        writes = edge_fields.store_batches(engine, 1, version, request.body)
        await edge_fields.put_locators(writes)
    response = await engine.submit(request)
    assert response.error is None, response
    under_way = engine._persistence._compacting  # type: ignore[union-attr]
    if under_way is not None:
        await under_way
    return response.document(version)


class Life:
    """Requests of clients, and the acknowledged batches by partition and offset."""

    def __init__(self) -> None:
        self.reported: dict[tuple[int, int], bytes] = {}
        self.start = 0

    async def run(self, engine: LocalEngine) -> None:
        await self.run_and_stay(engine)
        await engine.close()

    async def run_and_stay(self, engine: LocalEngine) -> None:
        """Play everything except the end."""
        await engine.start()
        topic = {"name": "t", "numPartitions": 2, "replicationFactor": 1}
        await send(engine, "CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 1000})
        for number in range(8):
            await self.produce(engine, number)
            if number == 4:
                await self.delete(engine, 4)

    async def produce(self, engine: LocalEngine, number: int) -> None:
        """Write a batch to each partition; batch files also fill up in between."""
        sent = [batch(b"%d of %d" % (number, partition)) for partition in range(2)]
        data = [{"index": index, "records": each} for index, each in enumerate(sent)]
        body = {"acks": -1, "timeoutMs": 1000, "topicData": [{"name": "t", "partitionData": data}]}
        response = await send(engine, "PRODUCE", 9, body)
        for partition in response["responses"][0]["partitionResponses"]:
            assert partition["errorCode"] == 0
            self.reported[partition["index"], partition["baseOffset"]] = sent[partition["index"]]

    async def delete(self, engine: LocalEngine, offset: int) -> None:
        self.start = offset  # later ones may be deleted
        partitions = [{"partitionIndex": each, "offset": offset} for each in range(2)]
        body = {"topics": [{"name": "t", "partitions": partitions}], "timeoutMs": 1000}
        await send(engine, "DELETE_RECORDS", 2, body)
        await engine.clean_logs()


def live(path: Path, disk: CrashingDisk, fsync_ms: int | None) -> tuple[Life, Followed | None]:
    """Return a life up to its end or crash, and its engine."""
    life, engine = Life(), None

    async def whole() -> None:
        nonlocal engine
        engine = made(path, disk, fsync_ms)
        await life.run(engine)

    try:
        asyncio.run(whole())
    except CrashError:
        return life, engine
    assert not disk.at, "the crash did not come"
    return life, engine


async def found(engine: LocalEngine) -> dict[tuple[int, int], bytes]:
    """Return the batches of the logs, by partition and offset."""
    batches = {}
    for (_, _, partition), kept in engine._kept.all():
        for each in kept:
            data = await engine.get(each.locator)
            assert data is not None, f"the bytes of {each} are lost"
            batches[partition, each.last_offset] = data
    return batches


def check(path: Path, life: Life, former: Followed | None, fsync_ms: int | None) -> None:
    """Check that a restart has all acknowledged data, and one of the two possible states."""

    async def restarted() -> None:
        engine = made(path, CrashingDisk(), fsync_ms)
        await engine.start()
        batches = await found(engine)
        for (partition, offset), data in life.reported.items():
            assert offset < life.start or batches[partition, offset] == data
        if former is not None and hasattr(former, "before"):
            state = state_of(engine._cell)
            if state != state_of(former.before):
                former.before.handle(former.last, Position(0, 0))
                assert state == state_of(former.before)
        if life.reported:
            await life.produce(engine, 9)
        await engine.close()

    asyncio.run(restarted())


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "fsync_ms"),
    [(Lost.NOTHING, None), (Lost.BYTES, AT_ONCE), (Lost.BYTES_AND_NAMES, AT_ONCE)],
)
def test_no_acknowledged_data_is_lost_at_any_crash_point(
    tmp_path: Path, lost: Lost, fsync_ms: int | None
) -> None:
    whole = CrashingDisk()
    live(tmp_path / "whole" / "journal", whole, fsync_ms)
    whole.end(Lost.NOTHING)
    assert {"write", "sync", "replace", "sync directory", "remove"} <= set(whole.steps)
    for at in range(1, whole.done + 1):
        path, disk = tmp_path / str(at) / "journal", CrashingDisk(at)
        life, engine = live(path, disk, fsync_ms)
        disk.end(lost)
        check(path, life, engine, fsync_ms)


async def wait_and_fetch(engine: LocalEngine) -> None:
    partition = {"partition": 0, "fetchOffset": 12, "partitionMaxBytes": 1000}
    body = {
        "maxBytes": 1000,
        "sessionEpoch": 0,
        "topics": [{"topic": "t", "partitions": [partition]}],
    }
    response = await send(engine, "FETCH", 12, body)
    waits = {**body, "sessionId": response["sessionId"], "sessionEpoch": 1, "maxWaitMs": 9000}
    waits |= {"minBytes": 1, "topics": []}
    engine.submit(edge_request("FETCH", 12, waits))


def test_compacted_journal_restores_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also sealed log parts, positions and deadlines; fetch sessions and Fetches end."""
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)

    async def compacted() -> tuple[Any, ...]:
        engine = made(tmp_path / "journal", CrashingDisk(), None)
        life = Life()
        await life.run_and_stay(engine)
        for number in range(8, 12):
            await life.produce(engine, number)
        await wait_and_fetch(engine)
        assert engine.tables.fetch_sessions.keys("1/session")
        assert pending.requests(engine.tables.pending)
        persistence = engine._persistence
        assert persistence is not None
        await persistence.compact()
        assert persistence.journal.size == persistence.journal._snapshot_size
        assert engine._segments, "nothing was sealed"
        was = (state_of(engine._cell), engine._kept.all(), engine._segments, engine._offset)
        await engine.close()
        return was

    async def restarted() -> tuple[Any, ...]:
        engine = made(tmp_path / "journal", CrashingDisk(), None)
        await engine.start()
        assert not engine.tables.fetch_sessions.keys("1/session")
        assert not pending.requests(engine.tables.pending)
        assert check_cell(engine._cell) == []
        offset = engine._offset - 1  # the tick at the start
        was = (state_of(engine._cell), engine._kept.all(), engine._segments, offset)
        await engine.close()
        return was

    assert asyncio.run(compacted()) == asyncio.run(restarted())
