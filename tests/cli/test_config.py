"""`brokertwin config show`: every setting, its value and its source."""

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


def test_it_shows_every_setting_and_its_source(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = empty_directory / "other.toml"
    file.write_text('prefix = "from-file"\ncells = 2\n')
    monkeypatch.setenv("BROKERTWIN_CELLS", "3")
    values = shown("--config", str(file))
    assert values.keys() == Settings.model_fields.keys()
    assert values["prefix"] == {"value": "from-file", "source": f"file {file}"}
    assert values["cells"] == {"value": 3, "source": "environment BROKERTWIN_CELLS"}
    assert values["trigger"] == {"value": "0 seconds", "source": "default"}


def test_a_misspelt_variable_is_refused_with_the_nearest(
    empty_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERTWIN_CELS", "3")
    result = CliRunner().invoke(app, ["config", "show"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == (
        "Unknown setting BROKERTWIN_CELS in the environment. Did you mean BROKERTWIN_CELLS?"
    )
