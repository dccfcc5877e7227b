"""Kafka's own command-line tools, from its jars."""

import subprocess
from functools import cache

from brokerstream.kafka_io import jars
from brokerstream.kafka_io.java import java_executable
from brokerstream.settings import default_home

TIMEOUT_S = 600


@cache
def java_command() -> tuple[str, ...]:
    """A call of Java with the tools on its class path."""
    binding = ("org.apache.logging.log4j", "log4j-slf4j-impl", jars.LOG4J_VERSION)
    wanted = jars.JarSet("org.apache.kafka", "kafka-tools", jars.KAFKA_VERSION, also=(binding,))
    class_path = ":".join(str(jar) for jar in jars.fetch(wanted, default_home()))
    return java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", class_path


def run_tool(bootstrap: str, name: str, *words: str, text: str = "") -> str:
    """Run a tool by the end of its class's name; gives back what it prints."""
    done = try_tool(bootstrap, name, *words, text=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def try_tool(
    bootstrap: str, name: str, *words: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a tool that may fail, too."""
    command = [
        *java_command(),
        f"org.apache.kafka.tools.{name}",
        "--bootstrap-server",
        bootstrap,
        *words,
    ]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
