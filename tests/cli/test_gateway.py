"""`brokerstream gateway` in a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.batches import batch
from support.gateways import Client

from brokerstream.gateway.answers import Address

PROGRAM = "from brokerstream.cli.main import main; main()"
TIMEOUT_S = 30


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "gateway", *words]


@contextmanager
def gateway(*words: str) -> Iterator[tuple["subprocess.Popen[str]", dict[int, Address]]]:
    """The process, and where its brokers are reached."""
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(
        command("--listen", "127.0.0.1:0", *words),
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process, _addresses(process, words)
        finally:
            process.kill()
            process.wait(TIMEOUT_S)


def _addresses(process: "subprocess.Popen[str]", words: tuple[str, ...]) -> dict[int, Address]:
    count = int(words[words.index("--brokers") + 1]) if "--brokers" in words else 1
    found: dict[int, Address] = {}
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"broker (\d+) at (\S+):(\d+)", line):
            found[int(match[1])] = Address(match[2], int(match[3]))
        if len(found) == count:
            return found
    raise AssertionError(f"ended with {process.wait(TIMEOUT_S)}")


def test_it_serves_until_it_is_told_to_end() -> None:
    words = ("--brokers", "2", "--set", "num.partitions=3")
    with gateway(*words) as (process, addresses), Client(addresses[2]) as client:
        topic = {"name": "made", "numPartitions": -1, "replicationFactor": -1}
        client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30000})
        answer = client.call("METADATA", 9, {"topics": [{"name": "made"}]})
        assert len(answer["topics"][0]["partitions"]) == 3
        assert {(each["host"], each["port"]) for each in answer["brokers"]} == {*addresses.values()}
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    words = ("--journal", str(tmp_path / "journal"))
    with gateway(*words) as (process, addresses):
        with Client(addresses[1]) as client:
            client.topic("kept")
            for number in range(100):
                assert client.produce("kept", batch(b"%d" % number))["baseOffset"] == number
            before = client.fetch("kept", 0)["records"]
        process.kill()
        process.wait(TIMEOUT_S)
    with gateway(*words) as (_, addresses), Client(addresses[1]) as client:
        assert client.fetch("kept", 0)["records"] == before
        assert client.produce("kept", batch(b"later"))["baseOffset"] == 100


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "9092"), "--listen 9092: expected HOST:PORT."),
        (("--advertise", "host:99999"), "--advertise host:99999: expected HOST:PORT."),
        (("--set", "num.partition=3"), "Did you mean num.partitions"),
        (("--listen", "0.0.0.0:9092"), "Give --advertise HOST:PORT"),
        (("--journal", "/proc/none/journal"), "cannot be opened"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words: tuple[str, ...], text: str) -> None:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
