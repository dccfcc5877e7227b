"""No Java, or one that is too old: an error message says what to install."""

import subprocess
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.java import NEEDED, java_executable, java_version
from tests.support.sources import ROOT


def fake_java(directory: Path, version: str) -> Path:
    """Create a JAVA_HOME whose `java -version` prints a version like OpenJDK."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("version", "feature"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("11.0.2", 11)]
)
def test_the_feature_version(version: str, feature: int, tmp_path: Path) -> None:
    home = fake_java(tmp_path, version)
    assert java_version(str(home / "bin" / "java")) == feature


def test_another_executable_has_no_java_version(tmp_path: Path) -> None:
    assert java_version("/bin/false") == 0
    assert java_version(str(tmp_path / "absent")) == 0


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_17_and_newer_is_accepted(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    assert java_executable() == str(tmp_path / "bin" / "java")
    assert make_java().returncode == 0


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16"])
def test_an_older_java_is_rejected(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(UserError, match="Java 17 or newer"):
        java_executable()
    assert_make_refuses()


def test_a_missing_java_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="Java 17 or newer"):
        java_executable()
    assert_make_refuses()


def make_java() -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "java"], cwd=ROOT, capture_output=True, text=True)


def assert_make_refuses() -> None:
    done = make_java()
    assert done.returncode != 0
    own = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert own == [NEEDED]
