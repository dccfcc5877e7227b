"""Subscriptions by pattern in classic and consumer groups."""

import re

import pytest

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.consumer_events import ConsumerFailed
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.errors import Error
from tests.support.bench_network import FIRST_PORT, World

AGE_MS = 300_000
SETTLED_MS = 4_000
MODERN = {"group_protocol": GroupProtocol.CONSUMER}


def world(*topics: str) -> World:
    made = World()
    for topic in topics:
        made.bench.topic(topic, 1)
    return made


def owned(member: ConsumerClient) -> list[str]:
    return [at.topic for at in member.subscription.assigned]


def settled(made: World) -> None:
    made.run(SETTLED_MS)


def test_example_42_a_classic_member_follows_matching_topics() -> None:
    made = world("orders-eu", "orders-us", "payments", "old-orders-eu")
    member = made.consumer("g", pattern="orders-.*", enable_auto_commit=False)
    settled(made)
    assert owned(member) == ["orders-eu", "orders-us"]
    made.bench.topic("orders-asia", 1)
    made.bench.request("DELETE_TOPICS", 5, topicNames=["orders-us"], timeoutMs=1_000)
    member.metadata.last_successful_refresh_ms -= AGE_MS  # metadata.max.age.ms is over
    settled(made)
    settled(made)
    assert owned(member) == ["orders-asia", "orders-eu"]


def test_example_43_a_member_joins_after_it_knows_matching_topics() -> None:
    made = world("orders")
    for reported in (-1, 1):  # # the first Metadata request creates the topic
        request = {"coordinatorKeys": ["g"], "keyType": 0}
        (coordinator,) = made.bench.request("FIND_COORDINATOR", 6, request)["coordinators"]
        assert coordinator["nodeId"] == reported
    member = made.consumer("g", pattern="orders")
    network = made.networks[member]
    network.is_mute = True
    member.coordinator.coordinator = Node(1, "localhost", FIRST_PORT + 1)
    made.run(1_000)
    assert network.requested["JOIN_GROUP"] == 0
    network.is_mute = False
    settled(made)
    assert (owned(member), network.requested["JOIN_GROUP"]) == (["orders"], 2), (
        "79, then with the id"
    )


def test_internal_topics_do_not_match() -> None:
    made = world("orders")
    made.run(500)
    first = made.consumer("g", "orders")  # there is __consumer_offsets from now on
    settled(made)
    second = made.consumer("h", pattern=".*")
    settled(made)
    assert (owned(first), owned(second)) == (["orders"], ["orders"])


def test_an_unmatched_pattern_waits_for_its_topic() -> None:
    made = world("payments")
    member = made.consumer("g", pattern="orders")
    settled(made)
    assert owned(member) == []
    made.bench.topic("orders", 1)
    member.metadata.last_successful_refresh_ms -= AGE_MS
    settled(made)
    settled(made)
    assert owned(member) == ["orders"]


def test_a_leader_with_a_pattern_assigns_known_topics_only() -> None:
    made = world("orders", "payments")
    member = made.consumer("g", pattern="orders")
    settled(made)
    assert member.coordinator.is_leader
    other = ConsumerClient(
        ConsumerConfig(group_id="g"),
        FetchSettings(),
        frozenset({"payments", "not-there"}),
        made.draw(),
        may_create_topics=False,
    )
    made.read[other] = []
    made.added(other)
    settled(made)
    assert (owned(member), owned(other)) == (["orders"], ["payments"])


def test_an_invalid_regular_expression_is_rejected() -> None:
    with pytest.raises(re.error):
        world().consumer("g", pattern="orders(")


def test_example_44_in_a_consumer_group_the_coordinator_matches_and_ids_are_looked_up() -> None:
    made = world("orders-eu", "payments")
    producer = made.producer()
    producer.send(made.now, TopicPartition("orders-eu", 0), 10)
    member = made.consumer("g", pattern="orders-.*", **MODERN)
    settled(made)
    assert owned(member) == ["orders-eu"]
    assert [at for at, *_ in made.read[member]] == [TopicPartition("orders-eu", 0)]
    assert member.metadata.snapshot.by_topic.keys() == {"orders-eu"}
    made.bench.topic("orders-asia", 1)
    made.bench.request("DELETE_TOPICS", 5, topicNames=["orders-eu"], timeoutMs=1_000)
    made.run(15_000)  # the coordinator looks every ten seconds
    assert owned(member) == ["orders-asia"]


def test_example_45_a_coordinator_rejects_an_invalid_pattern() -> None:
    made = world("orders")
    member = made.consumer("g", pattern="orders(", **MODERN)
    settled(made)
    assert member.events() == [ConsumerFailed(Error.INVALID_REGULAR_EXPRESSION)]
