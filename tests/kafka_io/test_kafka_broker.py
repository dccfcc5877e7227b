"""The embedded broker: a real Kafka that never touches other processes."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.errors import UserError
from brokertwin.kafka_io import kafka_broker
from brokertwin.kafka_io.kafka_broker import RESERVED, EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.patience import PATIENCE_S


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    broker = EmbeddedKafka(tmp_path / "broker", default_home())
    try:
        yield broker
    finally:
        broker.stop()


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_S).topics)


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


@pytest.mark.kafka
def test_start_stop_start_keeps_the_data_and_the_address(broker: EmbeddedKafka) -> None:
    bootstrap = broker.start()
    assert broker.status().running
    assert broker.status().bootstrap == bootstrap
    create(bootstrap, "kept")
    assert broker.stop()
    assert not broker.status().running
    assert broker.start() == bootstrap
    assert "kept" in topics(bootstrap)


def test_no_cluster_id_looks_like_an_option() -> None:
    assert not any(kafka_broker._new_cluster_id().startswith("-") for _ in range(1000))


@pytest.mark.kafka
def test_starting_a_running_broker_has_no_effect(broker: EmbeddedKafka) -> None:
    bootstrap = broker.start({"num.partitions": "3"})
    pid = broker.status().pid
    other = EmbeddedKafka(broker.home, default_home())
    assert other.start({"num.partitions": "3"}) == bootstrap
    assert other.status().pid == pid
    with pytest.raises(UserError, match=r"already running, with another num\.partitions"):
        other.start({"num.partitions": "4"})


@pytest.mark.kafka
def test_two_simultaneous_starts_give_one_broker(broker: EmbeddedKafka) -> None:
    twins = [broker, EmbeddedKafka(broker.home, default_home())]
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(EmbeddedKafka.start, twins)
    assert first == second
    assert topics(first) is not None


@pytest.mark.kafka
def test_a_used_port_is_avoided(broker: EmbeddedKafka) -> None:
    first = broker.start()
    broker.stop()
    host, _, port = first.rpartition(":")
    with closing(socket.create_server((host, int(port)))):
        lines: list[str] = []
        second = broker.start(say=lines.append)
        assert second != first
        assert topics(second) is not None
        assert lines[-1].startswith(f"{first} is in use by another process")


@pytest.mark.kafka
def test_an_invalid_property_shows_the_message_of_kafka(broker: EmbeddedKafka) -> None:
    broker.start()
    broker.stop()
    with pytest.raises(UserError) as refused:
        broker.start({"num.partitions": "many"})
    assert "did not start" in refused.value.message
    assert "Invalid value many for configuration num.partitions" in refused.value.hint
    assert not broker.status().running


@pytest.mark.kafka
def test_a_killed_broker_is_not_running_and_can_be_restarted(broker: EmbeddedKafka) -> None:
    bootstrap = broker.start()
    process = psutil.Process(broker.status().pid)
    process.kill()
    process.wait(PATIENCE_S)
    assert not broker.status().running
    assert not broker.stop()
    assert topics(broker.start()) is not None
    assert broker.status().bootstrap == bootstrap


@pytest.mark.kafka
def test_a_killed_broker_gets_its_port_again(
    broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine its last thread ends later than the process seems to."""
    bootstrap = broker.start()
    process = psutil.Process(broker.status().pid)
    process.kill()
    process.wait(PATIENCE_S)
    requested: list[int] = []

    def is_free(port: int) -> bool:
        requested.append(port)
        return len(requested) > 3

    monkeypatch.setattr(kafka_broker, "_is_free", is_free)
    assert broker.start() == bootstrap
    assert requested[:4] == [int(bootstrap.rpartition(":")[2])] * 4


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_properties_of_the_broker_itself_are_rejected(name: str, broker: EmbeddedKafka) -> None:
    with pytest.raises(UserError, match=f"Cannot set {name}: the embedded broker"):
        broker.start({name: "x"})


def test_a_broker_that_was_never_started_is_not_running(broker: EmbeddedKafka) -> None:
    status = broker.status()
    assert not status.running
    assert (status.bootstrap, status.pid) == (None, None)
    assert not broker.stop()


@pytest.mark.parametrize("started", [0.0, None], ids=["recycled pid", "same start, other program"])
def test_another_process_with_the_same_pid_is_never_touched(
    started: float | None, broker: EmbeddedKafka
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        noted = psutil.Process(other.pid).create_time() if started is None else started
        broker.home.mkdir()
        note = json.dumps({"pid": other.pid, "started": noted})
        (broker.home / "kafka.pid").write_text(note)
        assert not broker.status().running
        assert not broker.stop()
        assert other.poll() is None
        other.communicate(b"\n")


@pytest.mark.parametrize("content", ["", "{}", "[]", "17", '{"pid": "x", "started": 1}'])
def test_a_damaged_pid_file_names_no_process(content: str, broker: EmbeddedKafka) -> None:
    broker.home.mkdir()
    (broker.home / "kafka.pid").write_text(content)
    assert not broker.status().running
