"""Producer id blocks in ZooKeeper, with the worked examples."""

from collections import Counter

import msgspec
import pytest

from brokertwin.protocol.additions import VersionedDocument
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.records import ProducerIdBlockWritten
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import Table
from brokertwin.state.eras.zookeeper_producer_ids import (
    BLOCK_SIZE,
    INT64_MAX,
    KEY,
    IdBlock,
    ProducerIdsExhausted,
    StoredDocument,
    after_read,
    apply_written,
    block_after,
    decode,
    encode,
    handle,
    read_document,
)
from tests.support.cells import Cells, Row
from tests.support.machine import START, Bench

SEED = '{"version":1,"broker":35,"block_start":"4000","block_end":"4999"}'


def written_after(stored: VersionedDocument, broker: int) -> VersionedDocument:
    write = after_read(stored, broker)
    return VersionedDocument(write.document, write.version + 1)


def test_example_1_blocks_are_allocated_in_turn() -> None:
    stored, blocks = VersionedDocument(), []
    for broker in (0, 1, 0, 1):
        stored = written_after(stored, broker)
        blocks.append(decode(stored.document or ""))
    assert blocks == [IdBlock(n % 2, n * 1000, n * 1000 + 999) for n in range(4)]
    assert stored.version == 4


def test_example_2_a_write_after_another_brokers_write_is_a_version_conflict() -> None:
    table = Table()
    table.put(KEY, StoredDocument(SEED, 12))
    of_seven, of_eight = (after_read(read_document(table), broker) for broker in (7, 8))
    (record,) = handle(table, of_seven).records
    assert isinstance(record, ProducerIdBlockWritten)
    apply_written(table, record)
    assert read_document(table) == VersionedDocument(encode(IdBlock(7, 5000, 5999)), 13)
    refused = handle(table, of_eight)
    assert isinstance(refused.response, AllocateProducerIdsResponse)
    assert (refused.records, refused.response.error_code) == ([], Error.INVALID_UPDATE_VERSION)
    again = after_read(read_document(table), 8)
    assert (decode(again.document), again.version) == (IdBlock(8, 6000, 6999), 13)


def test_example_3_there_is_no_block_beyond_2_to_the_63() -> None:
    at_the_end = encode(IdBlock(1, INT64_MAX - 1000, INT64_MAX - 1))
    with pytest.raises(ProducerIdsExhausted, match=str(INT64_MAX - 1)):
        after_read(VersionedDocument(at_the_end, 5), 0)
    last = encode(IdBlock(1, 0, INT64_MAX - BLOCK_SIZE))
    assert block_after(last, 0).last == INT64_MAX


def test_document_equals_the_seeds() -> None:
    assert encode(IdBlock(35, 4000, 4999)) == SEED
    assert decode(SEED) == IdBlock(35, 4000, 4999)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{}",
        '{"version":2,"broker":35,"block_start":"4000","block_end":"4999"}',
        '{"version":1,"broker":35,"block_start":4000,"block_end":4999}',
        '{"version":1,"broker":35,"block_start":"4000","block_end":"x"}',
        '{"version":1,"broker":35,"block_start":"4000","block_end":"3999"}',
    ],
)
def test_invalid_documents_are_rejected(document: str) -> None:
    with pytest.raises(ValueError, match="no producer id block"):
        decode(document)


def drawing(brokers: tuple[int, ...] = (0, 1)) -> Bench:
    return Bench(brokers=brokers, brokertwin_zk_producer_id_blocks=True)


def drawn(bench: Bench, broker: int, name: str | None = None) -> tuple[int, int]:
    body = {"transactionalId": name, "transactionTimeoutMs": 1000}
    response = bench.request("INIT_PRODUCER_ID", 4, body, broker=broker)
    return response["errorCode"], response["producerId"]


def written(bench: Bench) -> list[tuple[str, int]]:
    records = [entry["record"] for entry in bench.records()]
    blocks = [each for each in records if each["type"] == "ProducerIdBlockWritten"]
    return [(each["document"], each["version"]) for each in blocks]


def test_example_1_through_the_brokers() -> None:
    bench = drawing()
    for broker in (0, 1):
        ids = [drawn(bench, broker) for _ in range(BLOCK_SIZE)]
        assert ids == [(0, broker * BLOCK_SIZE + number) for number in range(BLOCK_SIZE)]
    assert [drawn(bench, broker) for broker in (0, 1)] == [(0, 2000), (0, 3000)]
    blocks = [IdBlock(n % 2, n * BLOCK_SIZE, (n + 1) * BLOCK_SIZE - 1) for n in range(4)]
    assert written(bench) == [(encode(block), n) for n, block in enumerate(blocks)]


def test_restarted_broker_continues_with_its_stored_block() -> None:
    bench = drawing()
    assert drawn(bench, 0) == (0, 0)
    bench.cell = Cell(bench.settings, bench.cell.columns())
    assert [drawn(bench, 0), drawn(bench, 1)] == [(0, 1), (0, 1000)]


@pytest.mark.parametrize("name", [None, "tx"])
def test_all_producers_fail_when_ids_are_exhausted(name: str | None) -> None:
    bench = drawing(brokers=(1,))
    bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["tx"])
    last = encode(IdBlock(9, INT64_MAX - BLOCK_SIZE, INT64_MAX - 1))
    apply(bench.cell.tables.of(1), ProducerIdBlockWritten(last, 0))
    assert [drawn(bench, 1, name) for _ in range(2)] == [(Error.UNKNOWN_SERVER_ERROR, -1)] * 2
    assert written(bench) == []


def test_document_with_an_old_version_is_not_applied() -> None:
    table = Table()
    apply_written(table, ProducerIdBlockWritten(SEED, 0))
    with pytest.raises(ValueError, match="another version than 0"):
        apply_written(table, ProducerIdBlockWritten(SEED, 0))


def three_cells() -> Cells:
    """The controller is in `cell-0`, with ZooKeeper's document."""
    broker_settings = BrokerSettings(brokertwin_zk_producer_id_blocks=True)
    settings = CellSettings(
        name="c", cluster="c", brokers=[1, 2, 3], broker_settings=broker_settings
    )
    return Cells(settings, {"cell-0": [1], "cell-1": [2], "cell-2": [3]})


def test_of_two_brokers_in_two_cells_one_loses_its_write_and_starts_again_at_step_1() -> None:
    """Both read version 0."""
    cells = three_cells()
    cells.deliver([("cell-1", init("a", broker=2)), ("cell-2", init("b", broker=3))])
    ids = {name: cells.responses[name]["response"]["producerId"] for name in ("a", "b")}
    assert sorted(ids.values()) == [0, BLOCK_SIZE]
    steps = Counter(step_of(row) for row in cells.topic)
    assert (steps["read"], steps["write"], steps["lost"]) == (3, 3, 1)
    assert cells.dead_letters() == []
    (stored,) = [
        item for key, item in cells.durable().items() if key.endswith("latest_producer_id_block")
    ]
    assert stored["version"] == 2


def test_requests_of_a_broker_wait_for_one_block() -> None:
    cells = three_cells()
    cells.deliver([("cell-1", init(name, broker=2)) for name in ("a", "b")])
    ids = [cells.responses[name]["response"]["producerId"] for name in ("a", "b")]
    assert ids == [0, 1]
    assert Counter(step_of(row) for row in cells.topic)["read"] == 1


def test_a_wait_for_a_block_ends_after_30_seconds_and_the_document_is_read_again() -> None:
    cells = three_cells()
    (late,) = cells.take(("cell-1", init("a", broker=2)))
    assert step_of(late) == "read"
    assert cells.responses == {}
    tick = {"id": "tick", "cluster": "c", "kind": "tick", "time": START + 30_000}
    (again,) = cells.take(("cell-1", msgspec.json.encode(tick)))
    assert cells.responses["a"]["response"]["errorCode"] == Error.COORDINATOR_LOAD_IN_PROGRESS
    assert step_of(again) == "read"
    cells.deliver([("cell-1", init("b", broker=2)), late, again])
    assert cells.responses["b"]["response"]["producerId"] == 0
    assert cells.dead_letters() == []


def init(name: str, broker: int) -> bytes:
    """An InitProducerId as an event."""
    return msgspec.json.encode(
        {
            "id": name,
            "cluster": "c",
            "broker": broker,
            "time": START,
            "connection": "c1",
            "nonce": name,
            "requestHeader": {
                "requestApiKey": 22,
                "requestApiVersion": 4,
                "correlationId": 1,
                "clientId": "p",
            },
            "request": {"transactionalId": None, "transactionTimeoutMs": 1000},
        }
    )


def step_of(row: Row) -> str:
    """Which step of an allocation a row between the cells is."""
    document = msgspec.json.decode(row[1])
    response = document.get("told", {})
    if document.get("kind") == "message":
        return "read" if response["body"]["write"] is None else "write"
    if document.get("kind") == "answer":
        return (
            "lost" if response["response"]["errorCode"] == Error.INVALID_UPDATE_VERSION else "done"
        )
    return "request"
