"""The wheel, installed with its requirements alone, or with msgspec alone."""

import json
import os
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from packaging.metadata import Metadata

import brokertwin
from brokertwin.extras import EXTRA_OF
from tests.support.environments import build_wheel, environment_with, install
from tests.support.patience import PATIENCE_S
from tests.support.sources import AT_THE_TOP, ROOT, python_files

pytestmark = pytest.mark.processes

CAPTURE = ROOT / "tests" / "captures" / "fetch_session_assign.jsonl.gz"
WAIT_S = PATIENCE_S
FETCHING = "downloading kafka_2.13 4.3.1\n"
"""`kafka start` asks for PySpark only where the jars are not there yet."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is written into the tree."""
    copy = tmp_path_factory.mktemp("source")
    for package in AT_THE_TOP:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, copy)
    return build_wheel(copy, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Metadata:
    """The wheel's metadata, valid by the rules of PyPI."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(archive.read(name), validate=True)


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose environment holds the wheel and msgspec, and nothing else."""
    python = environment_with(tmp_path_factory.mktemp("bare"), ["msgspec"])
    install(python, "--no-deps", str(wheel))
    return python


@pytest.fixture(scope="module")
def light_python(wheel: Path, metadata: Metadata, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with what `pip install brokertwin pytest` gives, without any extra."""
    required = [str(requirement) for requirement in metadata.requires_dist or ()]
    python = environment_with(tmp_path_factory.mktemp("light"), [*required, "pytest"])
    install(python, str(wheel))
    return python


def call(python: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [python.parent / "brokertwin", *words]
    environment = {**os.environ, "HOME": str(cwd), "BROKERTWIN_HOME": str(cwd / "home")}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=WAIT_S
    )


def test_the_wheel_installs_exactly_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"brokertwin"}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Modules, the type marker, and data files, whatever their suffix."""
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    files = {file for package in AT_THE_TOP for file in (ROOT / package).rglob("*")}
    wanted = {
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "brokertwin/py.typed" in wanted
    assert {w for w in wanted if w not in there and f"brokertwin/{w}" not in there} == set()


def test_wheel_metadata_is_complete_for_a_package_index(metadata: Metadata) -> None:
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.description_content_type == "text/markdown"
    assert metadata.summary
    assert metadata.keywords
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    assert str(metadata.requires_python) == ">=3.11"
    named = {classifier.partition(" :: ")[0] for classifier in metadata.classifiers or ()}
    assert named >= {"Development Status", "Framework", "Intended Audience", "Topic", "Typing"}
    urls = metadata.project_urls or {}
    assert urls
    assert all(url.startswith("https://") for url in urls.values())


def test_extra_installs_the_module_named_by_the_error(metadata: Metadata) -> None:
    """The module that is missed is there after the installation that the sentence names."""
    from importlib.metadata import packages_distributions

    brought: dict[str, set[str]] = {}
    for requirement in metadata.requires_dist or ():
        for extra in metadata.provides_extra or ():
            if requirement.marker and requirement.marker.evaluate({"extra": extra}):
                brought.setdefault(extra, set()).add(requirement.name.lower())
    assert {"spark", "checks", "all"} < set(brought)
    distributions = packages_distributions()
    for module, extra in EXTRA_OF.items():
        names = {name.replace("_", "-").lower() for name in distributions[module]}
        assert names <= brought[extra] | {"py4j"}, f"{module} is not in [{extra}]"


def test_the_core_runs_with_only_msgspec_installed(bare_python: Path) -> None:
    """Import every module of state and clients, except the I/O half of the clients."""
    code = """
import importlib, pkgutil, sys
names = ["brokertwin.state", "brokertwin.clients"]
for name in list(names):
    package = importlib.import_module(name)
    found = [module.name for module in pkgutil.walk_packages(package.__path__, name + ".")]
    pure = [each for each in found if not each.startswith("brokertwin.clients.io")]
    names += [importlib.import_module(each).__name__ for each in pure]
for absent in ("pyspark", "pydantic", "typer"):
    assert importlib.util.find_spec(absent) is None, absent
print(len(names))
"""
    command = [bare_python, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=bare_python.parent)
    assert done.returncode == 0, done.stderr
    pure = {*python_files("state", "clients")} - {*python_files("clients/io")}
    assert int(done.stdout) == len(pure)


def test_only_the_job_and_its_snapshots_need_an_extra(light_python: Path) -> None:
    """Every module is imported where no extra is installed; those that cannot be are named."""
    code = f"""
import importlib, importlib.util, json, pkgutil, brokertwin
failed = {{}}
for module in pkgutil.walk_packages(brokertwin.__path__, "brokertwin."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed[module.name.removeprefix("brokertwin.")] = error.name.split(".")[0]
assert not [name for name in {list(EXTRA_OF)} if importlib.util.find_spec(name)]
print(json.dumps(failed))
"""
    command = [light_python, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=light_python.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "cli.job.run_checks": "pyarrow",
        "cli.job.run_snapshots": "pyarrow",
        "streaming.checks.snapshot_checks": "pyarrow",
        "offsets.store": "pyarrow",
        "tables.query.spark_source": "pyspark",
        "sinks.offsets_snapshot": "pyarrow",
        "sinks.snapshot_store": "pyarrow",
        "streaming.checks.batch_checks": "pyarrow",
        "streaming.checks.checked_state": "pyarrow",
        "streaming.job.offset_following": "pyarrow",
        "streaming.checkpoint.restore": "pyarrow",
        "streaming.checkpoint.snapshots": "pyarrow",
        "streaming.checkpoint.store_writer": "xxhash",
    }


def test_the_light_wheel_gives_pytest_a_kafka_broker(light_python: Path, tmp_path: Path) -> None:
    """It runs in a new project, with unmodified clients, and with every warning an error.

    kafka-python itself warns when it is imported first; here the fixture imports it.
    """
    (tmp_path / "test_it.py").write_text(
        """
import sys
import brokertwin

def test_it(kafka_broker):
    assert brokertwin.__file__.startswith(sys.prefix)
    kafka_broker.produce("orders", "one")
    import confluent_kafka
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    producer.send("orders", b"two").get(timeout=300)
    producer.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap})
    producer.produce("orders", b"three")
    assert producer.flush(300) == 0
    values = [record.value for record in kafka_broker.records("orders")]
    assert values == [b"one", b"two", b"three"]
"""
    )
    command = [light_python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_light_wheel_replays(light_python: Path, tmp_path: Path) -> None:
    broker_config = str(CAPTURE.parent / "broker.properties")
    words = ["replay", str(CAPTURE), "--compare", "--broker-config", broker_config]
    done = call(light_python, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agree 513 of 513" in done.stdout


@contextmanager
def serving(python: Path, *words: str, cwd: Path) -> Iterator[str]:
    """A command that serves until it gets SIGTERM; the first line that it says."""
    process = subprocess.Popen(
        [python.parent / "brokertwin", *words], cwd=cwd, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        yield process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_light_wheel_serves_and_captures(light_python: Path, tmp_path: Path) -> None:
    with serving(light_python, "gateway", "--listen", "localhost:0", cwd=tmp_path) as given:
        broker = given.split()[-1]
        words = ["--listen", "localhost:0", broker, "--out", "recorded.jsonl"]
        with serving(light_python, "capture", *words, cwd=tmp_path) as given:
            proxy = given.split("listening on ")[1].split(",")[0]
            client = AdminClient({"bootstrap.servers": proxy})
            assert client.list_topics(timeout=WAIT_S).brokers
    lines = (tmp_path / "recorded.jsonl").read_text().splitlines()
    headers = [json.loads(line).get("requestHeader", {}) for line in lines]
    assert "METADATA" in [header.get("requestApiKeyName") for header in headers]


@pytest.mark.parametrize(
    "words",
    [
        ["demo"],
        ["kafka", "start"],
        ["replay", "--engine", "spark"],
        ["run"],
        ["setup"],
    ],
    ids=" ".join,
)
def test_command_without_its_extra_names_the_extra(
    words: list[str], light_python: Path, tmp_path: Path
) -> None:
    files = [str(CAPTURE)] if words[0] == "replay" else []
    done = call(light_python, *words, *files, cwd=tmp_path)
    name = " ".join(words)
    needs = (
        f"`brokertwin {name}` needs the package pyspark, which the extra 'spark' installs.\n"
        "Install it with: pip install '.[spark]' in a clone of the repository, or pip install"
        f" 'brokertwin-{brokertwin.__version__}-py3-none-any.whl[spark]'\n"
    )
    assert (done.returncode, done.stdout, done.stderr.removeprefix(FETCHING)) == (2, "", needs)


def test_every_command_helps_without_extras(light_python: Path, tmp_path: Path) -> None:
    assert call(light_python, "--help", cwd=tmp_path).returncode == 0
    for command in ("run", "state", "kafka"):
        done = call(light_python, command, "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"Usage: brokertwin {command}" in done.stdout


def test_two_editable_clones_each_use_their_own_code(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An environment uses the clone that was installed last; inside a clone its own code wins."""
    python = environment_with(tmp_path / "environment", ["setuptools", "msgspec"])
    clones = [tmp_path / "one", tmp_path / "two"]
    code = "import brokertwin.state.cell.cell as cell; print(cell.__file__)"
    module = Path("brokertwin/state/cell/cell.py")
    for clone in clones:
        for package in AT_THE_TOP:
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, clone / package, symlinks=True, ignore=ignore)
        for name in ("pyproject.toml", "LICENSE", "README.md"):
            shutil.copy(ROOT / name, clone)
        install(python, "--no-deps", "--editable", str(clone))
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert found.stdout.strip() == str(clone / module), found.stderr
    for clone in clones:
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=clone)
        assert found.stdout.strip() == str(clone / module), found.stderr
