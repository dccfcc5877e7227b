"""Options that several commands share: where the Spark master comes from."""

from pathlib import Path

import pytest

from brokertwin.cli.options import settings_of
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
