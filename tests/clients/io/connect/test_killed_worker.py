"""Two workers in separate processes, one is killed: all lines are copied.

On a gateway and on Kafka.
"""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from brokertwin.clients.io.connect.logs import read_whole
from tests.clients.io.test_consumer_members import topic_at
from tests.support.connect_commands import Files, Process
from tests.support.gateways import running_gateway
from tests.support.patience import wait_until

pytestmark = pytest.mark.processes

SETTINGS = {"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "500"}
NUMBERS = count(1)


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway(SETTINGS) as running:
        yield running.bootstrap


@pytest.fixture(params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    bootstrap = str(request.getfixturevalue(request.param))
    topic = topic_at(bootstrap, f"moved-{next(NUMBERS)}")
    return Files(
        tmp_path,
        topic,
        bootstrap,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        scheduled_rebalance_max_delay_ms=1_000,
        exactly_once_source_support="enabled",
    )


def topic_of(files: Files, setting: str) -> str:
    output = "".join(file.read_text() for file in (files.worker, *files.connectors))
    return output.partition(f"\n{setting}=")[2].split()[0]


def running_at(files: Files) -> dict[str, int]:
    """What runs by the status topic, and in which process."""
    read = read_whole(files.bootstrap, topic_of(files, "status.storage.topic"))
    reported = {(m.key or b"").decode(): json.loads(m.value or b"{}") for m in read}
    return {
        key.removeprefix("status-"): int(each["worker_id"].split(":")[1])
        for key, each in reported.items()
        if each.get("state") == "RUNNING"  # a topic that a connector uses has none
    }


ALL = ("connector-copy", "connector-lines", "task-copy-0", "task-copy-1", "task-lines-0")


def test_example_20_the_file_is_complete_after_a_worker_kill(files: Files) -> None:
    files.grow(2_000)
    with Process(files) as first, Process(files) as second:
        wait_until(
            lambda: set(running_at(files).values()) == {first.pid, second.pid}, "both have work"
        )
        wait_until(files.is_whole, "the two workers copy")
        first.kill()
        files.grow(2_000)
        wait_until(
            lambda: running_at(files) == dict.fromkeys(ALL, second.pid),
            "the one that is left has got everything",
        )
        wait_until(files.is_whole, "and copies the rest")
        code, output = second.end()
    assert code == 0, output
    assert running_at(files) == {}
    read = read_whole(files.bootstrap, topic_of(files, "topic"), is_committed=True)
    values = [json.loads(message.value or b"{}")["payload"] for message in read]
    assert sorted(values) == files.expected
