"""Archives of Java classes: selection, creation and use by a JVM."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from brokertwin.kafka_io import class_archives, jars
from brokertwin.kafka_io.class_archives import BROKER, DRIVER, archive, made, taking
from brokertwin.kafka_io.java import java_executable
from brokertwin.settings import default_home


@pytest.fixture
def java(tmp_path: Path) -> Path:
    file = tmp_path / "java"
    file.touch()
    return file


def test_another_java_or_other_jars_have_another_archive(tmp_path: Path, java: Path) -> None:
    newer = tmp_path / "newer"
    newer.write_text("another")
    found = {
        archive(tmp_path, name, str(executable), tmp_path / jars)
        for name in (BROKER, DRIVER)
        for executable in (java, newer)
        for jars in ("4.3.1", "4.4.0")
    }
    (tmp_path / "4.3.1").mkdir()
    (tmp_path / "4.3.1" / "kafka.jar").write_text("another")
    found.add(archive(tmp_path, BROKER, str(java), tmp_path / "4.3.1"))
    assert len(found) == 9
    assert {file.parent for file in found} == {tmp_path / "jars"}


def test_an_existing_archive_is_used(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.jsa"
    assert taking(file) == []
    file.touch()
    assert taking(file)[0] == f"-XX:SharedArchiveFile={file}"


def test_a_new_archive_replaces_older_ones_of_its_kind(tmp_path: Path) -> None:
    former, other = tmp_path / "broker-1.jsa", tmp_path / "driver-1.jsa"
    former.touch()
    other.touch()
    with made(tmp_path / "broker-2.jsa") as (option, *_):
        Path(option.partition("=")[2]).write_text("classes")
    assert {file.name for file in tmp_path.iterdir()} == {"broker-2.jsa", "driver-1.jsa"}


def test_a_failed_jvm_creates_no_archive(tmp_path: Path) -> None:
    former = tmp_path / "broker-1.jsa"
    former.touch()
    with suppress(OSError), made(tmp_path / "broker-2.jsa") as (option, *_):
        Path(option.partition("=")[2]).write_text("half of it")
        raise OSError("no room on the disk")
    assert list(tmp_path.iterdir()) == [former]


@pytest.mark.kafka
def test_a_jvm_uses_the_classes_loaded_by_another(tmp_path: Path) -> None:
    directory = jars.fetch(jars.kafka_jars(), default_home())[0].parent
    tool = ["-cp", f"{directory}/*", "kafka.tools.StorageTool", "random-uuid"]

    def runs(options: list[str]) -> str:
        command = [java_executable(), *options, *tool]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    file = tmp_path / "broker-1.jsa"
    with made(file) as options:
        assert len(runs(options).split()) == 1, "an id, and nothing of what is left out"
    loaded = runs([*taking(file), "-Xlog:class+load"])
    of_kafka = [line for line in loaded.splitlines() if "kafka.tools.StorageTool " in line]
    assert ["shared objects file" in line for line in of_kafka] == [True]
    file.write_bytes(b"torn")
    assert len(runs(taking(file)).split()) == 1, "it starts without it, and without a word"
    assert class_archives.taking(tmp_path / "none") == []
