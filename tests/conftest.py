"""Fixtures for the whole session: one real Kafka broker, one Spark session.

What a fixture starts it stops, also when the run is interrupted or told to end.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.settings import default_home
from tests.support.examples import ARE_NEW, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where bytecode may not be written every process of a run compiles the project again, and pytest
# rewrites its tests: some two hundred commands, each half a second longer.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes, and the drawing of it, is the machine's business.
hypothesis.settings.register_profile(
    "any machine",
    max_examples=examples(25),
    deadline=None,
    derandomize=not ARE_NEW,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")

WAITING = ("tests/gateway/", "tests/testing/")
"""Tests with clients and sockets."""


def _end(number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"signal {signal.Signals(number).name}", returncode=128 + number)


def pytest_configure(config: pytest.Config) -> None:
    """End in order when told to: fixtures are torn down."""
    signal.signal(signal.SIGTERM, _end)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: tests with clients mostly wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker goes through whole files, so that it computes once what their tests share."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that uses a fixture below has its marker without saying so.

    Where several workers share the tests, those that mostly wait come first: they are one worker's
    share then, while the others compute.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(WAITING))
    for item in items:
        for name in {"kafka", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(name)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a real Kafka broker of this session."""
    broker = EmbeddedKafka(tmp_path_factory.mktemp("kafka"), default_home())
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The Spark session of this test session, with the Kafka connector."""
    from brokerstream.settings import load
    from brokerstream.streaming.session import spark_session

    flags = {"master": "local[2]", "shuffle_partitions": 2}
    session = spark_session(load(flags).settings)
    try:
        yield session
    finally:
        session.stop()
        _stop_gateway()


def _stop_gateway() -> None:
    """End the JVM that PySpark leaves running until the interpreter exits."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = None
        SparkContext._jvm = None


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without a brokerstream.toml, and no BROKERSTREAM_… variables."""
    for variable in [name for name in os.environ if name.startswith("BROKERSTREAM_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path
