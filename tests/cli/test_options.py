"""Options that several commands share."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from brokertwin.cli.options import settings_of, with_settings
from brokertwin.errors import UserError
from brokertwin.settings import Settings
from brokertwin.streaming.job import spark_submit


def test_spark_submits_master_goes_before_all_but_the_flag(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERTWIN_MASTER", "local[7]")
    assert settings_of(None).master == "local[7]"
    monkeypatch.setenv(spark_submit.GATEWAY, "25333")
    monkeypatch.setattr(spark_submit, "master", lambda: "spark://given:7077")
    assert settings_of(None).master == "spark://given:7077"
    assert settings_of(None, master="local[3]").master == "local[3]"


def settings_from(*words: str) -> Settings:
    taken: list[Settings] = []

    @with_settings("brokers", "cells", "clusters", "records", "spark_ui")
    def command(settings: Settings) -> None:
        taken.append(settings)

    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, [*words])
    if done.exception is not None:
        raise done.exception
    return taken[0]


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ([], "records", None),
        (["--records"], "records", True),
        (["--no-records"], "records", False),
        ([], "spark_ui", False),
        (["--spark-ui"], "spark_ui", True),
        (["--cells", "2"], "cells", 2),
        (["--cluster", "a", "--cluster", "b"], "clusters", ("a", "b")),
        (["--brokers", "a=2", "--brokers", "b=1,4"], "brokers", "a=2 b=1,4"),
    ],
)
def test_an_option_sets_its_setting(
    empty_directory: Path, words: list[str], name: str, value: object
) -> None:
    assert getattr(settings_from(*words), name) == value


def test_a_value_that_a_setting_cannot_have_is_refused(empty_directory: Path) -> None:
    with pytest.raises(UserError, match="cells"):
        settings_from("--cells", "0")
