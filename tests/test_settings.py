"""Settings: flags go before the environment, that before the file, that before the defaults."""

import itertools
from pathlib import Path

import pytest

import brokertwin
from brokertwin.errors import UserError
from brokertwin.settings import Settings, default_home, load
from tests.support.sources import ROOT

LAYERS = ("flag", "environment", "file")


@pytest.mark.parametrize(
    "present", [c for n in range(4) for c in itertools.combinations(LAYERS, n)], ids="+".join
)
def test_the_first_source_that_has_a_value_wins(
    present: tuple[str, ...], empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "file" in present:
        (empty_directory / "brokertwin.toml").write_text('prefix = "by-file"\n')
    if "environment" in present:
        monkeypatch.setenv("BROKERTWIN_PREFIX", "by-environment")
    loaded = load({"prefix": "by-flag" if "flag" in present else None})
    winner = present[0] if present else "default"
    expected = "brokertwin" if winner == "default" else f"by-{winner}"
    assert loaded.settings.prefix == expected
    assert loaded.sources["prefix"].split()[0] == winner


def test_every_setting_can_come_from_the_environment(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "snapshot_every": "5 minutes",
        "check_every": "9 batches",
        "snapshots_keep_hours": 48,
        "spark_conf": "spark.a=1",
        "records": True,
    }  # None and an empty pair are not values
    for name, value in (Settings().model_dump(mode="json") | given).items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        monkeypatch.setenv(f"BROKERTWIN_{name.upper()}", text)
    loaded = load()
    assert {source.split()[0] for source in loaded.sources.values()} == {"environment"}


def test_every_setting_has_a_description() -> None:
    assert [n for n, field in Settings.model_fields.items() if not field.description] == []


def test_clusters_are_a_list_in_the_file_and_comma_separated_in_the_environment(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_directory / "brokertwin.toml").write_text('clusters = ["a", "b"]\n')
    assert load().settings.clusters == ("a", "b")
    monkeypatch.setenv("BROKERTWIN_CLUSTERS", "c, d")
    assert load().settings.clusters == ("c", "d")
    assert load({"clusters": ["e"]}).settings.clusters == ("e",)


def test_the_checkpoint_follows_home_and_prefix(empty_directory: Path) -> None:
    assert load({"home": "h", "prefix": "p"}).settings.checkpoint_dir == Path("h/checkpoints/p")
    assert load({"checkpoint": "c"}).settings.checkpoint_dir == Path("c")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"cells": 0},
            "Invalid value of cells: 0 (from flag): Input should be greater than or equal to 1.",
        ),
        ({"clusters": ["a", "a"]}, "Invalid value of clusters: ['a', 'a'] (from flag): a name"),
        ({"clusters": ["a.b"]}, "Invalid value of clusters: ['a.b'] (from flag): 'a.b' is not"),
        ({"trigger": "often"}, "Invalid value of trigger: 'often' (from flag): String should"),
        ({"event_time": "now"}, "Invalid value of event_time: 'now' (from flag): Input should"),
        ({"prefix": "a b"}, "Invalid value of prefix: 'a b' (from flag): String should match"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_its_source(
    flags: dict[str, object], message: str, empty_directory: Path
) -> None:
    with pytest.raises(UserError) as refused:
        load(flags)
    assert refused.value.message.startswith(message)
    assert refused.value.hint.startswith(next(iter(flags)))


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("prefx = 1", "Unknown setting prefx", "Did you mean prefix?"),
        ("qqq = 1", "Unknown setting qqq", "brokertwin config show"),
        ("prefix = ", "is not valid TOML", ""),
        ("cells = 'x'", "cells: 'x' (from file f.toml): Input should be a valid integer", "cells"),
    ],
)
def test_a_bad_file_is_refused(
    content: str, message: str, hint: str, empty_directory: Path
) -> None:
    (empty_directory / "f.toml").write_text(content)
    with pytest.raises(UserError) as refused:
        load(file=Path("f.toml"))
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_named_file_must_be_there(empty_directory: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the settings file no\.toml: No such file"):
        load(file=Path("no.toml"))


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("BROKERTWIN_CELS", "Did you mean BROKERTWIN_CELLS?"),
        ("BROKERTWIN_prefix", "Did you mean BROKERTWIN_PREFIX?"),
        ("BROKERTWIN_COLOUR", "`brokertwin config show` lists all settings"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(
    variable: str, hint: str, empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")
    load()
    monkeypatch.setenv(variable, "4")
    with pytest.raises(
        UserError, match=f"Unknown setting {variable} in the environment"
    ) as refused:
        load()
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4, 2]",
        "local-cluster[2,1,1024]",
        "spark://a:7077,b:7077",
        "spark://[::1]:7077",
        "k8s://https://a:6443",
        "yarn",
    ],
)
def test_a_master_that_spark_knows(master: str, empty_directory: Path) -> None:
    assert load({"master": master}).settings.master == master


@pytest.mark.parametrize(
    "master", ["", "nonsense", "local[]", "local[0]", "spark://a", "mesos://a"]
)
def test_a_master_that_spark_does_not_know(master: str, empty_directory: Path) -> None:
    with pytest.raises(
        UserError, match=r"\(from flag\): expected local\[N\], local\[\*\], spark://"
    ):
        load({"master": master})


def test_a_clone_keeps_everything_beside_its_source() -> None:
    assert default_home() == ROOT / ".brokertwin"


def test_an_installed_wheel_uses_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokertwin, "__file__", str(tmp_path / "brokertwin" / "__init__.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_home() == tmp_path / "cache" / "brokertwin"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_home() == tmp_path / ".cache" / "brokertwin"


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ("spark.executor.memory", "is not spark.NAME=VALUE"),
        ("executor.memory=2g", "is not spark.NAME=VALUE"),
        ("spark.sql.shuffle.partitions=9", "spark.sql.shuffle.partitions cannot be changed"),
        ("spark.speculation=true", "spark.speculation cannot be changed"),
        (
            "spark.driver.memory=4g",
            "spark.driver.memory is not allowed here: use the setting driver_memory",
        ),
    ],
)
def test_spark_configuration_cannot_override_settings_of_the_job(
    pair: str, why: str, empty_directory: Path
) -> None:
    with pytest.raises(UserError, match=why.replace(".", r"\.")):
        load({"spark_conf": (pair,)})


def test_sparks_configuration_has_semicolons_between_in_the_environment(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERTWIN_SPARK_CONF", "spark.a=1,2; spark.b=x=y;\n spark.a=3;")
    assert load().settings.spark_configuration == {"spark.a": "3", "spark.b": "x=y"}


def test_records_are_written_on_request_or_where_requests_do_not_give_them_again(
    empty_directory: Path,
) -> None:
    assert not load({}).settings.writes_records
    assert load({"records": True}).settings.writes_records
    assert load({"cells": 2}).settings.writes_records
    assert not load({"cells": 2, "records": False}).settings.writes_records
