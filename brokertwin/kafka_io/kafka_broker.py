"""The embedded Kafka broker: a real Apache Kafka in one process, without docker.

KRaft combined mode (KIP-500, KIP-631): one process is broker and controller. It listens on
localhost only, on free ports, and keeps everything in one directory:

    server.properties  its properties; the next start uses the same port
    log4j2.properties  its logging configuration
    kafka.pid          its process: pid, start time
    kafka.log, kafka.out   its log; the output of the JVM
    kafka-request.log      its requests, if it was started with a request log
    data/              the logs of the partitions
"""

import base64
import fcntl
import json
import os
import random
import shlex
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from brokertwin.errors import UserError
from brokertwin.kafka_io import class_archives, jars, properties
from brokertwin.kafka_io.java import java_executable

NODE_ID = "1"
HOST = "localhost"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
START_ATTEMPTS = 3
POLL_S = 0.1
PORT_ATTEMPTS = 100
PORT_PATIENCE_S = 10.0
PORTS = range(20_000, 32_000)
"""Below Linux's ephemeral ports, which could take the port of a stopped broker."""

TAIL_LINES = 20
HEAP = "-Xmx512m"
STARTED = "Kafka Server started"
PORT_TAKEN = "Address already in use"

DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "10",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
}
"""Settings for one small node; `start(settings)` can override each."""

RESERVED = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
"""Settings that the embedded broker sets itself."""

LOG4J = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:kafka.logs.dir}/kafka.log
appender.file.filePattern = ${sys:kafka.logs.dir}/kafka-%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
appender.file.policies.type = Policies
appender.file.policies.start.type = OnStartupTriggeringPolicy
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""

REQUEST_LOG4J = """\
appender.request.type = RollingFile
appender.request.name = request
appender.request.fileName = ${sys:kafka.logs.dir}/kafka-request.log
appender.request.filePattern = ${sys:kafka.logs.dir}/kafka-request-%i.log
appender.request.layout.type = PatternLayout
appender.request.layout.pattern = [%d] %p %m (%c)%n
appender.request.policies.type = Policies
appender.request.policies.size.type = SizeBasedTriggeringPolicy
appender.request.policies.size.size = 100MB
appender.request.strategy.type = DefaultRolloverStrategy
appender.request.strategy.max = 3
logger.request.name = kafka.request.logger
logger.request.level = debug
logger.request.additivity = false
logger.request.appenderRef.request.ref = request
"""
"""Appender of a request log for `audit` and `explain`."""


@dataclass(frozen=True)
class BrokerStatus:
    """Status of an embedded broker.

    Attributes:
        running: whether the process of the last `start` is alive.
        bootstrap: `host:port` of the last start; None if it was never started.
        pid: process id while it runs.
        started: start time in seconds since the epoch, while it runs.
        data_dir: directory of all files.
        log_file: Kafka's log.
        version: version of Apache Kafka.
    """

    running: bool
    bootstrap: str | None
    pid: int | None
    started: float | None
    data_dir: Path
    log_file: Path
    version: str = jars.KAFKA_VERSION


class EmbeddedKafka:
    """One embedded broker, identified by its directory.

    Several objects, also in several processes, can use the same directory: the pid file names the
    process. No other process is ever touched.

    Args:
        home: the broker's directory; created by `start`.
        jars_home: the directory of `Settings.home`, with the jars.
        ivy_settings: an Ivy settings file, for a mirror.
        log4j2: a Log4j 2 configuration instead of the default; it must write `kafka.log` in
            `${sys:kafka.logs.dir}`, from which `start` detects that the broker runs.
        java_options: further JVM options; as with Kafka's scripts, those in `KAFKA_OPTS` come
            first.
    """

    def __init__(
        self,
        home: Path,
        jars_home: Path,
        ivy_settings: Path | None = None,
        log4j2: Path | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.home = home.absolute()
        self.log_file = self.home / "kafka.log"
        self.request_log = self.home / "kafka-request.log"
        self._jars_home = jars_home
        self._ivy_settings = ivy_settings
        self._properties = self.home / "server.properties"
        self._pid_file = self.home / "kafka.pid"
        self._output = self.home / "kafka.out"
        self._log4j2 = log4j2.absolute() if log4j2 else self.home / "log4j2.properties"
        self._given_options = java_options

    def start(
        self,
        settings: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda _: None,
        request_log: bool = False,
    ) -> str:
        """Start the broker and wait until it responds; keep a running one.

        Args:
            settings: broker properties, by Kafka's names, over `DEFAULTS`.
            say: called before slow steps.
            request_log: whether to write every request to `request_log`.

        Returns:
            The bootstrap address, `localhost:port`.

        Raises:
            UserError: no Java, a reserved property, a running broker with other properties, or a
                failed start (the message ends with its log).
        """
        settings = dict(settings or {})
        reserved = sorted(RESERVED & settings.keys())
        if reserved:
            raise UserError(
                f"Cannot set {', '.join(reserved)}: the embedded broker sets it itself.",
                "Leave it out of --property.",
            )
        with self._lock():
            return self._start(settings, say, request_log)

    def _start(
        self, settings: dict[str, str], say: Callable[[str], None], request_log: bool
    ) -> str:
        if self._process() is not None:
            return self._already_running(settings, request_log)
        java = java_executable()
        files = jars.fetch(jars.kafka_jars(), self._jars_home, self._ivy_settings, say)
        command = [java, *self._classes(java, files[0].parent)]
        log4j = LOG4J + (REQUEST_LOG4J if request_log else "")
        (self.home / "log4j2.properties").write_text(log4j, encoding="utf-8")
        former = self._bootstrap_of_last_start()
        for attempt in range(1, START_ATTEMPTS + 1):
            self._write_properties(settings)
            self._format(command)
            try:
                process = self._launch([*command, HEAP, *self._java_options()])
                if self._wait_until_started(process, last=attempt == START_ATTEMPTS):
                    break
            except KeyboardInterrupt:
                self.stop()
                say("interrupted: the broker that was starting is stopped")
                raise
        now = self._bootstrap_of_last_start() or ""
        if former not in (None, now):
            say(f"{former} is in use by another process; the broker listens on {now}")
        return now

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop the broker: SIGTERM, and SIGKILL after the timeout.

        Returns:
            Whether it was running.
        """
        process = self._process()
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout_s)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(timeout_s)
        self._pid_file.unlink(missing_ok=True)
        return process is not None

    def status(self) -> BrokerStatus:
        """Return whether the broker runs, and its address."""
        process = self._process()
        return BrokerStatus(
            running=process is not None,
            bootstrap=self._bootstrap_of_last_start(),
            pid=process.pid if process else None,
            started=process.create_time() if process else None,
            data_dir=self.home,
            log_file=self.log_file,
        )

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Serialize starts, also between processes."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            file = (self.home / "start.lock").open("w")
        except OSError as error:
            raise UserError(
                f"The broker's directory {self.home} cannot be written: {error.strerror}.",
                "Name another one with --data-dir.",
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _already_running(self, settings: dict[str, str], request_log: bool) -> str:
        log4j = _text(self.home / "log4j2.properties")
        if request_log and REQUEST_LOG4J not in log4j:
            raise UserError(
                "The embedded broker runs already, without a request log.",
                "Stop it first: brokertwin kafka stop",
            )
        now = properties.read(self._properties)
        different = sorted(name for name, value in settings.items() if now.get(name) != value)
        if different:
            raise UserError(
                f"The embedded broker is already running, with another {', '.join(different)}.",
                "Stop it first: brokertwin kafka stop",
            )
        return self._bootstrap_of_last_start() or ""

    def _process(self) -> psutil.Process | None:
        """Return the broker's process, or None.

        The pid may belong to another process now: start time and properties file must match.
        """
        try:
            noted = json.loads(self._pid_file.read_text(encoding="utf-8"))
            process = psutil.Process(noted["pid"])
            same_start = abs(process.create_time() - noted["started"]) < 1
            ours = same_start and str(self._properties) in process.cmdline()
            return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
        except (FileNotFoundError, ValueError, KeyError, TypeError, psutil.Error):
            return None

    def _bootstrap_of_last_start(self) -> str | None:
        ports = self._ports_of_last_start()
        return f"{HOST}:{ports[0]}" if ports else None

    def _ports_of_last_start(self) -> list[int]:
        """Return the ports of its listeners: of clients, and of its controller if it has one."""
        if not self._properties.is_file():
            return []
        listeners = properties.read(self._properties)["listeners"]
        return [int(each.rpartition(":")[2]) for each in listeners.split(",")]

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        """Choose ports, the former ones if they are free, and write server.properties."""
        former = self._ports_of_last_start()
        wanted = former[0] if former else None
        if wanted is not None and self._pid_file.exists():  # it was killed, not stopped
            _await_port(wanted)
        port = _free_port(wanted)
        controller_port = _free_port(former[1] if len(former) > 1 else None)
        client = f"CLIENT://{HOST}:{port}"
        own = {
            "process.roles": "broker,controller",
            "node.id": NODE_ID,
            "listeners": f"{client},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": client,
            "inter.broker.listener.name": "CLIENT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.home / "data"),
        }
        text = properties.dump({**own, **DEFAULTS, **settings})
        self._properties.touch(mode=0o600)
        self._properties.write_text(text, encoding="utf-8")

    def _format(self, java: list[str]) -> None:
        """Format an empty data directory (`kafka-storage format`)."""
        if (self.home / "data" / "meta.properties").is_file():
            return
        tool = ["kafka.tools.StorageTool", "format", "-c", str(self._properties)]
        tool += ["-t", _new_cluster_id()]
        done = subprocess.run([*java, *tool], capture_output=True, text=True)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-TAIL_LINES:])
            raise UserError(f"Could not format {self.home / 'data'} for Kafka.", tail)

    def _classes(self, java: str, directory: Path) -> list[str]:
        archive = class_archives.archive(self._jars_home, class_archives.BROKER, java, directory)
        return [*class_archives.taking(archive), "-cp", f"{directory}/*"]

    def _java_options(self) -> list[str]:
        return [
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dkafka.logs.dir={self.home}",
            f"-Dlog4j2.configurationFile={self._log4j2}",
            *_options_of_user(),
            *self._given_options,
        ]

    def _launch(self, java: list[str]) -> subprocess.Popen[bytes]:
        """Start the process in its own session, and write the pid file."""
        self.log_file.unlink(missing_ok=True)
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                start_new_session=True,
            )
        started = psutil.Process(process.pid).create_time()
        note = json.dumps({"pid": process.pid, "started": started})
        self._pid_file.write_text(note, encoding="utf-8")
        return process

    def _wait_until_started(self, process: subprocess.Popen[bytes], last: bool) -> bool:
        """Wait for Kafka's log line that it has started.

        Returns:
            False if a port was taken meanwhile and another attempt is possible.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            log = _text(self.log_file)
            if STARTED in log and not ended:
                return True
            if ended and PORT_TAKEN in log and not last:
                return False
            if ended:
                break
            time.sleep(POLL_S)
        self.stop()
        tail = (_text(self.log_file) + _text(self._output)).splitlines()[-TAIL_LINES:]
        raise UserError(
            f"The Kafka broker in {self.home} did not start.",
            "\n".join(["Its log ends with:", *tail]),
        )


def _options_of_user() -> list[str]:
    """Return the options in `KAFKA_OPTS`. Raises UserError for an open quote."""
    text = os.environ.get("KAFKA_OPTS", "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"Invalid value of KAFKA_OPTS: {text!r}: {error}.") from None


def _text(path: Path) -> str:
    """Return a file's text, or an empty text without a file."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _new_cluster_id() -> str:
    """Return a random id without a leading `-`, which tools would parse as an option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _await_port(port: int) -> None:
    """Wait for a port: a killed process holds it until its last thread has ended."""
    deadline = time.monotonic() + PORT_PATIENCE_S
    while not _is_free(port) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _free_port(wanted: int | None = None) -> int:
    """Return the wanted port if it is free, or else a free one of `PORTS`."""
    candidates = random.sample(PORTS, PORT_ATTEMPTS)
    for port in candidates if wanted is None else [wanted, *candidates]:
        if _is_free(port):
            return port
    raise UserError(f"Found no free port on {HOST} from {PORTS.start} to {PORTS.stop - 1}.")
