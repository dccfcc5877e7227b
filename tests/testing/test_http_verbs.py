"""A test broker for suites in other languages: the fixture's methods over HTTP."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokertwin.cli.watching.server import served
from brokertwin.errors import UserError
from brokertwin.gateway.proxy.control import app
from brokertwin.testing import KafkaBroker
from brokertwin.testing.http_verbs import VERBS, BrokerVerbs
from tests.support.kafka_tools import java_command
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(brokers=3, topics={"orders": 2}, replication_factor=3) as broker:
        yield broker


@pytest.fixture
def url(broker: KafkaBroker) -> Iterator[str]:
    verbs = BrokerVerbs(broker)
    control = app(broker.fault_set, verbs.documents, verbs)
    with served(control, "--control-listen 0", "127.0.0.1", 0) as url:
        yield url


def ask(url: str, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Send GET, or POST with a body, or another method; return status and document."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def call(url: str, method: str, **arguments: object) -> Any:
    status, found = ask(url, f"broker/{method}", arguments or None, method="POST")
    assert status == 200, found
    return found["result"]


def test_records_are_text_and_bytes(url: str) -> None:
    assert call(url, "produce", topic="orders", values=["one", None], key="k", partition=1) == 0
    first, second = call(url, "records", topic="orders")
    assert (first["partition"], first["offset"], first["key"], first["value"]) == (1, 0, "k", "one")
    assert (first["keyBase64"], first["valueBase64"]) == ("aw==", "b25l")
    assert (second["offset"], second["value"], second["valueBase64"]) == (1, None, None)


def test_a_killed_leader_is_replaced_when_its_session_ends(url: str, broker: KafkaBroker) -> None:
    old = call(url, "leader", topic="orders")
    call(url, "kill", broker=old)
    call(url, "advance_time", milliseconds=10_000)
    assert call(url, "leader", topic="orders") not in (old, -1)
    call(url, "restart", broker=old)
    call(url, "reset")
    assert call(url, "records", topic="orders") == []
    assert len(broker.bootstrap_servers) == 3


def test_each_method_is_listed_with_its_arguments(url: str, broker: KafkaBroker) -> None:
    status, found = ask(url, "broker")
    assert (status, found["bootstrap"]) == (200, broker.bootstrap)
    assert tuple(found["methods"]) == VERBS
    assert found["methods"]["wait_for_group"] == ["group", "state", "members", "timeoutS"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("broker/explode", {}, 400, "No method explode. Methods: create_topic, produce"),
        ("broker/leader", {"topc": "orders"}, 400, "leader: Object contains unknown field `topc`"),
        ("broker/leader", {}, 400, "missing required field `topic`. Arguments: topic, partition"),
        ("broker/leader", {"topic": 7}, 400, "Expected `str`, got `int`"),
        ("broker/leader", [], 400, "Expected `object`"),
        ("broker/leader", {"topic": "none"}, 400, "Topic none does not exist"),
        ("broker/kill", {"broker": 9}, 400, "Broker 9 does not exist"),
        ("broker/wait_for_group", {"group": "g", "timeoutS": 0.01}, 408, "Group g: Dead"),
        ("faults", {"effect": "cut", "api": "API_VERSIONS"}, 400, "Cannot inject faults into"),
        ("broker", {}, 405, "POST is not allowed here"),
        ("other", {}, 404, "/broker, /broker/METHOD"),
    ],
)
def test_what_is_refused(url: str, path: str, body: object, status: int, message: str) -> None:
    found = ask(url, path, body)
    assert found[0] == status
    assert message in f"{found[1]['error']} {found[1]['hint']}"


def test_each_cluster_has_an_id_of_its_own_until_it_ends(broker: KafkaBroker) -> None:
    with KafkaBroker() as other:
        actual = {cluster_id(each) for each in (broker, other)}
        other.reset()
        assert cluster_id(other) in actual
    assert len(actual) == 2


def cluster_id(broker: KafkaBroker) -> str:
    import confluent_kafka.admin

    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    return str(admin.list_topics(timeout=PATIENCE_S).cluster_id)


def test_a_replication_factor_above_the_brokers_is_an_error() -> None:
    with pytest.raises(UserError, match="replication factor"):
        KafkaBroker(topics=["orders"], replication_factor=2).start()


@pytest.mark.clients
def test_the_java_example_passes(url: str, broker: KafkaBroker) -> None:
    example = ROOT / "examples/faults/Orders.java"
    environment = {**os.environ, "BROKER": broker.bootstrap_servers[0], "CONTROL": url.rstrip("/")}
    done = run([*java_command(), "-Dlog4j2.level=OFF", str(example)], environment, ROOT)
    assert done.stdout == "passed\n", done.stderr


@pytest.mark.node
@pytest.mark.full
@pytest.mark.clients
def test_the_node_example_passes(url: str, broker: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "orders.test.mjs").write_text(
        (ROOT / "examples/faults/orders.test.mjs").read_text()
    )
    assert run(["npm", "install", "kafkajs@2"], dict(os.environ), tmp_path).returncode == 0
    environment = {**os.environ, "CONTROL": url.rstrip("/"), "BROKER": broker.bootstrap_servers[0]}
    done = run(["node", "--test", "orders.test.mjs"], environment, tmp_path)
    assert "# pass 3" in done.stdout, done.stdout


def run(
    words: list[str], environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
