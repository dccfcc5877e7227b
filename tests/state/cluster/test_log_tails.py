"""Ends of logs: what they keep is what a new look-up finds, after every event of a history."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from brokertwin.state.cell import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.cluster.machines import PartitionTail, tail_of
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Chunk, Log, chunk_key, log_key
from brokertwin.state.logs.producer import ProducerStateEntry, producer_key
from brokertwin.state.replication import copying
from tests.support.histories import observing, seeded
from tests.support.machine import Bench, header

SEEDS = range(12)


@pytest.fixture(autouse=True)
def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log keeps the headers of four batches; older ones are sealed."""
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)


def compare(cell: Cell) -> int:
    """Compare the open ends of logs with the items and rules; return how many there are."""
    tables = cell.tables
    kept = dict(tables.tails)
    for place, tail in kept.items():
        machine, topic_id, partition = place
        assert tables.logs.get(log_key(*place), Log) is tail.log, place
        if tail._chunk is not None:
            key = chunk_key(*place, tail.log.chunks[-1].number)
            assert tables.logs.get(key, Chunk) is tail._chunk, key
        for producer_id, known in {**tail._known, **tail._written}.items():
            key = producer_key(*place, producer_id)
            assert tables.producers.get(key, ProducerStateEntry) is known, key
        tables.tails.clear()
        fresh = tail_of(tables.of(machine), topic_id, partition)
        assert fresh is not None
        assert (fresh.rules, fresh.is_only_replica) == (tail.rules, tail.is_only_replica), place
        if tail.topic_rules is not None:
            broker = cell.broker(machine)
            topic = broker.topic_by_id(topic_id)
            assert topic is not None and topic.name not in INTERNAL_TOPICS
            assert topic.partitions[partition].leader == machine
            assert not copying.has_too_few_in_sync(broker, topic, partition)
            assert broker.rules_of(topic) == tail.topic_rules
    tables.tails.clear()
    tables.tails.update(kept)
    return len(kept)


@contextmanager
def compared() -> Iterator[list[int]]:
    """Compare after every event of every cell, including those that generate histories."""
    counts: list[int] = []

    def receive(cell: Cell, _: bytes, rows: list[Output]) -> None:
        assert not any(b'"reason":"fault"' in (row.value or b"") for row in rows), rows
        counts.append(compare(cell))

    with observing(receive):
        yield counts


def test_kept_ends_of_logs_are_those_of_the_tables() -> None:
    with compared() as counts:
        for seed in SEEDS:
            seeded(seed, 80)
    assert sum(count > 0 for count in counts) > 100


def test_record_that_leaves_an_end_open_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "KEEPS_TAILS", apply.KEEPS_TAILS | {PartitionAltered})
    with pytest.raises(AssertionError):
        test_kept_ends_of_logs_are_those_of_the_tables()


def kept(bench: Bench) -> list[PartitionTail]:
    return list(bench.cell.tables.tails.values())


def unchecked() -> Bench:
    """A bench whose invariants are not checked: a check closes the ends of logs."""
    bench = Bench()
    bench.is_checked = False
    bench.topic("t")
    return bench


def test_end_is_kept_until_the_next_commit() -> None:
    bench = unchecked()
    bench.append("t", header())
    (first,) = kept(bench)
    bench.append("t", header())
    assert kept(bench) == [first]
    bench.cell.commit()
    assert kept(bench) == []
    bench.append("t", header())
    assert first.log is kept(bench)[0].log, "the item itself stays"


def test_end_is_closed_by_a_check_and_by_a_rollback() -> None:
    bench = unchecked()
    bench.append("t", header())
    bench.cell.tables.take_touched()
    assert kept(bench) == [], "a check has to see later changes of the same items"
    bench.append("t", header())
    end = kept(bench)[0].log.log_end_offset
    bench.cell.tables.rollback()
    assert kept(bench) == []
    assert end == 2
