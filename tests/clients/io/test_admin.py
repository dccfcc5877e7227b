"""Our admin over sockets on three brokers, of Kafka and of a gateway: each key to its broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokertwin.clients import admin_calls
from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.io.admin import Admin
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.messages import Message
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.gateway.answers import Address
from brokertwin.state.core.errors import Error
from tests.support.gateways import Client, running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until
from tests.support.socket_members import OurMember

pytestmark = [pytest.mark.kafka, pytest.mark.clients]

TOPIC, PARTITIONS, RECORDS = "spread", 6, 60
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
ALL = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
EARLIEST, LATEST = -2, -1
GROUPS = ("one", "two", "three", "four")
TRANSACTIONS = ("t-one", "t-two", "t-three")


@contextmanager
def kafkas(home: Path) -> Iterator[str]:
    with kafka_cluster(home, 3, SETTINGS) as nodes:
        yield nodes[1][1]


@contextmanager
def gateways(_home: Path) -> Iterator[str]:
    with running_gateway(SETTINGS, brokers=3) as running:
        yield running.bootstrap


@pytest.fixture(scope="module", params=[kafkas, gateways], ids=["kafka", "gateway"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Six partitions with ten records each, two on each broker."""
    with request.param(tmp_path_factory.mktemp("admin")) as address:
        host, _, port = address.split(",")[0].rpartition(":")
        with Client(Address(host, int(port))) as client:
            assigned = [
                {"partitionIndex": n, "brokerIds": [n % 3 + 1, (n + 1) % 3 + 1]}
                for n in range(PARTITIONS)
            ]
            topic = {"name": TOPIC, "numPartitions": -1, "replicationFactor": -1}
            body = {"topics": [topic | {"assignments": assigned}], "timeoutMs": 10_000}
            assert client.call("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0
            for name in GROUPS:
                client.topic(name, 1)
        with Producer(address, ProducerConfig()) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, Message(None, b"%d" % number), partition=number % PARTITIONS)
            producer.flush(30_000)
        yield address


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as made:
        yield made


def ends(admin: Admin, timestamp: int = LATEST) -> dict[TopicPartition, int]:
    found = admin.run(admin_calls.list_offsets(dict.fromkeys(ALL, timestamp)))
    assert {outcome.error for outcome in found.values()} == {Error.NONE}
    return {key: outcome.value.offset for key, outcome in found.items()}  # type: ignore[misc]


def is_told_by_leaders(admin: Admin) -> bool:
    """Whether the high watermark of each leader is at the end: they know it a bit later."""
    return ends(admin) == dict.fromkeys(ALL, RECORDS // PARTITIONS)


def test_each_leader_tells_the_ends_of_its_partitions(admin: Admin) -> None:
    assert ends(admin) == dict.fromkeys(ALL, RECORDS // PARTITIONS)
    assert set(admin.client.metadata.snapshot.nodes) == {1, 2, 3}


def test_leaders_that_have_moved_are_found(admin: Admin, bootstrap: str) -> None:
    """The admin knows the leaders of before: they refuse, and it looks again."""
    before = ends(admin)
    known = admin.client.metadata.snapshot
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(Address(host, int(port))) as client:
        moved = [
            {"partitionIndex": n, "replicas": [(n + 1) % 3 + 1, n % 3 + 1]}
            for n in range(PARTITIONS)
        ]
        body = {"timeoutMs": 10_000, "topics": [{"name": TOPIC, "partitions": moved}]}
        assert client.call("ALTER_PARTITION_REASSIGNMENTS", 0, body)["errorCode"] == 0
        elect = {"electionType": 0, "topicPartitions": None, "timeoutMs": 10_000}

        def is_moved() -> bool:
            client.call("ELECT_LEADERS", 2, elect)
            (topic,) = client.call("METADATA", 12, {"topics": [{"name": TOPIC}]})["topics"]
            return all(
                each["leaderId"] == (each["partitionIndex"] + 1) % 3 + 1
                for each in topic["partitions"]
            )

        wait_until(is_moved, "the other replica leads each partition")
    assert admin.client.metadata.snapshot is known
    wait_until(lambda: ends(admin) == before and has_found(admin), "new leaders tell the same")


def has_found(admin: Admin) -> bool:
    """Whether the admin knows the leaders that there are now."""
    known = admin.client.metadata.snapshot.partitions
    return all(known[key].leader_id == (key.partition + 1) % 3 + 1 for key in ALL)


def test_records_are_deleted_at_each_leader(admin: Admin) -> None:
    """What lies above the high watermark cannot be."""
    wait_until(lambda: is_told_by_leaders(admin), "the high watermark is at the end")
    found = admin.run(admin_calls.delete_records(dict.fromkeys(ALL, 4)))
    assert {outcome.error for outcome in found.values()} == {Error.NONE}
    assert ends(admin, EARLIEST) == dict.fromkeys(ALL, 4)


def have_joined(members: list[OurMember]) -> bool:
    """Polls each of them; whether all have a partition."""
    for member in members:
        member.poll()
    return all(member.assigned() for member in members)


def test_groups_are_described_and_deleted_by_their_coordinators(
    admin: Admin, bootstrap: str
) -> None:
    members = [OurMember(bootstrap, name, AssignorName.RANGE) for name in GROUPS]
    try:
        wait_until(lambda: have_joined(members), "each group has its member")
        found = admin.run(admin_calls.describe_groups([*GROUPS, "nobody"]))
        states = {key: outcome.value.group_state for key, outcome in found.items()}
        assert states == dict.fromkeys(GROUPS, "Stable") | {"nobody": "Dead"}
        refused = admin.run(admin_calls.delete_groups(GROUPS))
        assert {outcome.error for outcome in refused.values()} == {Error.NON_EMPTY_GROUP}
    finally:
        for member in members:
            member.close()
    listed = admin.run(admin_calls.list_groups())
    assert set(listed) == {1, 2, 3}
    names = [group.group_id for outcome in listed.values() for group in outcome.value]
    assert sorted(name for name in names if name in GROUPS) == sorted(GROUPS)
    deleted = admin.run(admin_calls.delete_groups([*GROUPS, "nobody"]))
    errors = {key: outcome.error for key, outcome in deleted.items()}
    gone = dict.fromkeys(GROUPS, Error.NONE)
    assert errors == gone | {"nobody": Error.GROUP_ID_NOT_FOUND}


def test_transactions_are_described_by_their_coordinators(admin: Admin, bootstrap: str) -> None:
    for name in TRANSACTIONS:
        with Producer(bootstrap, ProducerConfig(transactional_id=name)) as producer:
            producer.init_transactions()
    found = admin.run(admin_calls.describe_transactions([*TRANSACTIONS, "nobody"]))
    errors = {key: outcome.error for key, outcome in found.items()}
    known = dict.fromkeys(TRANSACTIONS, Error.NONE)
    assert errors == known | {"nobody": Error.TRANSACTIONAL_ID_NOT_FOUND}
    assert {found[name].value.transaction_state for name in TRANSACTIONS} == {"Empty"}


def test_a_topic_that_there_is_not_times_out(admin: Admin) -> None:
    nowhere = TopicPartition("nowhere", 0)
    found = admin.run(admin_calls.list_offsets({nowhere: LATEST, ALL[0]: LATEST}), 1_500)
    assert found[nowhere].error is Error.REQUEST_TIMED_OUT
    assert found[ALL[0]].error is Error.NONE
