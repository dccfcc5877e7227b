"""What `brokertwin gc` may delete: nothing that a log has, or may still get."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.kafka_io.locators import Locator
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import SegmentKey
from brokertwin.state.logs import log as logs
from brokertwin.streaming.checkpoint import garbage
from brokertwin.streaming.checkpoint.garbage import NOT_DECIDED, YOUNG, Cut, Extent, Need
from tests.support.examples import examples
from tests.support.machine import CLUSTER, START, Bench, header

DATA_PARTITIONS = 2
TOPICS = ("a", "b")


@pytest.fixture(autouse=True, scope="module")
def small_index() -> Iterator[None]:
    """A log keeps four batches in state; the others are sealed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
        patch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
        yield


def need(partition: int, offset: int, by: str = "someone") -> Need:
    return Need(Locator(partition, offset, 1), by)


def test_a_partition_is_deleted_up_to_the_first_needed_row() -> None:
    extents = {0: Extent(5, 80, 100), 1: Extent(0, 40, 40), 2: Extent(0, 40, 60)}
    needs = [need(0, 30, "later"), need(0, 20, "first"), need(2, 50), need(7, 0)]
    cuts = garbage.plan(extents, needs)
    assert cuts == [Cut(0, 5, 20, 100, "first"), Cut(1, 0, 40, 40, ""), Cut(2, 0, 40, 60, YOUNG)]
    assert [(cut.freed, cut.kept) for cut in cuts] == [(15, 80), (40, 0), (40, 20)]


def test_needed_but_lost_rows_free_nothing() -> None:
    assert garbage.plan({0: Extent(5, 9, 9)}, [need(0, 3)]) == [Cut(0, 5, 5, 9, "someone")]


@given(
    st.dictionaries(st.integers(0, 3), st.tuples(*[st.integers(0, 50)] * 3), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=20),
)
def test_plans_delete_exactly_unneeded_old_rows(
    sizes: dict[int, tuple[int, int, int]], places: list[tuple[int, int]]
) -> None:
    extents = {number: Extent(*sorted(three)) for number, three in sizes.items()}
    cuts = garbage.plan(extents, (need(*place) for place in places))
    assert [cut.partition for cut in cuts] == sorted(extents)
    for cut in cuts:
        extent = extents[cut.partition]
        needed = {offset for partition, offset in places if partition == cut.partition}
        limits = needed | {extent.young}
        assert cut.below == max(extent.start, min(limits))
        assert not any(cut.start <= offset < cut.below for offset in limits)


def test_every_locator_of_any_event_is_kept() -> None:
    event = b'{"x": [{"locator":"1:2:3"}, {"locator" : "0:7:9"}, {"locator": "memory"}, {"locator'
    assert list(garbage.needed_by_event(event)) == [
        Need(Locator(1, 2, 3), NOT_DECIDED),
        Need(Locator(0, 7, 9), NOT_DECIDED),
    ]


class World:
    """Gateways that write batches and then events, a job that reads them, and a collector."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.ends = [0] * DATA_PARTITIONS
        self.starts = [0] * DATA_PARTITIONS
        self.in_flight: list[Locator] = []
        self.requests: list[bytes] = []
        self.read = 0
        self.sealed: dict[SegmentKey, bytes | None] = {}
        self.logs: dict[str, dict[int, Locator]] = {}
        for name in TOPICS:
            self.create(name)
        self.decide(len(TOPICS))

    def event(self, key: int, version: int, body: dict[str, Any]) -> None:
        number = len(self.requests)
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
        frame = {"id": f"e{number}", "cluster": CLUSTER, "time": START, "nonce": f"n{number}"}
        document = {**frame, "requestHeader": header, "request": body}
        self.requests.append(msgspec.json.encode(document))

    def create(self, name: str) -> None:
        topic = {"name": name, "numPartitions": 1, "replicationFactor": 1}
        self.event(19, 7, {"topics": [topic], "timeoutMs": 1000})

    def delete_topic(self, name: str) -> None:
        self.event(20, 5, {"topicNames": [name], "timeoutMs": 1000})

    def delete_records(self, name: str, offset: int) -> None:
        wanted = [{"partitionIndex": 0, "offset": offset}]
        self.event(21, 2, {"topics": [{"name": name, "partitions": wanted}], "timeoutMs": 1000})

    def put(self, partition: int) -> None:
        self.in_flight.append(Locator(partition, self.ends[partition], 100))
        self.ends[partition] += 1

    def produce(self, name: str, place: int) -> None:
        """One of the batches in flight, not always the oldest, gets its event."""
        if not self.in_flight:
            return
        locator = self.in_flight.pop(place % len(self.in_flight))
        data = [{"index": 0, "batches": [header(size=100, locator=str(locator))]}]
        self.event(0, 11, {"acks": -1, "topicData": [{"name": name, "partitionData": data}]})

    def decide(self, count: int) -> None:
        for document in self.requests[self.read : self.read + count]:
            for row in self.bench.handle(document):
                if row.topic == outputs.SEGMENTS:
                    self.sealed[msgspec.json.decode(row.key or b"", type=SegmentKey)] = row.value
                elif row.topic == outputs.RECORDS:
                    self.follow(msgspec.json.decode(row.value or b"")["record"])
            self.read += 1

    def follow(self, record: dict[str, Any]) -> None:
        """Follow the logs by the history that the job writes."""
        if record["type"] == "BatchAppended":
            batch = record["batch"]
            locator = Locator.of(batch["locator"])
            assert locator is not None
            self.logs.setdefault(record["topicId"], {})[batch["baseOffset"]] = locator
        elif record["type"] == "LogStartMoved":
            log = self.logs[record["topicId"]]
            for offset in [offset for offset in log if offset < record["logStartOffset"]]:
                del log[offset]
        elif record["type"] == "TopicRemoved":
            self.logs.pop(record["topicId"], None)

    def live(self) -> set[Locator]:
        """Return needed locators: the index in state, and sealed segments above the log start."""
        tables = self.bench.cell.tables
        found = {need.locator for need in garbage.needed_by_logs(CLUSTER, tables)}
        for key, named in garbage.named_segments(CLUSTER, tables).items():
            row = self.sealed[key]
            assert row is not None
            found |= {need.locator for need in garbage.needed_by_segment(named, row)}
        return found

    def collect(self) -> None:
        """Collect as `brokertwin gc` does, with a safe age for older events."""
        young = list(self.ends)
        for locator in self.in_flight:
            young[locator.partition] = min(young[locator.partition], locator.offset)
        extents = {
            partition: Extent(self.starts[partition], young[partition], self.ends[partition])
            for partition in range(DATA_PARTITIONS)
        }
        needs = [Need(locator, "log") for locator in self.live()]
        for document in self.requests[self.read :]:
            needs += garbage.needed_by_event(document)
        for cut in garbage.plan(extents, needs):
            self.starts[cut.partition] = cut.below

    def assert_nothing_live_is_lost(self) -> None:
        in_logs = {locator for log in self.logs.values() for locator in log.values()}
        wanted = in_logs | set(self.in_flight)
        assert {each for each in wanted if each.offset < self.starts[each.partition]} == set()
        assert self.live() == in_logs


NAMES = st.sampled_from(TOPICS)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, DATA_PARTITIONS - 1)),
    st.tuples(st.just("produce"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("decide"), st.integers(1, 9)),
    st.tuples(st.just("delete_records"), NAMES, st.integers(-1, 20)),
    st.tuples(st.just("collect")),
    st.tuples(st.sampled_from(["create", "delete_topic"]), NAMES),
)


@settings(max_examples=examples(40))
@given(st.integers(0, 30), st.lists(STEPS, min_size=10, max_size=60))
def test_concurrent_events_lose_no_live_rows(filled: int, steps: list[Any]) -> None:
    world = World()
    for number in range(filled):
        world.put(number % DATA_PARTITIONS)
        world.produce("a", 0)
    world.decide(filled // 2)
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
        world.assert_nothing_live_is_lost()
    world.decide(len(world.requests))
    world.assert_nothing_live_is_lost()


def test_all_rows_are_deleted_when_unreferenced() -> None:
    world = World()
    for number in range(25):
        world.put(number % DATA_PARTITIONS)
        world.produce("a" if number % 3 else "b", 0)
    world.delete_records("a", -1)
    world.delete_topic("b")
    world.collect()
    assert world.starts == [0, 0]
    world.decide(100)
    world.collect()
    assert world.starts == world.ends == [13, 12]


def test_a_rejected_batch_is_deleted() -> None:
    world = World()
    world.put(0)
    world.produce("nowhere", 0)
    world.put(0)
    world.produce("a", 0)
    world.decide(9)
    world.collect()
    assert world.starts == [1, 0]
    assert world.live() == {Locator(0, 1, 100)}
