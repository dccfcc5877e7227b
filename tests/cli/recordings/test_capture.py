"""`brokertwin capture` in a separate process."""

import base64
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.kafka_io.topics import TopicSpec, admin_client, create
from tests.support.batches import batch
from tests.support.commands import lines_of
from tests.support.console import brokertwin, command
from tests.support.gateways import Client, Running, running_gateway
from tests.support.patience import PATIENCE_S
from tests.support.proxies import HOST, address, name_of
from tests.support.sources import ROOT

pytestmark = pytest.mark.processes

TIMEOUT_S = PATIENCE_S
PASSWORD = "correct-horse-battery"


class Process:
    """A running capture: its address for clients, and its output once it has ended."""

    def __init__(self, process: "subprocess.Popen[str]", first: Address, printed: str) -> None:
        self.process = process
        self.first = first
        self.errors = printed
        self.out = ""

    def end(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        self.out, errors = self.process.communicate(timeout=TIMEOUT_S)
        self.errors += errors
        return self.process.returncode


@contextmanager
def capture(broker: Address, *words: object) -> Iterator[Process]:
    at = f"{broker.host}:{broker.port}"
    process = subprocess.Popen(
        command("capture", "--listen", f"{HOST}:0", at, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    with process:
        try:
            yield Process(process, *_first(process))
        finally:
            process.kill()


def _first(process: "subprocess.Popen[str]") -> tuple[Address, str]:
    """Return the address for clients, and the output up to the line with it."""
    printed = ""
    assert process.stderr is not None
    for line in process.stderr:
        printed += line
        if match := re.search(r"listening on (\S+):(\d+),", line):
            return Address(match[1], int(match[2])), printed
    raise AssertionError(f"ended with {process.wait(TIMEOUT_S)}: {printed}")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway() as running:
        with running.client() as client:
            client.topic("orders")
        yield running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_capture_records_until_a_signal(
    number: signal.Signals, gateway: Running, tmp_path: Path
) -> None:
    file = tmp_path / "recorded.jsonl.gz"
    to_file = capture(gateway.addresses[1], "--out", file)
    with to_file as running, Client(running.first) as client:
        for value in range(3):
            client.produce("orders", batch(b"%d" % value))
        running.process.send_signal(number)
        assert running.wait() == 0
    documents = lines_of(gzip.decompress(file.read_bytes()).decode())
    assert [name_of(each) for each in documents] == ["PRODUCE"] * 3
    assert re.search(r"PRODUCE +│ +3 ", running.errors)
    assert "3 exchanges" in running.errors
    assert running.out == ""


def test_standard_output_has_documents_and_nothing_else(gateway: Running) -> None:
    with capture(gateway.addresses[1], "--out", "-", "--quiet") as running:
        with Client(running.first) as client:
            client.call("METADATA", 12, topics=[])
        assert running.end() == 0
    assert [name_of(each) for each in lines_of(running.out)] == ["METADATA"]
    assert len(running.errors.splitlines()) == 1, "quiet: only the listen address"


def test_no_password_is_in_any_output(gateway: Running, tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    secret = base64.b64encode(PASSWORD.encode()).decode()
    config = {"name": "ssl.keystore.password", "configOperation": 0, "value": PASSWORD}
    resource = {"resourceType": 4, "resourceName": "1", "configs": [config]}
    upsertion = {"name": "a", "mechanism": 1, "iterations": 1, "salt": "", "saltedPassword": secret}
    requests = [
        ("SASL_HANDSHAKE", 1, {"mechanism": "PLAIN"}),
        ("SASL_AUTHENTICATE", 2, {"authBytes": f"\0alice\0{PASSWORD}".encode()}),
        ("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]}),
        ("ALTER_USER_SCRAM_CREDENTIALS", 0, {"upsertions": [upsertion]}),
        ("RENEW_DELEGATION_TOKEN", 2, {"hmac": secret}),
    ]
    with capture(gateway.addresses[1], "--out", file) as running:
        for api, version, body in requests:
            with Client(running.first) as client:
                client.send(api, version, body)
                _until_responding(client)
        with Client(running.first) as client:
            client.send_frame(b"\0\x24\0\x63\0\0\0\1" + PASSWORD.encode())
            _until_responding(client)
        assert running.end() == 0
    written = file.read_text(encoding="utf-8")
    assert len(written.splitlines()) == len(requests) + 1
    for text in (written, running.out, running.errors):
        assert PASSWORD not in text
        assert secret.rstrip("=")[:-1] not in text


def _until_responding(client: Client) -> None:
    """Wait for a response, or for the gateway to close the connection."""
    try:
        client.receive()
    except ConnectionError:
        return


@pytest.mark.parametrize("policy", ["stop", "go-on"])
def test_full_disk_is_reported(policy: str, gateway: Running) -> None:
    with capture(gateway.addresses[1], "--out", "/dev/full", "--on-failure", policy) as running:
        with Client(running.first) as client:
            client.call("METADATA", 12, topics=[])
            if policy == "go-on":
                assert client.produce("orders", batch(b"y"))["errorCode"] == 0
        code = running.wait() if policy == "stop" else running.end()
    assert code == 2
    assert "No space left on device" in running.errors
    assert "NOT RECORDED" in running.errors


@pytest.mark.kafka
def test_documents_go_to_a_topic_from_which_ingest_takes_them(kafka: str, tmp_path: Path) -> None:
    topic = f"recorded-{uuid.uuid4().hex}"
    words = ("--topic", topic, "--bootstrap", kafka)
    with capture(address(kafka), *words) as running:
        with Client(running.first) as client:
            for _ in range(3):
                client.call("METADATA", 12, topics=[])
        assert running.end() == 0
    rows = list(read_all(ClientProperties({"bootstrap.servers": kafka}), topic))
    documents = [json.loads(row.value or b"") for row in rows]
    assert [each["requestHeader"]["correlationId"] for each in documents] == [1, 2, 3]
    assert {row.partition for row in rows} == {0}
    assert len({row.id for row in rows}) == 3
    file = tmp_path / "ingested.jsonl"
    ingest = ["ingest", "--from-topic", topic, "--bootstrap", kafka, "--out", str(file)]
    assert brokertwin(*ingest).returncode == 0
    ingested = lines_of(file.read_text(encoding="utf-8"))
    assert [each["request"] for each in ingested] == [each["request"] for each in documents]


@pytest.mark.kafka
def test_records_rejected_by_the_topic_are_reported(kafka: str) -> None:
    topic = f"narrow-{uuid.uuid4().hex}"
    client = ClientProperties({"bootstrap.servers": kafka})
    create(admin_client(client), {topic: TopicSpec(topic, settings={"max.message.bytes": "500"})})
    with capture(address(kafka), "--topic", topic, "--bootstrap", kafka) as running:
        with Client(running.first) as connection:
            connection.call("API_VERSIONS", 2)
        assert running.end() == 1
    assert re.search(r"NOT RECORDED: 1: .*size too large", running.errors)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Pass either --out FILE or --topic NAME."),
        (("--out", "x.jsonl", "--topic", "x"), "Pass either --out FILE or --topic NAME."),
        (("--out", "x.jsonl", "--listen", "9092"), "Invalid value of --listen: '9092'."),
        (("9092", "--out", "x.jsonl"), "Invalid value of HOST:PORT: '9092'."),
        (("--out", "x.jsonl", "--listen", "0.0.0.0:0"), "Add --advertise-host HOST"),
        (("--out", "there.jsonl"), "there.jsonl exists."),
        (("localhost:1", "--out", "x.jsonl"), "Kafka at localhost:1 did not respond"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    words: tuple[str, ...], text: str, empty_directory: Path
) -> None:
    (empty_directory / "there.jsonl").write_text("{}\n")
    with socket.create_server((HOST, 0)) as broker:
        at = f"{HOST}:{broker.getsockname()[1]}"
        address = () if (words and ":" in words[0]) or "9092" in words[:1] else (at,)
        done = brokertwin("capture", *address, *words, cwd=empty_directory)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_port_in_use_is_reported(empty_directory: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        at = f"{HOST}:{taken.getsockname()[1]}"
        words = (at, "--listen", at, "--out", "x.jsonl")
        done = brokertwin("capture", *words, cwd=empty_directory)
    assert done.returncode == 2
    assert f"Cannot listen on {at}" in done.stderr


@pytest.mark.kafka
def test_the_example_records_and_replays(kafka: str, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as probe:
        proxy = f"{HOST}:{probe.getsockname()[1]}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", ROOT / "examples" / "capture.sh", kafka, proxy],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        env={**os.environ, "PATH": path, "COLUMNS": "200", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "agree 11 of 11" in done.stdout
