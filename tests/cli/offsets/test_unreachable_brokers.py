"""`brokertwin offsets` at a cluster whose brokers advertise names that cannot be resolved."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.offsets import group_offsets
from tests.support.commits import commit
from tests.support.console import brokertwin
from tests.support.gateways import running_gateway

NAMES = {1: Address("kafka-0.kafka.invalid", 9092), 2: Address("kafka-1.kafka.invalid", 9092)}
GROUPS = [f"billing-{number}" for number in range(8)]
"""Enough that each of two brokers coordinates one."""


@pytest.fixture(scope="module")
def unreachable() -> Iterator[str]:
    """A cluster of one broker that advertises a name without an address."""
    with running_gateway() as running:
        bootstrap = running.bootstrap
        running.gateway.addresses[1] = NAMES[1]
        yield bootstrap


@pytest.fixture
def half_reachable() -> Iterator[ClientProperties]:
    """A cluster whose second broker cannot be reached; topic `orders` has a leader on each."""
    with running_gateway(brokers=2) as running:
        bootstrap = running.bootstrap
        with running.client() as client:
            client.topic("orders", 2)
        for group in GROUPS:
            commit(bootstrap, group, "orders", 0)
        running.gateway.addresses[2] = NAMES[2]
        yield ClientProperties({"bootstrap.servers": bootstrap})


@pytest.mark.parametrize(
    "words",
    [
        ("export", "billing.csv", "--to", "BOOTSTRAP", "--dry-run"),
        ("clean", "BOOTSTRAP", "billing"),
        ("import", "BOOTSTRAP", "backup"),
        ("show", "BOOTSTRAP"),
        ("undo", "saved.json", "BOOTSTRAP"),
    ],
    ids=lambda words: words[0],
)
def test_unreachable_advertised_address_is_named(
    unreachable: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "billing.csv").write_text("billing,orders,0,5\n")
    (tmp_path / "saved.json").write_text('{"cluster": "c", "changes": []}')
    words = tuple(word.replace("BOOTSTRAP", unreachable) for word in words)
    done = brokertwin("offsets", *words, cwd=tmp_path)
    assert done.returncode == 2
    message = f"Kafka at {unreachable} advertises kafka-0.kafka.invalid:9092, which this machine"
    assert done.stderr.replace("\n", " ").startswith(message)


def test_address_of_one_broker_is_named_after_a_timeout(
    half_reachable: ClientProperties, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client then returns offsets of -1001 without an error (confluent-kafka 2.16)."""
    monkeypatch.setattr(group_offsets, "KAFKA_TIMEOUT_S", 1.0)
    with pytest.raises(UserError, match=r"advertises kafka-1\.kafka\.invalid:9092, which"):
        group_offsets.logs(half_reachable, [("orders", 0), ("orders", 1)])
    assert group_offsets.cluster_id(half_reachable)


def test_address_of_a_coordinator_is_named(half_reachable: ClientProperties) -> None:
    messages = []
    for group in GROUPS:
        try:
            group_offsets.deletable(half_reachable, group)
        except UserError as error:
            messages.append(error.message)
    assert messages
    assert all("advertises kafka-1.kafka.invalid:9092, which" in each for each in messages)
