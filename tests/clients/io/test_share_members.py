"""Our own members of a share group, beside Kafka's own broker and on a gateway."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from brokertwin.clients.consumer_events import ShareAcknowledged
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.share_consumer import ShareConsumer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from tests.support.batches import START
from tests.support.console import brokertwin
from tests.support.gateways import Client, running_gateway
from tests.support.patience import PATIENCE_S
from tests.support.settled import settle

pytestmark = pytest.mark.clients

PARTITIONS = 2
POLL_MS = 100
EXPLICIT = ShareSettings(is_explicit=True, fetch_max_wait_ms=100)
GROUP_RESOURCE = 32
COMMIT_MS = 10_000
RELEASE, REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT
RENEW = AcknowledgeType.RENEW
KEEP = AcknowledgeType.GAP
"""Stands for none: the record stays its member's."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    beats = {
        "group.share.heartbeat.interval.ms": "300",
        "group.share.min.heartbeat.interval.ms": "300",
    }
    with running_gateway(beats) as running:
        yield running.bootstrap


def topic_of(bootstrap: str, configs: dict[str, str]) -> str:
    """A topic, and a share group of the same name with some settings."""
    made = f"shared-{time.time_ns()}"
    given = [{"name": k, "value": v, "configOperation": 0} for k, v in configs.items()]
    resource = {"resourceType": GROUP_RESOURCE, "resourceName": made, "configs": given}
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        client.topic(made, PARTITIONS)
        response = client.call("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
        assert response["responses"][0]["errorCode"] == 0, response
        settle(client)
    return made


@pytest.fixture
def name(bootstrap: str) -> str:
    return topic_of(bootstrap, {"share.auto.offset.reset": "earliest"})


def write(bootstrap: str, topic: str, *values: bytes, compression: str = "none") -> None:
    with Producer(bootstrap, ProducerConfig(), compression=compression) as producer:
        assert producer.partitions_of(topic, 30_000) == PARTITIONS
        for number, value in enumerate(values):
            producer.send(topic, ProducerRecord(None, value, START), number % PARTITIONS)
        producer.flush(30_000)


class Member:
    """A member that accepts all records except for those with another type given."""

    def __init__(self, bootstrap: str, name: str, kinds: dict[bytes, AcknowledgeType]) -> None:
        self.consumer = ShareConsumer(bootstrap, name, [name], EXPLICIT)
        self.got: list[ShareRecord] = []
        self.reported: list[ShareAcknowledged] = []
        self._kinds = kinds

    def poll(self) -> None:
        taken = self.consumer.poll(POLL_MS)
        self.got += taken
        for each in taken:
            kind = self._kinds.pop(each.record.value, AcknowledgeType.ACCEPT)
            if kind is not AcknowledgeType.GAP:
                self.consumer.acknowledge(each, kind)
        self.consumer.commit(COMMIT_MS)
        self.reported += [e for e in self.consumer.events() if isinstance(e, ShareAcknowledged)]

    def close(self) -> None:
        self.consumer.close()

    @property
    def holds(self) -> bool:
        return bool(self.consumer.client.sharing.held)


def values_of(members: list[Member]) -> list[bytes]:
    return sorted(each.record.value or b"" for member in members for each in member.got)


def until(members: list[Member], is_done: Callable[[], bool]) -> None:
    """Lets them poll until something holds; one that keeps a record does not."""
    end = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < end, values_of(members)
        for member in members:
            if not member.holds:
                member.poll()


def test_members_share_and_acknowledge_records(bootstrap: str, name: str) -> None:
    kinds = {b"release": RELEASE, b"reject": REJECT, b"keep": KEEP, b"renew": RENEW}
    members = [Member(bootstrap, name, kinds) for _ in range(2)]
    until(members, lambda: all(len(each.consumer.assigned) == 1 for each in members))
    sent = [b"%03d" % number for number in range(40)]
    for at in range(0, 40, 10):
        write(bootstrap, name, *sent[at : at + 10], compression="gzip" if at else "none")
    until(members, lambda: len(values_of(members)) >= len(sent))
    assert values_of(members) == sent
    write(bootstrap, name, b"keep", b"release", b"accept", b"reject", b"accept", b"renew")
    until(members, lambda: len(values_of(members)) >= len(sent) + 8)
    twice = [*[b"release"] * 2, *[b"renew"] * 2]
    assert values_of(members)[len(sent) :] == [b"accept", b"accept", b"keep", b"reject", *twice]
    holder = next(member for member in members if member.holds)
    other = next(member for member in members if member is not holder)
    holder.close()
    until([other], lambda: other.got[-1].record.value == b"keep")
    counts = [each.delivery_count for m in members for each in m.got]
    assert sorted(counts) == [1] * (len(sent) + 7) + [2] * 2, "what is renewed is had once"
    write(bootstrap, name, b"last")
    until([other], lambda: other.got[-1].record.value == b"last")
    other.close()
    reported = [each for member in members for each in member.reported]
    assert {each.error for each in reported} == {Error.NONE}
    assert sum(len(each.offsets) for each in reported) == len(sent) + 9


@pytest.mark.processes
def test_the_command_accepts_printed_records(gateway: str) -> None:
    topic = topic_of(gateway, {"share.auto.offset.reset": "earliest"})
    boot = ("--bootstrap", gateway)
    words = ("consume", topic, "--group", topic, "--protocol", "share", "--json", *boot)
    write(gateway, topic, b"one", b"two", b"three", b"four")

    def read(*more: object) -> list[tuple[str, int]]:
        done = brokertwin(*words, *more)
        assert done.returncode == 0, done.stderr
        output = map(json.loads, done.stdout.splitlines())
        return sorted((each["value"], each["deliveryCount"]) for each in output)

    released = read("--acknowledge", "release", "-n", 4)
    assert [count for _, count in released] == [1, 1, 1, 1]
    first = read("-n", 3)
    assert {count for _, count in first} == {2}
    rest = read("--timeout", 0.5)
    assert [value for value, _ in sorted(first + rest)] == ["four", "one", "three", "two"]
    wrong = brokertwin(*words, "--from-beginning")
    assert (wrong.returncode, "share.auto.offset.reset" in wrong.stderr) == (2, True)
