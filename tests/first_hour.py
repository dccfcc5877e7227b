"""A stranger's first hour, typed: a fresh clone, an empty home, the README and six tasks.

    python tests/first_hour.py --transcript first_hour.txt
    python tests/first_hour.py --only wrong_arguments --clone DIR    # a clone that is set up

Each command is typed in bash; the transcript has its time and its output. Failures are reported at
once and again at the end, with exit code `1`; the other commands still run. Times are reported
without a limit, except for wrong arguments, which have to be reported within seconds.
"""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 1800
SECONDS_FOR_AN_ERROR = 10.0
"""On a machine where `brokertwin config show` takes one; in proportion on another."""

LINES_OF_AN_ERROR = 6
LINES_SHOWN = 40
TRACE = re.compile(r"Traceback|^\s+at [\w.$]+\(|Exception in thread|py4j\.|pyspark\.errors", re.M)
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):\d+")


class Failed(Exception):
    """Something does not go as it should."""


class Server(NamedTuple):
    """A command in the background, and the file with its output."""

    text: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Stranger:
    """Somebody who types; all of it goes into the transcript."""

    clone: Path
    environment: dict[str, str]
    out: Callable[[str], None]
    failures: list[str] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    second: float = 1.0

    def knows_the_machine(self) -> None:
        """See how long a second of a quiet machine takes on this one."""
        began = time.monotonic()
        self.types("brokertwin config show")
        self.second = max(1.0, time.monotonic() - began)

    def types(
        self,
        text: str,
        code: int | None = 0,
        expected: str = "",
        where: Path | None = None,
        **more: str,
    ) -> str:
        """Type a command; return its output. Without `code` any exit code passes. Raises Failed."""
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=where or self.clone,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        output = done.stdout.decode(errors="replace")
        settings = "".join(f"{key}={value} " for key, value in more.items())
        self.out(f"$ {settings}{text}\n{shown(output)}")
        self.out(f"  [{time.monotonic() - began:.1f} s, exit code {done.returncode}]\n\n")
        if code is not None and done.returncode != code:
            raise Failed(f"exit code {done.returncode}, not {code}: {text}")
        if TRACE.search(output):
            raise Failed(f"a trace: {text}")
        if not re.search(expected, output):
            raise Failed(f"says nothing of {expected!r}: {text}")
        return output

    def serve(self, text: str, ready: str, **more: str) -> Server:
        """Start a command in the background and wait until it says that it is ready."""
        log = Path(tempfile.mkstemp(prefix="first-hour-", suffix=".log")[1])
        began = time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.clone,
                env={**self.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        server = Server(text, process, log)
        self.servers.append(server)
        while not re.search(ready, server.output()):
            if process.poll() is not None or time.monotonic() - began > PATIENCE_S:
                self.out(f"$ {text} &\n{shown(server.output())}\n")
                raise Failed(f"ends with {process.poll()} before it is ready: {text}")
            time.sleep(0.2)
        self.out(f"$ {text} &\n{shown(server.output())}")
        self.out(f"  [ready after {time.monotonic() - began:.1f} s]\n\n")
        return server

    def stop(self, server: Server, number: int = signal.SIGINT) -> None:
        """End a command with a signal; with SIGKILL all that belongs to it."""
        family = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(number)
        if number == signal.SIGKILL:
            for each in family:
                if each.is_running():
                    each.kill()
        code = server.process.wait(PATIENCE_S)
        name = signal.Signals(number).name
        self.out(f"[{name} to: {server.text}; it ends with {code}]\n{shown(server.output())}\n")
        self.servers.remove(server)
        if number != signal.SIGKILL and code != 0:
            raise Failed(f"ends with {code}: {server.text}")

    def refused(self, text: str, message: str, **more: str) -> None:
        """Type a wrong command: it has to fail in one sentence within seconds, without a trace."""
        began = time.monotonic()
        try:
            output = self.types(text, code=2, expected=message, **more)
        except Failed as failed:
            self.fails(str(failed))
            return
        took = time.monotonic() - began
        if took > SECONDS_FOR_AN_ERROR * self.second:
            self.knows_the_machine()  # others may have come meanwhile
        if took > SECONDS_FOR_AN_ERROR * self.second:
            self.fails(f"{took:.0f} s to be told: {text}")
        lines = [line for line in output.splitlines() if line.strip()]
        if len(lines) > LINES_OF_AN_ERROR:
            self.fails(f"{len(lines)} lines to be told: {text}")

    def fails(self, what: str) -> None:
        """Note that something does not go as it should."""
        self.failures.append(what)
        self.out(f"!!! {what}\n\n")

    def close(self) -> None:
        """End what still serves."""
        for server in list(self.servers):
            self.stop(server, signal.SIGKILL)

    def run(self, task: Callable[["Stranger"], None]) -> None:
        """Do a task; what ends it is noted."""
        title = (task.__doc__ or "").splitlines()[0]
        self.out(f"\n=== {task.__name__}: {title}\n\n")
        began = time.monotonic()
        try:
            task(self)
        except (Failed, AssertionError, subprocess.SubprocessError) as failed:
            self.fails(f"{task.__name__}: {failed}")
        finally:
            self.close()
        self.out(f"=== {task.__name__}: {time.monotonic() - began:.0f} s\n")


def shown(output: str) -> str:
    """What of an output goes into the transcript."""
    lines = output.splitlines()
    if len(lines) > LINES_SHOWN:
        left_out = f"... {len(lines) - LINES_SHOWN} lines ..."
        lines = [*lines[: LINES_SHOWN // 2], left_out, *lines[-LINES_SHOWN // 2 :]]
    return "".join(f"  {line}\n" for line in lines)


@contextmanager
def kafka(stranger: Stranger) -> Iterator[str]:
    """The embedded broker, freshly started; gives its address."""
    address = ADDRESS.search(stranger.types("brokertwin kafka start"))
    if address is None:
        raise Failed("kafka start says no address")
    try:
        yield address[0]
    finally:
        stranger.types("brokertwin kafka stop")


def python(stranger: Stranger, program: str, *words: str) -> str:
    """Run a client's program in the clone's environment; its lines are in the transcript."""
    return stranger.types(shlex.join(["python", "-c", program, *words]))


def ten_minutes(stranger: Stranger) -> None:
    """The README's examples, command by command."""
    readme = (stranger.clone / "README.md").read_text(encoding="utf-8")
    for name, code in re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", readme, re.DOTALL):
        (stranger.clone / name).write_text(code, encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", readme, re.DOTALL):
        for line in block.splitlines():
            text = line.removeprefix("$ ")
            if not line.startswith("$ ") or text.startswith(". "):
                continue
            try:
                if text.startswith("brokertwin gateway"):
                    stranger.serve(text, "broker 1 at")
                else:
                    stranger.types(text)
            except Failed as failed:
                stranger.fails(str(failed))


GROUP = """
import sys
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
at, name = sys.argv[1:]
KafkaAdminClient(bootstrap_servers=at).create_topics([NewTopic(name, 2, 1)])
producer = KafkaProducer(bootstrap_servers=at)
for number in range(20):
    producer.send(name, b"%d" % number, partition=number % 2).get(60)
producer.close()
consumer = KafkaConsumer(name, bootstrap_servers=at, group_id=f"group-of-{name}",
                         auto_offset_reset="earliest", enable_auto_commit=False)
count = 0
while count < 20:
    count += sum(map(len, consumer.poll(timeout_ms=1000).values()))
consumer.commit()
consumer.close()
print("read", count)
"""


def record_my_group(stranger: Stranger) -> None:
    """Record my own consumer group against a real Kafka, see its offsets in a job; replay it."""
    with kafka(stranger) as address:
        python(stranger, GROUP, address, "others")  # a Kafka that is in use
        listen = f"localhost:{free_port()}"
        capture = stranger.serve(
            f"brokertwin capture {address} --listen {listen} --out mine.jsonl.gz",
            re.escape(listen.partition(":")[2]),
        )
        python(stranger, GROUP, listen, "mine")
        stranger.stop(capture)
        replay = "brokertwin replay mine.jsonl.gz --compare"
        output = stranger.types(replay, code=None)
        slow = re.search(r"--time-tolerance \d+", output)
        if slow is not None:  # a broker that has just started, on a busy machine
            output = stranger.types(f"{replay} {slow[0]}")
        if not re.search(r"(?m)^agree (\d+) of \1$", output):
            raise Failed("the replay differs from the recording")
        job = (
            "brokertwin run --prefix mine --available-now --event-time recorded"
            " --broker-config mine.jsonl.gz.properties"
        )
        stranger.types(job)
        stranger.types("brokertwin send --prefix mine mine.jsonl.gz")
        stranger.types(job)
        output = stranger.types(
            "brokertwin state offsets --prefix mine --json", expected="group-of-mine"
        )
        if not re.search(r"\b10\b", output):
            raise Failed("the group's offsets are not 10 and 10")


WRITE = """
import sys
from confluent_kafka import Producer
at, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
producer = Producer({"bootstrap.servers": at, "enable.idempotence": True,
                     "message.timeout.ms": 600000, "socket.timeout.ms": 60000, "linger.ms": 50,
                     "topic.metadata.propagation.max.ms": 600000})
failed = []
for number in range(first, last):
    producer.produce("kept", b"%d" % number, partition=0,
                     on_delivery=lambda error, _: failed.append(error) if error else None)
print("left", producer.flush(600), "failed", failed)
"""

READ = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "r", "fetch.wait.max.ms": 5000,
                     "socket.timeout.ms": 60000, "enable.auto.commit": False})
consumer.assign([TopicPartition("kept", 0, 0)])
found = []
while len(found) < int(sys.argv[2]):
    found += [int(each.value()) for each in consumer.consume(100, 1) if each.error() is None]
print("all once and in order:", found == list(range(int(sys.argv[2]))))
"""


def killed_job(stranger: Stranger) -> None:
    """A job with a gateway in front; kill -9 of the job; nothing is lost."""
    with kafka(stranger):
        run = "brokertwin run --prefix kept --cluster kept --set num.partitions=1"
        job = stranger.serve(run, "reading kept.requests")
        listen = f"localhost:{free_port()}"
        front = f"brokertwin gateway --engine spark --prefix kept --cluster kept --listen {listen}"
        gateway = stranger.serve(front, "broker 1 at")
        written = "left 0 failed []"
        if written not in python(stranger, WRITE, listen, "0", "100"):
            raise Failed("the first half is not written")
        writes = stranger.serve(shlex.join(["python", "-u", "-c", f"print('writes')\n{WRITE}",
                                            listen, "100", "200"]), "writes")  # fmt: skip
        time.sleep(0.5)
        stranger.stop(job, signal.SIGKILL)
        job = stranger.serve(run, "reading kept.requests")
        if writes.process.wait(PATIENCE_S) or written not in writes.output():
            raise Failed(f"not all is written: {writes.output()}")
        stranger.servers.remove(writes)
        read = python(stranger, READ, listen, "200")
        if "order: True" not in read:
            raise Failed(read)
        stranger.stop(gateway)
        stranger.stop(job)


def own_project(stranger: Stranger) -> None:
    """Use the fixture in a new project, from the light wheel."""
    stranger.types("pip wheel --quiet --no-deps --wheel-dir dist .")
    project = Path(tempfile.mkdtemp(prefix="first-hour-project-"))
    pages = [
        stranger.clone / "docs" / page for page in ("tutorials/test-a-client.md", "testing.md")
    ]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for number, example in enumerate(examples):
        (project / f"test_{number}.py").write_text(example, encoding="utf-8")
    stranger.types(f"{sys.executable} -m venv venv", where=project)
    stranger.types(
        f"venv/bin/pip install --quiet {stranger.clone}/dist/*.whl pytest", where=project
    )
    packages = stranger.types("venv/bin/pip list --format=freeze", where=project)
    for heavy in ("pyspark", "pandas", "great"):
        if re.search(rf"(?im)^{heavy}", packages):
            stranger.fails(f"the light wheel brings {heavy}")
    stranger.types("venv/bin/pytest -q test_0.py test_1.py", expected="2 passed", where=project)
    stranger.types("venv/bin/pip install --quiet confluent-kafka", where=project)
    stranger.types("venv/bin/pytest -q -W error test_3.py", expected="1 passed", where=project)


def own_cluster(stranger: Stranger) -> None:
    """A standalone Spark cluster, and the job by spark-submit."""
    home = stranger.types("python -c 'import pyspark; print(pyspark.__path__[0])'").split()[-1]
    spark_class, submit = f"{home}/bin/spark-class", f"{home}/bin/spark-submit"
    url = f"spark://127.0.0.1:{free_port()}"
    port = url.rpartition(":")[2]
    deploy, local = "org.apache.spark.deploy", {"SPARK_LOCAL_IP": "127.0.0.1"}
    node = "--host 127.0.0.1 --webui-port 0"
    stranger.serve(f"{spark_class} {deploy}.master.Master {node} --port {port}", "ALIVE", **local)
    stranger.serve(
        f"{spark_class} {deploy}.worker.Worker {node} -c 2 -m 1g {url}", "registered", **local
    )
    with kafka(stranger):
        where = "import brokertwin; print(brokertwin.__path__[0])"
        script = f"\"$(python -c '{where}')\"/__main__.py"
        job = "run --prefix far --available-now --event-time recorded"
        stranger.types(f"{submit} --master {url} {script} {job}", **local)
        stranger.types("brokertwin send --prefix far examples/first.jsonl")
        output = stranger.types(f"{submit} --verbose --master {url} {script} {job}", **local)
        if "local[" in output:
            stranger.fails("spark-submit: the given master is overridden")
        stranger.types("brokertwin state logs --prefix far", expected="orders")


HINT = """
from brokertwin.testing import KafkaBroker
with KafkaBroker() as broker:
    try:
        broker.fail_next("PRODUSE", 1)
    except Exception as error:
        print(error)
"""


def wrong_arguments(stranger: Stranger) -> None:
    """Wrong commands are reported in a sentence within seconds, without a traceback."""
    stranger.knows_the_machine()
    stranger.refused("brokertwin run --bootstrap localhost:1", r"localhost:1")
    stranger.refused("brokertwin send --bootstrap localhost:1 examples/first.jsonl", "localhost:1")
    stranger.refused("brokertwin capture localhost:1 --out x.jsonl", "localhost:1")
    stranger.refused("brokertwin config show", "(?i)cells", BROKERTWIN_CELS="4")
    stranger.refused("brokertwin kafka start --property num.partitons=3", "num.partitions")
    stranger.types("printf full > full.jsonl")
    stranger.refused("brokertwin ingest examples/first.jsonl --out full.jsonl", "full.jsonl")
    stranger.types('test "$(cat full.jsonl)" = full')
    stranger.types(shlex.join(["python", "-c", HINT]), expected="PRODUCE")
    with kafka(stranger) as address:
        before = python(stranger, TOPICS, address)
        stranger.refused("brokertwin run --master nonsense", "nonsense")
        stranger.refused("brokertwin run --checkpoint /proc/none", "/proc/none")
        stranger.refused("brokertwin run --http-listen 99999", "99999")
        taken = address.rpartition(":")[2]
        stranger.refused(f"brokertwin run --http-listen {taken}", taken)
        stranger.refused("brokertwin run --prefix none --set no.such.setting=1", "no.such.setting")
        if python(stranger, TOPICS, address) != before:
            stranger.fails("a refused run leaves topics behind")
        job = "brokertwin run --prefix old --available-now --event-time recorded"
        stranger.types(job)
        stranger.types("brokertwin send --prefix old examples/first.jsonl")
        stranger.types(job)
        stranger.refused(job, "shuffle", BROKERTWIN_SHUFFLE_PARTITIONS="5")


TOPICS = """
import sys
from confluent_kafka.admin import AdminClient
print(sorted(AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=60).topics))
"""

TASKS = (ten_minutes, record_my_group, killed_job, own_project, own_cluster, wrong_arguments)


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(home: Path, clone: Path) -> dict[str, str]:
    """Return the environment of a new user: an empty home, no settings."""
    kept = {key: value for key, value in os.environ.items() if "BROKERTWIN" not in key}
    for of_ours in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"):
        kept.pop(of_ours, None)
    path = os.pathsep.join([str(clone / ".venv" / "bin"), kept["PATH"]])
    return {**kept, "HOME": str(home), "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}


def main() -> int:
    """Read the arguments, do the tasks, say what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transcript", type=Path, default=Path("first_hour.txt"))
    parser.add_argument("--only", nargs="*", default=[task.__name__ for task in TASKS])
    parser.add_argument("--clone", type=Path, help="a clone that is there already")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="first-hour-"))
    home, clone = place / "home", (given.clone or place / "brokertwin").resolve()
    home.mkdir()
    with given.transcript.open("w", encoding="utf-8") as transcript:

        def out(text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()
            transcript.write(text)
            transcript.flush()

        stranger = Stranger(clone, environment(home, clone), out)
        if given.clone is None:
            stranger.types(f"git clone --quiet {ROOT} {clone}", where=place)
            stranger.types("make setup")
        for task in TASKS:
            if task.__name__ in given.only:
                stranger.run(task)
        out(f"\n{len(stranger.failures)} things did not go as they should\n")
        for failure in stranger.failures:
            out(f"- {failure}\n")
    return 1 if stranger.failures else 0


if __name__ == "__main__":
    sys.exit(main())
