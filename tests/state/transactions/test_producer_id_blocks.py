"""Producer id blocks in ZooKeeper, with the worked examples."""

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import ProducerIdBlockWritten
from brokertwin.state.core.tables import Table
from brokertwin.state.transactions.producer_id_blocks import (
    BLOCK_SIZE,
    INT64_MAX,
    BlockAllocator,
    ConditionalWrite,
    IdBlock,
    ProducerIdsExhausted,
    VersionedDocument,
    allocate_block,
    apply_written,
    block_after,
    decode,
    encode,
)
from tests.support.machine import Bench

SEED = '{"version":1,"broker":35,"block_start":"4000","block_end":"4999"}'


class Store:
    """The document at its path, without concurrent writers."""

    def __init__(self, stored: VersionedDocument | None = None) -> None:
        self.stored = stored or VersionedDocument()

    def take(self, taker: BlockAllocator) -> None:
        write = taker.read(self.stored)
        assert write is not None
        written = self.stored.write(*write)
        assert written is not None
        self.stored = written
        taker.written(write)

    def next_id(self, taker: BlockAllocator) -> int:
        issued = taker.next_id()
        if issued is None:
            self.take(taker)
            issued = taker.next_id()
        assert issued is not None
        return issued


def test_example_1_two_brokers_allocate_blocks_of_1000_in_turn() -> None:
    store = Store()
    brokers = [BlockAllocator(0), BlockAllocator(1)]
    first, second = ([store.next_id(b) for _ in range(BLOCK_SIZE)] for b in brokers)
    assert (first, second) == (list(range(1000)), list(range(1000, 2000)))
    assert [store.next_id(broker) for broker in brokers] == [2000, 3000]


def test_example_2_broker_reads_again_after_a_version_conflict() -> None:
    stored = VersionedDocument(SEED, version=12)
    seven, eight = BlockAllocator(7), BlockAllocator(8)
    write_of_seven, write_of_eight = seven.read(stored), eight.read(stored)
    assert write_of_seven is not None and write_of_eight is not None
    after = stored.write(*write_of_seven)
    assert after is not None
    seven.written(write_of_seven)
    assert (seven.block, after.version) == (IdBlock(7, 5000, 5999), 13)
    assert after.write(*write_of_eight) is None
    Store(after).take(eight)
    assert eight.block == IdBlock(8, 6000, 6999)


def test_example_3_there_is_no_block_beyond_2_to_the_63() -> None:
    at_the_end = encode(IdBlock(1, INT64_MAX - 1000, INT64_MAX - 1))
    with pytest.raises(ProducerIdsExhausted, match=str(INT64_MAX - 1)):
        BlockAllocator(0).read(VersionedDocument(at_the_end, 5))
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


def test_write_without_a_response_is_found_by_reading_again() -> None:
    taker, stored = BlockAllocator(7), VersionedDocument(SEED, 12)
    write = taker.read(stored)
    assert write is not None
    after = stored.write(*write)
    assert after is not None
    assert taker.read(after) is None
    assert taker.next_id() == 5000


def test_restarted_broker_does_not_reuse_its_block() -> None:
    store = Store()
    store.next_id(BlockAllocator(7))
    assert store.next_id(BlockAllocator(7)) == 1000


class Race:
    """Brokers that allocate concurrently: reads and writes are late or lost."""

    def __init__(self, is_guarded: bool = True) -> None:
        self.stored = VersionedDocument()
        self.takers = [BlockAllocator(broker) for broker in range(3)]
        self.writes: dict[int, list[ConditionalWrite]] = {0: [], 1: [], 2: []}
        self.issued: list[int] = []
        self.is_guarded = is_guarded

    def step(self, broker: int, what: str) -> None:
        taker, writes = self.takers[broker], self.writes[broker]
        if what == "issue":
            issued = taker.next_id()
            self.issued += [] if issued is None else [issued]
        elif what == "use up" and taker.block is not None:
            self.issued += iter(taker.next_id, None)
        elif what == "read":
            write = taker.read(self.stored)
            writes += [] if write is None else [write]
        elif what == "start again":
            self.takers[broker] = BlockAllocator(broker)
            writes.clear()
        elif what in {"write", "write, answer lost"} and writes:
            self.write(taker, writes.pop(0), is_answered=what == "write")

    def write(self, taker: BlockAllocator, write: ConditionalWrite, is_answered: bool) -> None:
        version = write.version if self.is_guarded else self.stored.version
        written = self.stored.write(write.document, version)
        if written is None:
            return
        self.stored = written
        if is_answered:
            taker.written(write)


STEP_NAMES = st.sampled_from(
    ["issue", "use up", "read", "write", "write, answer lost", "start again"]
)
STEPS = st.tuples(st.integers(0, 2), STEP_NAMES)
RACES = st.lists(STEPS, min_size=20, max_size=60)


def ids_issued_twice(race: Race, steps: list[tuple[int, str]]) -> int:
    for broker, what in steps:
        race.step(broker, what)
    return len(race.issued) - len(set(race.issued))


@given(RACES)
def test_concurrent_allocations_never_overlap(steps: list[tuple[int, str]]) -> None:
    assert ids_issued_twice(Race(), steps) == 0


def test_concurrent_allocations_overlap_without_the_version() -> None:
    steps = find(
        RACES,
        lambda steps: ids_issued_twice(Race(is_guarded=False), steps) > 0,
        settings=settings(
            max_examples=20_000, derandomize=True, database=None, phases=[Phase.generate]
        ),
    )
    assert ids_issued_twice(Race(is_guarded=False), steps) > 0


def drawing(brokers: tuple[int, ...] = (0, 1)) -> Bench:
    return Bench(brokers=brokers, brokertwin_zk_producer_id_blocks=True)


def drawn(bench: Bench, broker: int, name: str | None = None) -> tuple[int, int]:
    """Return error and producer id of an InitProducerId."""
    body = {"transactionalId": name, "transactionTimeoutMs": 1000}
    answer = bench.request("INIT_PRODUCER_ID", 4, body, broker=broker)
    return answer["errorCode"], answer["producerId"]


def written(bench: Bench) -> list[VersionedDocument]:
    """Return the written documents with the versions that they replaced."""
    records = [entry["record"] for entry in bench.records()]
    blocks = [each for each in records if each["type"] == "ProducerIdBlockWritten"]
    return [VersionedDocument(each["document"], each["version"]) for each in blocks]


def test_example_1_through_the_brokers() -> None:
    bench = drawing()
    for broker in (0, 1):
        ids = [drawn(bench, broker) for _ in range(BLOCK_SIZE)]
        assert ids == [(0, broker * BLOCK_SIZE + number) for number in range(BLOCK_SIZE)]
    assert [drawn(bench, broker) for broker in (0, 1)] == [(0, 2000), (0, 3000)]
    blocks = [IdBlock(n % 2, n * BLOCK_SIZE, (n + 1) * BLOCK_SIZE - 1) for n in range(4)]
    assert written(bench) == [VersionedDocument(encode(block), n) for n, block in enumerate(blocks)]


def test_restarted_broker_continues_with_its_stored_block() -> None:
    bench = drawing()
    assert drawn(bench, 0) == (0, 0)
    bench.cell = Cell(bench.settings, bench.cell.columns())
    assert [drawn(bench, 0), drawn(bench, 1)] == [(0, 1), (0, 1000)]


@pytest.mark.parametrize("name", [None, "tx"])
def test_all_producers_fail_when_ids_are_exhausted(name: str | None) -> None:
    bench = drawing(brokers=(1,))
    bench.request("FIND_COORDINATOR", 4, {"keyType": 1, "coordinatorKeys": ["tx"]})
    last = encode(IdBlock(9, INT64_MAX - BLOCK_SIZE, INT64_MAX - 1))
    apply(bench.cell.tables, 1, ProducerIdBlockWritten(last, 0))
    assert [drawn(bench, 1, name) for _ in range(2)] == [(Error.UNKNOWN_SERVER_ERROR, -1)] * 2
    assert written(bench) == []


def test_document_with_an_old_version_is_not_written() -> None:
    table = Table()
    _, (first, _) = allocate_block(table, 7)
    _, (second, _) = allocate_block(table, 8)
    assert isinstance(first, ProducerIdBlockWritten)
    assert isinstance(second, ProducerIdBlockWritten)
    apply_written(table, first)
    with pytest.raises(ValueError, match="another version than 0"):
        apply_written(table, second)
    assert allocate_block(table, 8)[0] == BLOCK_SIZE
