"""Type the commands of documents like a reader, in a new directory and home."""

import contextlib
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.settings import default_home
from brokertwin.streaming.checkpoint import checkpoint_log
from tests.support.documents import Command
from tests.support.kafka_tools import java_command
from tests.support.patience import wait_until

TIMEOUT_S = 600
TOOLS = {
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}
SERVES = {
    "brokertwin gateway": r"broker 1 at",
    "brokertwin capture": r"listening on",
    "brokertwin run --http-listen": r"batch \d+ in",
    "brokertwin run": r"reading \S+\.requests",
    "kafka-console-consumer.sh": r"(?m)^one$",
}
"""Commands that run until they are stopped, and their output when they are ready."""


class Server(NamedTuple):
    text: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(TIMEOUT_S)


class Reader:
    """A reader of a page.

    Args:
        directory: where the commands are typed.
        home: of the embedded broker and the checkpoints.
        bootstrap: a Kafka, for commands that do not start one.
    """

    def __init__(self, directory: Path, home: Path, bootstrap: str) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.prefix = f"typed{secrets.token_hex(4)}"  # pages share a Kafka, and no topics
        self._servers: list[Server] = []
        self._home = home
        self._has_own_broker = False
        (home / "bin").mkdir(parents=True)
        (home / "jars").symlink_to(default_home() / "jars")
        for name, main in TOOLS.items() if bootstrap else ():
            script = home / "bin" / name
            *java, class_path = java_command()
            broker = default_home() / "jars" / f"kafka_2.13-{KAFKA_VERSION}" / "*"
            call = shlex.join([*java, f"{class_path}:{broker}", main])
            script.write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        # as after `. .venv/bin/activate`
        path = [str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **{key: value for key, value in os.environ.items() if "BROKERTWIN" not in key},
            "HOME": str(home),
            "BROKERTWIN_HOME": str(home),
            "BROKERTWIN_BOOTSTRAP": bootstrap,
            "BROKERTWIN_PREFIX": self.prefix,
            "BROKERTWIN_MASTER": "local[2]",
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "PATH": os.pathsep.join(path),
        }

    def types(self, command: Command, text: str, entered: str = "") -> str:
        """Type a command and wait until it is done, or ready to serve; return its output."""
        words = shlex.split(text)
        self._make_way(words)
        for start, ready in SERVES.items():
            if text.startswith(start) and "--available-now" not in words:
                output = self._serve(text, ready)
                if _after(words, "--engine") == "spark":
                    self._answer_prompt(output)
                return output
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.directory,
            env=self.environment,
            input=entered,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        output = done.stdout + done.stderr
        # a response that is not the recorded one; both say so and go on
        may_differ = "--compare" in words or words[:2] == ["brokertwin", "send"]
        assert done.returncode == 0 or (may_differ and done.returncode == 1), f"{command}\n{output}"
        assert "Traceback" not in output, f"{command}\n{output}"
        self._follow(words, output)
        return output

    def close(self) -> None:
        for server in reversed(self._servers):
            server.stop()
        subprocess.run(
            ["brokertwin", "kafka", "stop"], env=self.environment, check=False, timeout=TIMEOUT_S
        )

    def _make_way(self, words: list[str]) -> None:
        """Stop running commands with the same job or port, or whose output file this one reads."""
        for server in list(self._servers):
            theirs = shlex.split(server.text)
            is_same_job = words[1] == "run" and theirs[1] == "run" and _job(theirs) == _job(words)
            is_read = words[1] == "replay" and _after(theirs, "--out") in words
            is_same_port = _port(theirs) == _port(words, "none")
            if is_same_job or is_read or is_same_port:
                self._servers.remove(server)
                server.stop()
        if _after(words, "--engine") == "spark" and not any(
            server.text.startswith("brokertwin run") for server in self._servers
        ):
            if self._has_own_broker:  # that of the job; it may have been stopped
                self._start_broker()
            self._serve(f"brokertwin run --cluster {_after(words, '--cluster')}", "")

    def _follow(self, words: list[str], output: str) -> None:
        """The reader's own broker takes the place of the other while it runs."""
        if words[1:3] == ["kafka", "start"]:
            result = re.search(r"localhost:\d+|127\.0\.0\.1:\d+", output)
            assert result is not None, output
            self.environment["BROKERTWIN_BOOTSTRAP"] = result[0]
            self._has_own_broker = True
        elif words[1:3] == ["kafka", "stop"]:
            self.environment["BROKERTWIN_BOOTSTRAP"] = self.bootstrap

    def _start_broker(self) -> None:
        words = ["brokertwin", "kafka", "start"]
        done = subprocess.run(
            words, env=self.environment, check=True, capture_output=True, text=True
        )
        self._follow(words, done.stdout)

    def _serve(self, text: str, ready: str) -> str:
        log = self._home / f"server-{len(list(self._home.glob('server-*')))}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.directory,
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        server = Server(text, process, log)
        self._servers.append(server)

        def is_ready() -> bool:
            assert process.poll() is None, "it has ended"
            if text.startswith("brokertwin run") and not self._is_placed(shlex.split(text)):
                return False
            return bool(re.search(ready, server.output())) if ready else bool(server.output())

        try:
            wait_until(is_ready)
        except AssertionError as error:
            raise AssertionError(f"{text}\n{server.output()}") from error
        return server.output()

    def _answer_prompt(self, output: str) -> None:
        """Be a client of a gateway: the second response shows that a micro-batch has committed."""
        result = re.search(r"broker 1 at (\S+)", output)
        assert result is not None, output
        admin = AdminClient({"bootstrap.servers": result[1]})
        deadline, responses = time.monotonic() + TIMEOUT_S, 0
        while responses < 2:
            assert time.monotonic() < deadline, output
            with contextlib.suppress(KafkaException):  # the job has not begun yet
                responses += bool(admin.list_topics(timeout=60).brokers)

    def _is_placed(self, words: list[str]) -> bool:
        """Whether the job has committed a micro-batch and said where its clusters are."""
        prefix = _after(words, "--prefix", self.prefix)
        checkpoint = _after(words, "--checkpoint", str(self._home / "checkpoints" / prefix))
        if checkpoint_log.committed(self.directory / checkpoint) < 0:
            return False
        configuration = {
            "bootstrap.servers": self.environment["BROKERTWIN_BOOTSTRAP"],
            "group.id": "unused",
        }
        consumer = Consumer(configuration)
        try:
            topic = topics.full_name(prefix, topics.PLACEMENT)
            if topic not in consumer.list_topics(timeout=30).topics:
                return False
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            return bool(high > low)
        except KafkaException:  # not yet
            return False
        finally:
            consumer.close()
            time.sleep(0.2)


def _job(words: list[str]) -> str:
    """The topics of a job; two never work on the same."""
    return _after(words, "--prefix")


def _port(words: list[str], otherwise: str = "") -> str:
    """Return the port of a listening address; the host does not matter."""
    return _after(words, "--listen", otherwise).rpartition(":")[2]


def _after(words: list[str], option: str, default: str = "") -> str:
    return words[words.index(option) + 1] if option in words else default


def free_port(brokers: int = 1) -> int:
    """Return a port that is free like the ports after it: a port for each broker.

    It is below the system's ephemeral ports (32768 and above), which connections may get. So a
    restarted server finds it free.
    """
    while True:
        first = 10_000 + secrets.randbelow(20_000)
        if all(_is_free(first + number) for number in range(brokers)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
