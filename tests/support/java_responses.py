"""What Kafka's own Java classes return, asked through a driver or read from a golden."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from brokertwin.kafka_io import jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.settings import default_home
from tests.support.goldens import IS_LIVE, MODE, tape

HASH_LETTERS = 12


def inputs(count: int) -> int:
    """Return how many inputs a comparison has: `EXAMPLES`, if more, under `GOLDENS=compare`."""
    return max(count, int(os.environ.get("EXAMPLES", "0"))) if MODE == "compare" else count


def broker_command() -> tuple[str, ...]:
    """Return a call of Java with the broker's classes."""
    class_path = ":".join(str(jar) for jar in jars.fetch(jars.kafka_jars(), default_home()))
    return java_executable(), "-XX:TieredStopAtLevel=1", "-cp", class_path


def java_lines(
    driver: Path, lines: Sequence[str], command: Sequence[str] | None = None
) -> list[str]:
    """Hand lines to a driver and return those that it prints.

    Args:
        driver: a Java source file.
        lines: its input.
        command: the call of Java; by default with the broker's classes.
    """
    done = subprocess.run(
        [*(command or broker_command()), str(driver)],
        input="".join(f"{each}\n" for each in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def json_from_java(
    driver: Path, requests: Sequence[str], command: Sequence[str] | None = None
) -> list[Any]:
    """Like `java_lines`, for a driver that prints JSON."""
    return [json.loads(line) for line in java_lines(driver, requests, command)]


def java_responses(
    golden: str, requests: Sequence[str], send: Callable[[Sequence[str]], Sequence[Any]]
) -> Iterator[Any]:
    """Yield the response of Kafka's classes to each request, from a golden or from Java.

    The caller compares each response at once: the first wrong one fails, before later requests
    that depend on it differ from the recorded ones. The golden has a hash of each request.
    """
    theirs = send(requests) if IS_LIVE else ()
    with tape(golden) as recording:
        for at, request in enumerate(requests):
            name = hashlib.sha256(request.encode()).hexdigest()[:HASH_LETTERS]
            yield recording.response(name, partial(_at, theirs, at))


def _at(responses: Sequence[Any], at: int) -> Any:
    return responses[at]
