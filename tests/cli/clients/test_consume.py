"""`brokertwin consume` and `produce`, on a gateway."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from brokertwin.cli.clients import consume
from brokertwin.errors import UserError
from brokertwin.testing import KafkaBroker
from tests.support.batches import batch
from tests.support.console import brokertwin, command
from tests.support.gateways import Running, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT
from tests.support.typed_commands import free_port

pytestmark = pytest.mark.processes

PARTITIONS = 4
NUMBERS = count(1)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    settings = {"group.initial.rebalance.delay.ms": "300", "auto.create.topics.enable": "false"}
    with running_gateway(settings) as running:
        yield running


@pytest.fixture
def topic(gateway: Running) -> str:
    name = f"orders{next(NUMBERS)}"
    with gateway.client() as client:
        client.topic(name, PARTITIONS)
    return name


def numbers(end: int) -> str:
    return "".join(f"{number}\n" for number in range(end))


def log_ends(gateway: Running, topic: str) -> int:
    with gateway.client() as client:
        return sum(client.list_offset(topic, -1, each)["offset"] for each in range(PARTITIONS))


def members_of(gateway: Running, group: str) -> int:
    with gateway.client() as client:
        response = client.call("DESCRIBE_GROUPS", 5, groups=[group])
    return len(response["groups"][0]["members"])


def test_group_consumes_produced_records_and_draws_its_threads(
    gateway: Running, topic: str
) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    sent = brokertwin("produce", topic, *boot, "--batch-size", 200, text=numbers(500))
    assert sent.returncode == 0, sent.stderr
    assert "500 records acknowledged, 0 failed" in sent.stderr
    words = ("--group", "g", "--from-beginning", "--members", 2, "-n", 500, "--show-threads")
    read = brokertwin("consume", topic, *words, *boot, COLUMNS=80)
    assert read.returncode == 0, read.stderr
    assert sorted(map(int, read.stdout.split())) == list(range(500))
    assert max(map(len, read.stderr.splitlines())) <= 80
    owned = re.findall(rf"{topic}-\d", read.stderr.partition("╭─ member 1")[2])
    assert set(owned) == {f"{topic}-{partition}" for partition in range(PARTITIONS)}
    assert "A member 1, B member 2; · none, # several at once" in read.stderr
    again = brokertwin("consume", topic, "--group", "g", *boot, "--timeout", 0.5)
    assert (again.returncode, again.stdout) == (0, "")
    assert members_of(gateway, "g") == 0


def test_keys_choose_partitions_and_json_reports_places(gateway: Running, topic: str) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    words = ("--key-separator", ":", "--json", "--compression", "gzip")
    sent = brokertwin("produce", topic, *words, *boot, text="21:one\nfoobar:two\n21:three\n")
    output = [json.loads(line) for line in sent.stdout.splitlines()]
    assert sorted((each["partition"], each["offset"]) for each in output) == [
        (0, 0),
        (0, 1),
        (2, 0),
    ]
    words = ("--group", "k", "--from-beginning", "-n", 3, "--json", "--read-committed")
    read = brokertwin("consume", topic, *words, *boot)
    documents = [json.loads(line) for line in read.stdout.splitlines()]
    assert sorted((each["key"], each["value"], each["partition"]) for each in documents) == [
        ("21", "one", (-973932308 & 0x7FFFFFFF) % PARTITIONS),
        ("21", "three", (-973932308 & 0x7FFFFFFF) % PARTITIONS),
        ("foobar", "two", (-790332482 & 0x7FFFFFFF) % PARTITIONS),
    ]


def test_threads_of_produce_share_one_producer(gateway: Running, topic: str) -> None:
    words = ("--threads", 8, "--bootstrap", gateway.bootstrap)
    sent = brokertwin("produce", topic, *words, "--batch-size", 200, text=numbers(500))
    assert sent.returncode == 0, sent.stderr
    assert "500 records acknowledged, 0 failed" in sent.stderr
    assert log_ends(gateway, topic) == 500
    missing = brokertwin("produce", "missing", *words, "--max-block-ms", 300, text="a\n")
    assert missing.returncode == 2
    assert "Topic missing does not exist after 300 ms (max.block.ms)." in missing.stderr
    mixed = brokertwin("produce", topic, *words, "--transactional-id", "t")
    assert mixed.returncode == 2
    assert "Cannot combine --threads and --transactional-id" in mixed.stderr


def test_the_coordinator_may_assign(gateway: Running, topic: str) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    brokertwin("produce", topic, *boot, text=numbers(20))
    words = ("--group", "p", "--from-beginning", "-n", 20, "--protocol", "consumer")
    pattern = ("--include", f"{topic}x?")
    read = brokertwin("consume", *pattern, *words, "--remote-assignor", "range", *boot)
    assert sorted(map(int, read.stdout.split())) == list(range(20))
    wrong = brokertwin("consume", topic, *words, "--remote-assignor", "none", *boot)
    assert wrong.returncode == 2
    assert "member 1 stopped: 112 UNSUPPORTED_ASSIGNOR" in wrong.stderr
    mixed = brokertwin("consume", topic, *words, "--assignor", "range", *boot)
    assert (
        mixed.returncode,
        "Cannot combine --assignor with --protocol consumer" in mixed.stderr,
    ) == (2, True)


def test_consume_needs_either_topics_or_a_pattern() -> None:
    for topics, include in ((None, None), (["orders"], ".*")):
        with pytest.raises(UserError, match="needs either topics or --include"):
            consume._check_wanted(topics, include, "classic")
    with pytest.raises(UserError, match=re.escape("Invalid regular expression 'orders('")):
        consume._check_wanted(None, "orders(", "classic")


def test_a_transaction_is_seen_when_it_is_committed(gateway: Running, topic: str) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    words = ("--transactional-id", "loader", "--transaction-size", 4)
    sent = brokertwin("produce", topic, *words, *boot, text=numbers(10))
    assert sent.returncode == 0, sent.stderr
    assert "committed 3 transactions" in sent.stderr
    before = log_ends(gateway, topic)
    process = subprocess.Popen(
        command("produce", topic, "--transactional-id", "loader", *boot),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("100\n")
    process.stdin.flush()
    wait_until(lambda: log_ends(gateway, topic) > before, "the record is there")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert "aborted a transaction of 1 record" in errors
    words = ("--group", "t", "--from-beginning", "--timeout", 0.5)
    read = brokertwin("consume", topic, *words, "--read-committed", *boot)
    assert sorted(map(int, read.stdout.split())) == list(range(10))


def test_control_c_commits_and_leaves(gateway: Running, topic: str) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    brokertwin("produce", topic, *boot, "--partition", 1, text=numbers(3))
    words = ("consume", topic, "--group", "left", "--from-beginning", "--json", *boot)
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    read = [json.loads(process.stdout.readline())["offset"] for _ in range(3)]
    assert read == [0, 1, 2]
    assert members_of(gateway, "left") == 1
    with gateway.client() as client:  # the next poll: the previous records are processed
        client.produce(topic, batch(b"one more"), partition=1)
    assert json.loads(process.stdout.readline())["offset"] == 3
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert "leaving the group" in errors
    assert members_of(gateway, "left") == 0
    with gateway.client() as client:
        response = client.call("OFFSET_FETCH", 9, groupId="left", name=topic, partitionIndexes=[1])
    assert response["groups"][0]["topics"][0]["partitions"][0]["committedOffset"] in (3, 4)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_refused_last_commit_is_reported(protocol: str) -> None:
    with KafkaBroker(topics=["orders"]) as broker:
        broker.produce("orders", "1", "2")
        words = ("consume", "orders", "--group", "g", "--from-beginning", "--timeout", 0.5)
        words = (*words, "--protocol", protocol, "--bootstrap", broker.bootstrap)
        broker.fail_next("OFFSET_COMMIT", "NOT_COORDINATOR")
        refused = brokertwin(*words)
        assert (refused.returncode, refused.stdout) == (1, "1\n2\n")
        assert "member 1: its last commit failed: 16 NOT_COORDINATOR." in refused.stderr
        assert broker.committed_offsets("g") == {}
        again = brokertwin(*words)
        assert (again.returncode, again.stdout) == (0, "1\n2\n")
        assert broker.committed_offsets("g") == {("orders", 0): 2}


def test_missing_topics_partitions_and_files_are_reported(
    gateway: Running, topic: str, tmp_path: Path
) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    none = brokertwin("produce", "none", *boot, "--max-block-ms", 300, text="1\n")
    assert none.returncode == 2
    assert "Topic none does not exist after 300 ms (max.block.ms)." in none.stderr
    wrong = brokertwin("produce", topic, *boot, "--partition", 9, "--max-block-ms", 300, text="1")
    assert f"{topic} has 4 partitions and none of number 9" in wrong.stderr.replace("\n", " ")
    file = brokertwin("produce", topic, tmp_path / "none", *boot)
    assert (file.returncode, f"Cannot read {tmp_path / 'none'}: No such file" in file.stderr) == (
        2,
        True,
    )
    absent = brokertwin("consume", "none", "--group", "n", *boot, "--timeout", 0.3)
    assert "topic none does not exist yet; waiting for it" in absent.stderr
    secured = tmp_path / "client.properties"
    secured.write_text(f"bootstrap.servers={gateway.bootstrap}\nsecurity.protocol=SASL_SSL\n")
    refused = brokertwin("consume", topic, "--group", "n", "--kafka-config", secured)
    assert (
        refused.returncode,
        "Unsupported sasl.mechanism GSSAPI; supported are PLAIN" in refused.stderr,
    ) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("consumer_group.sh", "1000\n"),
        ("modern_group.sh", "1000\n"),
        ("transactions.sh", "13 records in the topic, 10 of them committed\n"),
    ],
)
def test_the_examples_run(gateway: Running, topic: str, example: str, message: str) -> None:
    done = subprocess.run(
        [ROOT / "examples" / example, gateway.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"PATH": f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == message


def test_secured_example_rejects_an_unknown_user() -> None:
    done = subprocess.run(
        [ROOT / "examples" / "secured.sh", str(free_port())],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"PATH": f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100\nmallory was not let in\n"
    assert "The broker rejected the login of mallory" in done.stderr
