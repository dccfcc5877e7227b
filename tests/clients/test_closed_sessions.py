"""Clients that close their fetch sessions, or never open one (seed 000)."""

import pytest

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.era import Era
from brokertwin.clients.eras import metadata_settings, of_consumer, of_fetches
from brokertwin.clients.fetch_session import SESSIONLESS, FetchSessionHandler, PartitionData
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.partitions import TopicPartition
from tests.support.bench_network import World
from tests.support.fetching import FetchClient, cache
from tests.support.machine import Bench, header

FOO_0 = TopicPartition("foo", 0)


def sessions(world: World) -> list[str]:
    return world.bench.cell.tables.fetch_sessions.keys("1/session/")


def reading() -> tuple[World, ConsumerClient]:
    world = World()
    world.bench.topic("foo", 1)
    consumer = world.consumer("group", "foo")
    world.run(5_000)
    assert len(sessions(world)) == 1
    return world, consumer


def test_closing_consumer_closes_its_session_with_epoch_minus_1() -> None:
    world, consumer = reading()
    consumer.close(world.now)
    assert not consumer.is_quiet
    world.run(2_000)
    assert consumer.is_quiet
    assert sessions(world) == []


def test_closing_consumer_does_not_wait_for_a_lost_broker() -> None:
    world, consumer = reading()
    network = world.networks[consumer]
    consumer.close(world.now)
    for node in network.nodes:
        network.cut(node)
    world.run(2_000)
    assert consumer.is_quiet


def test_handler_closes_only_a_session_that_exists() -> None:
    bench = Bench()
    topic_id = bench.topic("foo", 1)
    client = FetchClient(bench)
    assert not client.handler.notify_close()
    client = FetchClient(bench)
    client.wanted = {FOO_0: PartitionData(0, 0, 1 << 20, topic_id)}
    client.exchange()
    made = client.handler.session_id
    assert client.handler.notify_close()
    assert client.handler.next_metadata == (made, -1)
    client.wanted = {}
    client.exchange()
    assert cache(bench).session(made) is None


def test_before_kip_227_each_request_is_full_and_without_a_session() -> None:
    bench = Bench()
    topic_id = bench.topic("foo", 1)
    client = FetchClient(bench)
    client.handler = FetchSessionHandler(uses_sessions=False)
    client.wanted = {FOO_0: PartitionData(0, 0, 1 << 20, topic_id)}
    for _ in range(3):
        bench.append("foo", header())
        body, version = client.next_request()
        assert (body["sessionId"], body["sessionEpoch"]) == SESSIONLESS == (0, -1)
        assert [len(topic["partitions"]) for topic in body["topics"]] == [1]
        assert client.take(bench.request("FETCH", version, body), version).is_accepted
    client.handler.handle_error()
    assert client.handler.next_metadata == SESSIONLESS


@pytest.mark.parametrize(("era", "count"), [(Era.KAFKA_0_10, 0), (Era.KAFKA_2_0, 1)])
def test_consumer_of_an_era_reads_with_or_without_a_session(era: Era, count: int) -> None:
    world = World()
    world.bench.topic("foo", 1)
    world.bench.append("foo", header(locator="1"))
    fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST)
    client = ConsumerClient(
        of_consumer(era, ConsumerConfig(group_id="group")),
        of_fetches(era, fetches),
        frozenset({"foo"}),
        world.draw(),
        metadata=metadata_settings(era),
    )
    world.read[client] = []
    world.added(client)
    world.run(5_000)
    assert client.subscription.positions == {FOO_0: 1}
    assert len(sessions(world)) == count
