"""`brokertwin offsets clean` at a gateway: its checks, the dry run, and deletions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.commits import commit
from tests.support.console import brokertwin
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S, wait_until


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A gateway with topic `orders` of two partitions."""
    with running_gateway({"group.initial.rebalance.delay.ms": "0"}) as running:
        create(running.bootstrap, "orders")
        yield running.bootstrap


ORDERS = (("orders", 0), ("orders", 1))


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(PATIENCE_S)


def results(stdout: str) -> list[tuple[object, ...]]:
    documents = [json.loads(line) for line in stdout.splitlines()]
    return [(each["topic"], each["partition"], each["result"]) for each in documents]


def test_a_dry_run_deletes_nothing_and_execute_deletes_every_offset(
    bootstrap: str, tmp_path: Path
) -> None:
    for partition in (0, 1):
        commit(bootstrap, "billing", "orders", 5, partition)
    for words, result in (((), "would be deleted"), (("--execute",), "deleted")):
        done = brokertwin("offsets", "clean", bootstrap, "billing", "--json", *words, cwd=tmp_path)
        assert (done.returncode, results(done.stdout)) == (
            0,
            [("orders", 0, result), ("orders", 1, result)],
        )
    again = brokertwin("offsets", "clean", bootstrap, "billing")
    assert again.returncode == 2
    assert "has no committed offsets" in again.stderr
    (saved,) = tmp_path.iterdir()
    assert f"undo it with: brokertwin offsets undo {saved.name} {bootstrap}" in done.stderr
    undone = brokertwin("offsets", "undo", saved, bootstrap, "--json")
    assert (undone.returncode, results(undone.stdout)) == (
        0,
        [("orders", 0, "undone"), ("orders", 1, "undone")],
    )
    again = brokertwin("offsets", "clean", bootstrap, "billing", "--json")
    assert results(again.stdout) == [(topic, n, "would be deleted") for topic, n in ORDERS]


def test_offsets_in_zookeeper_are_cleaned(tmp_path: Path) -> None:
    """The store of seed 003, whose groups without members no broker lists."""
    with running_gateway({"brokertwin.offset.storage": "zookeeper"}) as running:
        create(running.bootstrap, "orders")
        commit(running.bootstrap, "billing", "orders", 5)
        words = ("offsets", "clean", running.bootstrap, "billing", "--json", "--execute")
        done = brokertwin(*words, cwd=tmp_path)
        assert (done.returncode, results(done.stdout)) == (0, [("orders", 0, "deleted")])
        again = brokertwin("offsets", "clean", running.bootstrap, "billing")
        assert (again.returncode, "does not exist" in again.stderr) == (2, True)


def test_a_group_that_does_not_exist_is_refused(bootstrap: str) -> None:
    done = brokertwin("offsets", "clean", bootstrap, "nobody", "--execute")
    assert done.returncode == 2
    assert "Group nobody does not exist" in done.stderr


def test_a_group_with_members_is_refused(bootstrap: str) -> None:
    commit(bootstrap, "busy", "orders", 5)
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": "busy"})
    member.subscribe(["orders"])
    wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()))
    done = brokertwin("offsets", "clean", bootstrap, "busy", "--execute")
    member.close()
    assert done.returncode == 2
    assert "Group busy has live members: its state is Stable" in " ".join(done.stderr.split())
    assert brokertwin("offsets", "clean", bootstrap, "busy").returncode == 0
