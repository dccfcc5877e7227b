"""`brokertwin config show`: every setting, its value, its source and its meaning."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.settings import Settings


def shown(*words: str) -> dict[str, dict[str, object]]:
    result = CliRunner().invoke(app, ["config", "show", "--json", *words])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_it_shows_every_setting_its_source_and_its_meaning(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = empty_directory / "other.toml"
    file.write_text('prefix = "from-file"\ncells = 2\n')
    monkeypatch.setenv("BROKERTWIN_CELLS", "3")
    values = shown("--config", str(file))
    assert values.keys() == Settings.model_fields.keys()
    found = {name: (each["value"], each["source"]) for name, each in values.items()}
    assert found["prefix"] == ("from-file", f"file {file}")
    assert found["cells"] == (3, "environment BROKERTWIN_CELLS")
    assert found["trigger"] == ("0 seconds", "default")
    assert values["master"]["meaning"] == "Spark master URL"
    assert all(each["meaning"] for each in values.values())


def test_a_misspelt_variable_is_refused_with_the_nearest(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERTWIN_CELS", "3")
    result = CliRunner().invoke(app, ["config", "show"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == (
        "Unknown setting BROKERTWIN_CELS in the environment. Did you mean BROKERTWIN_CELLS?"
    )
