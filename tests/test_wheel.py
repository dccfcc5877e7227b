"""The wheel, installed where there is nothing but msgspec."""

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.sources import PACKAGES, ROOT, python_files


def build_wheel(source: Path, target: Path) -> Path:
    """Build without a network: with the setuptools that is installed."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is written into the tree."""
    copy = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignore)
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, copy)
    return build_wheel(copy, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose environment holds the wheel and msgspec, and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    for file in importlib.metadata.files("msgspec") or ():
        goal = site / file
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), goal)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return python


def test_the_wheel_installs_exactly_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"brokerstream"}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Modules, the type marker, and data files, whatever their suffix."""
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    files = {file for package in PACKAGES for file in (ROOT / package).rglob("*")}
    wanted = {
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "brokerstream/py.typed" in wanted
    assert {w for w in wanted if w not in there and f"brokerstream/{w}" not in there} == set()


def test_the_core_runs_with_only_msgspec_installed(bare_python: Path) -> None:
    """Every module of state and clients is imported; Spark and pydantic are not there."""
    code = """
import importlib, pkgutil, sys
names = ["brokerstream.state", "brokerstream.clients"]
for name in list(names):
    package = importlib.import_module(name)
    found = pkgutil.walk_packages(package.__path__, name + ".")
    names += [importlib.import_module(module.name).__name__ for module in found]
for absent in ("pyspark", "pydantic", "typer"):
    assert importlib.util.find_spec(absent) is None, absent
print(len(names))
"""
    command = [bare_python, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=bare_python.parent)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(python_files("state", "clients"))


def test_the_wheel_gives_pytest_a_kafka_broker(bare_python: Path, tmp_path: Path) -> None:
    """A test of somebody else gets the fixture, without Spark.

    The wheel's dependencies are those that are installed here; brokerstream itself is the wheel's.
    """
    (tmp_path / "test_it.py").write_text(
        """
import sys
import brokerstream

def test_it(kafka_broker):
    assert brokerstream.__file__.startswith(sys.prefix)
    kafka_broker.produce("orders", "one")
    assert [record.value for record in kafka_broker.records("orders")] == [b"one"]
    assert not {"pyspark", "pandas", "py4j"} & set(sys.modules)
"""
    )
    installed = [entry for entry in sys.path if entry.endswith("site-packages")]
    code = f"import sys; sys.path += {installed}; import pytest;"
    code += "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"
    command = [bare_python, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
