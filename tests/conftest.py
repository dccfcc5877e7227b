"""Fixtures for the whole session: one real Kafka broker, one Spark session.

Fixtures stop their processes, also when the run is interrupted or terminated.
"""

import gc
import os
import re
import shutil
import signal
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.browsers import browser
from tests.support.examples import ARE_NEW, examples
from tests.support.goldens import MODE, Tape, Track, real_broker, tape
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where bytecode may not be written every process of a run compiles the project again, and pytest
# rewrites its tests: some two hundred commands, each half a second longer.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A test's broker does little for a short time: compiling its classes twice takes longer than that.
os.environ["KAFKA_OPTS"] = "-XX:TieredStopAtLevel=1"

# A shell's background job ignores Ctrl-C, and so does all that it starts: a tool that a test stops
# in that way would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
LONG = (
    *("tests/cli/job/test_run.py", "tests/streaming/checkpoint/test_restore.py"),
    "tests/gateway/test_transactions.py",
    *("tests/test_wheel.py", "tests/test_commands_in_documents.py", "tests/test_docker.py"),
    *("tests/recordings/replay/", "tests/state/cell/test_histories.py"),
    *("tests/streaming/job/test_cluster.py", "tests/gateway/test_schedules_like_kafka.py"),
    *("tests/recordings/audit/", "tests/clients/test_producer_exactly_once.py"),
    *("tests/simulation/test_losses.py", "tests/test_imports.py"),
    "tests/simulation/test_run.py",
)
"""Files and folders that would keep a worker busy when all others are done."""

APART = {"tests/test_commands_in_documents.py", "tests/simulation/test_run.py"}
"""Long files whose tests share nothing."""

EVERYDAY = (
    "tests/cli/job/test_run.py::test_a_job_that_is_stopped_and_killed_loses_nothing",
    "tests/streaming/checkpoint/test_restore.py::test_responses_after_a_restore",
    "tests/gateway/test_clients.py::",
    "tests/gateway/test_kafka_tools.py::test_console_producer_and_consumer_exchange_records",
    "tests/gateway/test_kafka_tools.py::test_console_consumer_reads_in_a_consumer_group",
    "tests/gateway/capture/test_clients.py::",
    "tests/testing/test_plugin.py::",
    "tests/cli/broker/test_proxy.py::test_faults_of_a_file_and_a_recording",
    "tests/cli/offsets/test_offsets.py::test_offsets_go_from_one_real_cluster_to_another",
    "tests/test_wheel.py::",
    "tests/cli/watching/test_page_in_browser.py::",
    "tests/page/test_in_browser.py::",
    "tests/test_site.py::",
)
"""Tests with real processes that `make test` runs; all others of them need `make test-all`."""

SESSION = "the Spark session"
"""One worker has it, and the tests that use it."""
EXPECTATIONS = "great-expectations"
"""One worker imports it, which takes seconds."""
SOURCES = "the project's own modules"
"""One worker parses them all."""


def _end(number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"signal {signal.Signals(number).name}", returncode=128 + number)


def pytest_configure(config: pytest.Config) -> None:
    """End in order when told to: fixtures are torn down."""
    signal.signal(signal.SIGTERM, _end)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: some tests wait, and each worker collects all of them."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker goes through whole files, so that what their tests share is computed once."""
    from xdist.scheduler import LoadFileScheduling

    class Lanes(LoadFileScheduling):
        """Files with the same slow set-up run on one worker; tests of some files run separately."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if _uses_session(file):
                return SESSION
            if _imports_expectations(file):
                return EXPECTATIONS
            if _parses_modules(file):
                return SOURCES
            return nodeid if file in APART else file

    config.option.loadscopereorder = False
    return Lanes(config, log)


@cache
def _uses_session(file: str) -> bool:
    """Whether a file's tests or fixtures name the fixture `spark`."""
    return re.search(r"\bspark: ", (ROOT / file).read_text(encoding="utf-8")) is not None


@cache
def _imports_expectations(file: str) -> bool:
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.search(r"\bsinks import .*\b(checks|snapshot_store)\b", text) is not None


@cache
def _parses_modules(file: str) -> bool:
    """Whether a file's tests look at the syntax trees of all modules."""
    return re.search(r"\btree_of\b", (ROOT / file).read_text(encoding="utf-8")) is not None


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that uses a fixture below has its marker without saying so."""
    fixtures = getattr(item, "fixturenames", ())
    for name in ("kafka", "spark"):
        if {name, f"own_{name}"} & set(fixtures):
            item.add_marker(name)
    if "real_kafka" in fixtures:
        item.add_marker("compares")
    if item.nodeid.startswith(EVERYDAY):
        item.add_marker("everyday")
    assert not _has_session(item) or _uses_session(_file_of(item)), f"{item.nodeid}: name `spark: `"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the tests, the long files come first.

    Those that mostly wait are spread among those that compute.
    """
    if hasattr(config, "workerinput"):
        places = _places({_file_of(item): None for item in items})
        items.sort(key=lambda item: (not _has_session(item), places[_file_of(item)]))
    _leave_out(config, items, lambda item: not _is_wanted(item))


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _has_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], is_left_out: Callable[[pytest.Item], bool]
) -> None:
    """Deselect tests; the end of a run counts them."""
    left_out = [each for each in items if is_left_out(each)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if not is_left_out(each)]


def _is_wanted(item: pytest.Item) -> bool:
    """Return whether a test runs here: a browser or npm is there, its shard and golden wanted."""
    file = _file_of(item)
    return (
        (item.get_closest_marker("browser") is None or browser() is not None)
        and (item.get_closest_marker("node") is None or shutil.which("npm") is not None)
        and (item.get_closest_marker("promtool") is None or shutil.which("promtool") is not None)
        and _is_in_shard(file, os.environ.get("SHARD", "1/1"))
        and _names_golden(file, os.environ.get("GOLDEN", ""))
    )


def _is_in_shard(file: str, shard: str) -> bool:
    """Return whether a file belongs to shard `i/n`, i from 1 to n."""
    number, _, count = shard.partition("/")
    return zlib.crc32(file.encode()) % int(count) == int(number) - 1


@cache
def _names_golden(file: str, golden: str) -> bool:
    """Return whether a file's text has the name of a golden, or its subject if it is made up."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return not golden or f'"{golden}"' in text or f'"{golden.rpartition("/")[0]}/{{' in text


def pytest_report_header(config: pytest.Config) -> list[str]:
    found = browser()
    real = {"record": "a real broker, recorded", "compare": "a real broker"}
    return [
        f"browser: {found}" if found else "browser: none, pages are not opened in one",
        f"comparisons with: {real.get(MODE, 'recorded responses')}",
    ]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start each worker with different files, so that they share compiled modules.

    In a fresh clone all of them would compile everything, at the same time. Files that cannot be
    imported are reported during collection.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted((ROOT / "tests").glob("**/test_*.py"))
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    for file in files[number * len(files) // count : (number + 1) * len(files) // count]:
        with suppress(Exception):
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze existing objects: the garbage collector does not scan them again."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000)


def _places(files: Iterable[str]) -> dict[str, float]:
    """Where each file comes, from 0 to 1."""
    long_first = sorted(files, key=lambda file: not file.startswith(LONG))
    waiting = [file for file in long_first if file.startswith(WAITING)]
    computing = [file for file in long_first if not file.startswith(WAITING)]
    return {
        file: place / len(kind) for kind in (waiting, computing) for place, file in enumerate(kind)
    }


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a real Kafka broker of this session."""
    yield from _running(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A real broker for recorded comparisons; started only if `GOLDENS` asks for one."""
    with real_broker(tmp_path_factory.mktemp("real") / "kafka") as address:
        yield address


@pytest.fixture(scope="module")
def module_tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """The recording of a module: the golden that its constant GOLDEN names."""
    with tape(request.module.GOLDEN) as recording:
        yield recording


@pytest.fixture
def track(module_tape: Tape, request: pytest.FixtureRequest) -> Track:
    return module_tape.track(request.node.name)


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[str]:
    """The bootstrap address of a real Kafka broker of one test, where no other test has been."""
    yield from _running(tmp_path / "kafka")


def _running(directory: Path) -> Iterator[str]:
    broker = EmbeddedKafka(directory, default_home())
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The Spark session of this test session, with the Kafka connector."""
    from brokertwin.settings import load
    from brokertwin.streaming.job import jvm
    from brokertwin.streaming.job.session import spark_session

    flags = {"master": "local[2]", "shuffle_partitions": 2}
    session = spark_session(load(flags).settings)
    try:
        yield session
    finally:
        session.stop()
        jvm.stop(60)


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in [name for name in os.environ if name.startswith("BROKERTWIN_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path
