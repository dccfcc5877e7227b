"""The jars: downloaded once, only missing ones, with a clear error message."""

from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io import jars
from brokertwin.settings import default_home
from tests.support.ivy_mirrors import mirror, modules_of


@pytest.mark.parametrize(
    ("name", "artifact"),
    [
        ("slf4j-api-2.0.16.jar", "slf4j-api"),
        ("kafka_2.13-4.3.1.jar", "kafka_2.13"),
        ("spark-sql-kafka-0-10_2.13-4.2.0.jar", "spark-sql-kafka"),
        ("zstd-jni-1.5.6-9.jar", "zstd-jni"),
        ("jersey-2.jar", "jersey"),
        ("plain.jar", "plain"),
    ],
)
def test_an_artifact_name_has_no_version(name: str, artifact: str) -> None:
    assert jars.artifact(Path(name)) == artifact


@pytest.mark.kafka
def test_downloaded_jars_are_not_downloaded_again() -> None:
    first = jars.fetch(jars.kafka_jars(), default_home())
    lines: list[str] = []
    again = jars.fetch(jars.kafka_jars(), default_home(), Path("/no/such/settings"), lines.append)
    assert again == first
    assert lines == []


@pytest.mark.spark
def test_the_connector_has_no_jar_of_pyspark() -> None:
    files = jars.fetch(jars.connector_jars(), default_home())
    assert {jars.artifact(file) for file in files} == {
        "commons-pool2",
        "kafka-clients",
        "spark-sql-kafka",
        "spark-token-provider-kafka",
    }


@pytest.mark.kafka
def test_each_downloaded_jar_is_reported(tmp_path: Path) -> None:
    jar_set = jars.JarSet("org", "one", "1.0", also=(("org", "two", "2.0"),))
    settings = mirror(tmp_path / "mirror", modules_of(jar_set))
    lines: list[str] = []
    seen: list[tuple[int, int]] = []

    fetched = jars.fetch(
        jar_set, tmp_path / "home", settings, lines.append, lambda *progress: seen.append(progress)
    )

    assert [jar.name for jar in fetched] == ["one-1.0.jar", "two-2.0.jar"]
    assert lines[0] == "downloading one 1.0"
    assert lines[1].startswith("  one-1.0.jar in ")
    assert lines[2].startswith("  two-2.0.jar in ")
    assert seen == [(0, 1), (0, 2), (1, 2), (2, 2)], "all modules are known before a jar comes"


@pytest.mark.kafka
def test_a_failed_download_leaves_nothing_and_shows_the_output_of_ivy(tmp_path: Path) -> None:
    """The mirror is an empty directory, so no network is used."""
    settings = mirror(tmp_path / "mirror")
    with pytest.raises(UserError) as failed:
        jars.fetch(jars.kafka_jars(), tmp_path / "home", settings)
    assert failed.value.message == "Could not download the jars of kafka_2.13 4.3.1."
    assert "org.apache.kafka#kafka_2.13;4.3.1: not found" in failed.value.hint
    assert list((tmp_path / "home" / "jars").iterdir()) == []


def test_nothing_begins_without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    lines: list[str] = []
    with pytest.raises(ModuleNotFoundError, match="pyspark"):
        jars.fetch(jars.kafka_jars(), tmp_path / "home", say=lines.append)
    assert (lines, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.kafka
def test_jars_of_another_set_are_replaced(tmp_path: Path) -> None:
    """A directory downloaded for other modules is not considered complete."""
    target = tmp_path / "jars" / jars.kafka_jars().directory
    target.mkdir(parents=True)
    (target / jars.DESCRIPTOR).write_text("<ivy-module/>")
    settings = tmp_path / "broken.xml"
    settings.write_text("no xml")
    with pytest.raises(UserError, match="Could not download"):
        jars.fetch(jars.kafka_jars(), tmp_path, settings)
    assert target.is_dir()
