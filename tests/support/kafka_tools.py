"""Kafka's own command-line tools, from its jars."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from brokertwin.kafka_io import jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.kafka_io.kafka_tools import PACKAGE
from brokertwin.settings import default_home

TIMEOUT_S = 600
STEP_TIMEOUT_S = 60
DRIVER = Path(__file__).with_name("KafkaTools.java")

TOOLS = jars.tools_jars()
STREAMS, *CONNECT = (
    jars.JarSet("org.apache.kafka", name, jars.KAFKA_VERSION)
    for name in ("kafka-streams", "connect-runtime", "connect-file")
)


@cache
def class_path(*jar_sets: jars.JarSet) -> str:
    return ":".join(str(jar) for each in jar_sets for jar in jars.fetch(each, default_home()))


def java_command() -> tuple[str, ...]:
    """A call of Java with the tools on its class path."""
    return java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", class_path(TOOLS)


def streams_command() -> tuple[str, ...]:
    """A call of Java with Kafka Streams on its class path."""
    return java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path(STREAMS)


def connect_command() -> tuple[str, ...]:
    """A call of Java with Kafka Connect and its connectors of files on its class path."""
    return java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path(*CONNECT)


def run_tool(bootstrap: str, name: str, *words: str, text: str = "") -> str:
    """Run a tool by the end of its class's name; return its output."""
    done = try_tool(bootstrap, name, *words, text=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def try_tool(
    bootstrap: str, name: str, *words: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a tool that may fail, too."""
    command = [*java_command(), f"{PACKAGE}.{name}", "--bootstrap-server", bootstrap, *words]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


class Printed(NamedTuple):
    """Output of a tool and its exit status."""

    status: int
    out: str
    err: str


class ToolProcess:
    """One JVM that runs many tools in order; their logs are left out.

    Starting Java takes longer than most tools run. `KafkaTools.java` beside this file calls them.
    """

    def __init__(self) -> None:
        broker = ":".join(str(jar) for jar in jars.fetch(jars.kafka_jars(), default_home()))
        options = ["-XX:TieredStopAtLevel=1", "-Xmx192m", "-Dlog4j2.level=OFF"]
        options += ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        command = [java_executable(), *options, "-cp", f"{class_path(TOOLS)}:{broker}", str(DRIVER)]
        self._java = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._java:
            self._java.kill()

    def run(self, main_class: str, *words: str, text: str = "") -> Printed:
        request = {"tool": main_class, "words": words, "text": text}
        document = json.dumps({**request, "timeoutMs": STEP_TIMEOUT_S * 1000})
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.write(document + "\n")
        self._java.stdin.flush()
        line = self._java.stdout.readline()
        assert line, f"Java ended in {main_class} {' '.join(words)}"
        return Printed(**json.loads(line))


def main() -> None:
    """Downloads all of them: a fresh clone does it beside the pure tests, which need none."""
    with ThreadPoolExecutor() as pool:
        for each in pool.map(class_path, (TOOLS, STREAMS, *CONNECT)):
            assert each


if __name__ == "__main__":
    main()
