"""`brokertwin streams`, on a gateway."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.console import brokertwin, command
from tests.support.gateways import Running, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.typed_commands import free_port

pytestmark = pytest.mark.processes

NUMBERS = count(1)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    settings = {"group.initial.rebalance.delay.ms": "300", "auto.create.topics.enable": "false"}
    with running_gateway(settings) as running:
        yield running


def newest(gateway: Running, topic: str) -> dict[str, str]:
    words = ("--group", f"{topic}-r", "--from-beginning", "--json", "--timeout", 0.5)
    read = brokertwin("consume", topic, *words, "--bootstrap", gateway.bootstrap)
    return {each["key"]: each["value"] for each in map(json.loads, read.stdout.splitlines())}


def test_words_are_counted_by_three_threads_and_drawn(gateway: Running) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    lines, counts = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    words = ("streams", "wordcount", lines, counts, *boot)
    none = brokertwin(*words)
    assert none.returncode == 2
    assert f"These topics do not exist: {counts}, {lines}." in none.stderr
    made = brokertwin(*words, "--create", 3, "--timeout", 0.3)
    assert made.returncode == 0, made.stderr
    assert "wordcount-words-repartition, wordcount-counts-changelog" in made.stderr
    brokertwin("produce", lines, *boot, text="to be\nor not to be\n")
    more = ("--threads", 3, "--exactly-once", "--show-threads", "--timeout", 1)
    done = brokertwin(*words, *more)
    assert done.returncode == 0, done.stderr
    assert "processed 8 records" in done.stderr
    for thread in (1, 2, 3):
        assert f"─ thread {thread} ─" in done.stderr
    for task in ("0_0", "0_1", "0_2", "1_0", "1_1", "1_2"):
        assert f"\n{task}  ·" in done.stderr
    assert newest(gateway, counts) == {"to": "2", "be": "2", "or": "1", "not": "1"}


def test_threads_are_added_and_removed_by_signals_while_running(gateway: Running) -> None:
    lines, counts = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    words = ("--create", 2, "--application-id", counts, "--show-threads")
    messages: list[str] = []
    with subprocess.Popen(
        command("streams", "wordcount", lines, counts, "--bootstrap", gateway.bootstrap, *words),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        reader = threading.Thread(target=messages.extend, args=(process.stderr,))
        reader.start()

        def wait_for(pattern: str) -> None:
            wait_until(lambda: any(re.search(pattern, line) for line in messages), pattern)

        try:
            wait_for("thread 1: 0_0 0_1 1_0 1_1")
            process.send_signal(signal.SIGUSR1)
            wait_for("added thread 2")
            wait_for(r"thread 1: \d_\d \d_\d \| thread 2: \d_\d \d_\d$")
            process.send_signal(signal.SIGUSR2)
            wait_for("removing thread 2")
            wait_for(r"thread 1: 0_0 0_1 1_0 1_1 \| thread 2: -")
            process.send_signal(signal.SIGUSR2)
            wait_for("the last thread is not removed")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            reader.join(PATIENCE_S)


def test_tables_are_joined_and_wrong_topics_refused(gateway: Running) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    left, right, sink = (f"{name}{next(NUMBERS)}" for name in ("l", "r", "joined"))
    with gateway.client() as client:
        client.topic(left, 2)
        client.topic(right, 2)
        client.topic(f"{right}-wide", 4)
    for topic, text in ((left, "1,apple\n2,pear\n"), (right, "1,red\n3,blue\n")):
        brokertwin("produce", topic, *boot, "--key-separator", ",", text=text)
    words = ("streams", "join", left, right, sink, *boot, "--create", 1, "--timeout", 0.5)
    done = brokertwin(*words)
    assert done.returncode == 0, done.stderr
    assert newest(gateway, sink) == {"1": "apple,red"}
    wide = brokertwin("streams", "join", left, f"{right}-wide", sink, *boot)
    assert wide.returncode == 2
    assert f"partitions: {left} has 2, {right}-wide has 4" in wide.stderr.replace("\n", " ")


def test_query_reports_an_unreachable_client() -> None:
    gone = brokertwin("streams", "ask", f"localhost:{free_port()}", "counts", "the")
    assert gone.returncode == 1
    assert "did not respond" in json.loads(gone.stdout)["error"]
    wrong = brokertwin("streams", "ask", "nowhere", "counts", "the")
    assert (wrong.returncode, "Invalid address 'nowhere'." in wrong.stderr) == (2, True)


def test_an_instance_responds_while_it_runs(gateway: Running) -> None:
    boot = ("--bootstrap", gateway.bootstrap)
    lines, counts = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    server = f"localhost:{free_port()}"
    more = ("--create", 2, "--application-id", counts, "--application-server", server)
    words = command("streams", "wordcount", lines, counts, *boot, *more)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)

    def response() -> dict[str, Any]:
        output = brokertwin("streams", "ask", server, "counts", "the").stdout
        return dict(json.loads(output))

    wait_until(lambda: "error" not in response(), "it runs")
    brokertwin("produce", lines, *boot, text="the one and the other\n")
    wait_until(lambda: response()["value"] == "2", "the words are counted")
    assert response()["active"] == server
    some = brokertwin("streams", "ask", server, "counts", "--from-key", "one", "--to-key", "other")
    assert [each["key"] for each in json.loads(some.stdout)["items"]] == ["one", "other"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert "committing and leaving the group" in errors
    assert newest(gateway, counts) == {"the": "2", "one": "1", "and": "1", "other": "1"}
