"""Our own consumer's coordinator in one group with other clients, on Kafka and on a gateway."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from brokerstream.clients.assignors.assign import AssignorName
from brokerstream.gateway.answers import Address
from tests.gateway.test_group_clients import ConfluentMember, PythonMember, poll_until
from tests.support.gateways import Client, running_gateway
from tests.support.socket_members import SocketMember, SocketReader

PARTITIONS = 6
COOPERATIVE = "cooperative-sticky"


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway({"group.initial.rebalance.delay.ms": "100"}) as running:
        yield running.bootstrap


@pytest.fixture(params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def topic_at(bootstrap: str, name: str) -> str:
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        client.topic(name, PARTITIONS)
    return name


def shared(members: list[Any], *sizes: int) -> list[set[int]]:
    """What members have once each partition has one owner, and they so many."""

    def is_shared(_: list[bytes]) -> bool:
        owned = [partition for member in members for partition in member.assigned()]
        counts = sorted(len(member.assigned()) for member in members)
        return sorted(owned) == list(range(PARTITIONS)) and counts == sorted(sizes)

    poll_until(members, is_shared)
    return [member.assigned() for member in members]


def test_a_member_of_ours_leads_kafka_python_and_librdkafka(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "range-in-one-group")
    broker: Any = SimpleNamespace(bootstrap=bootstrap)
    ours = SocketMember(bootstrap, topic, PARTITIONS, AssignorName.RANGE)
    members: list[Any] = [ours]
    shared(members, 6)
    assert ours.coordinator.is_leader
    ours.seek(7)
    members.append(PythonMember(broker, topic))
    members.append(ConfluentMember(broker, topic))
    shared(members, 2, 2, 2)
    assert ours.coordinator.is_leader
    assert {"Revoked", "Assigned", "Committed"} <= set(ours.events)
    stored = [confluent_kafka.TopicPartition(topic, at) for at in range(PARTITIONS)]
    committed = members[2].consumer.committed(stored, timeout=30)
    assert {each.offset for each in committed} == {7}
    ours.close()
    shared(members[1:], 3, 3)
    for member in members[1:]:
        member.close()


def test_members_of_ours_follow_and_take_over_what_others_committed(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "cooperative-in-one-group")
    broker: Any = SimpleNamespace(bootstrap=bootstrap)
    strategy = {"partition.assignment.strategy": COOPERATIVE}
    other = ConfluentMember(broker, topic, **strategy)
    shared([other], 6)
    offsets = [confluent_kafka.TopicPartition(topic, at, 9) for at in range(PARTITIONS)]
    other.consumer.commit(offsets=offsets, asynchronous=False)
    ours = [
        SocketMember(bootstrap, topic, PARTITIONS, AssignorName.COOPERATIVE_STICKY)
        for _ in range(2)
    ]
    shared([other, *ours], 2, 2, 2)
    poll_until([*ours], lambda _: set(ours[0].positions().values()) == {9})
    kept = [member.assigned() for member in ours]
    other.close()
    now = shared(ours, 3, 3)
    assert all(before <= after for before, after in zip(kept, now, strict=True))
    assert {offset for member in ours for offset in member.positions().values()} <= {9, None}
    assert all("Lost" not in member.events for member in ours)
    for member in ours:
        member.close()


def test_members_of_ours_read_each_record_and_go_on_where_they_have_committed(
    bootstrap: str,
) -> None:
    topic = topic_at(bootstrap, "read-by-ours")
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})

    def fill(count: int) -> None:
        for number in range(count * PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(30) == 0

    def places(first: int, end: int) -> list[bytes]:
        return sorted(b"%d@%d" % (p, at) for p in range(PARTITIONS) for at in range(first, end))

    fill(20)
    ours = [SocketReader(bootstrap, topic, PARTITIONS, AssignorName.RANGE) for _ in range(2)]
    read = poll_until([*ours], lambda read: len(set(read)) == 20 * PARTITIONS)
    assert sorted(set(read)) == places(0, 20)
    shared(ours, 3, 3)
    for member in ours:
        member.close()
    fill(5)
    again = SocketReader(bootstrap, topic, PARTITIONS, AssignorName.RANGE)
    read = poll_until([again], lambda read: len(read) >= 5 * PARTITIONS)
    assert sorted(read) == places(20, 25)
    again.close()
