"""`brokerstream --help` and that of every command: understandable, and at once."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from brokerstream.cli.main import COMMANDS, app, load

HEAVY = ("pyspark", "kafka", "confluent_kafka", "pandas", "pyarrow", "great_expectations")

PROBE = f"""
import sys
sys.argv = ["brokerstream", *sys.argv[1:], "--help"]
from brokerstream.cli.main import main
try:
    main()
finally:
    heavy = [name for name in {HEAVY} if name in sys.modules]
    assert not heavy, heavy
"""


def commands_and_subcommands() -> list[list[str]]:
    """Each command of the registry, and below it each subcommand."""
    found = [[name] for name in COMMANDS]
    for name in COMMANDS:
        found += [[name, sub] for sub in getattr(load(name), "commands", {})]
    return found


@pytest.mark.parametrize("words", [[], *commands_and_subcommands()], ids=" ".join)
def test_help_explains_and_loads_nothing_heavy(words: list[str]) -> None:
    command = [sys.executable, "-c", PROBE, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"Usage: {' '.join(['brokerstream', *words])}" in done.stdout
    help_text = done.stdout.split("╭")[0].split("\n", 2)[2]
    assert len(help_text.split()) >= 5, "a command's help is a sentence at least"


def test_the_list_of_commands_has_a_line_for_each() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    for name, line in COMMANDS.items():
        assert name in result.output
        assert line in result.output


def test_a_mistyped_command_gets_the_nearest_one() -> None:
    result = CliRunner().invoke(app, ["kafak"])
    assert result.exit_code == 2
    assert "Did you mean 'kafka'?" in result.output


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.output.startswith("brokerstream 0.")
