"""`brokertwin --help` and that of every command: understandable, and at once."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from brokertwin.cli.examples import EXAMPLES
from brokertwin.cli.main import COMMANDS, PANELS, app, load
from tests.support.console import brokertwin

HEAVY = ("pyspark", "kafka", "confluent_kafka", "pandas", "pyarrow", "great_expectations")

PROBE = f"""
import itertools, json, os, sys, typer.rich_utils
from pathlib import Path
from brokertwin.cli.main import main

def called(number, words):
    os.dup2(os.open(f"{{number}}.out", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(os.open(f"{{number}}.err", os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["brokertwin", *words, "--help"]
    try:
        main()
    except SystemExit as end:
        heavy = [name for name in {HEAVY} if name in sys.modules]
        print(*heavy, sep="\\n", end="", file=sys.stderr)
        sys.stdout.flush(), sys.stderr.flush()
        Path(f"{{number}}.code").write_text(str(end.code or len(heavy)))

every = enumerate(json.loads(sys.argv[1]))
for _, calls in itertools.groupby(every, lambda call: call[1][:1]):
    if os.fork() == 0:
        for number, words in calls:
            called(number, words)
        os._exit(0)  # to end in order takes longer than the help
    os.wait()
"""
"""Calls each command in a fork of a process that has imported all common modules."""


def commands_and_subcommands() -> list[list[str]]:
    found = [[name] for name in COMMANDS]
    for name in COMMANDS:
        found += [[name, sub] for sub in getattr(load(name), "commands", {})]
    return sorted(found)


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Help text of each command, by its words."""
    directory = tmp_path_factory.mktemp("helps")
    commands = [[], *commands_and_subcommands()]
    probe = [sys.executable, "-c", PROBE, json.dumps(commands)]
    subprocess.run(probe, cwd=directory, check=True)

    def given(number: int, what: str) -> str:
        return (directory / f"{number}.{what}").read_text(encoding="utf-8")

    return {
        " ".join(words): subprocess.CompletedProcess(
            words, int(given(number, "code")), given(number, "out"), given(number, "err")
        )
        for number, words in enumerate(commands)
    }


@pytest.mark.processes
@pytest.mark.parametrize("words", [[], *commands_and_subcommands()], ids=" ".join)
def test_help_explains_and_loads_nothing_heavy(
    helps: dict[str, subprocess.CompletedProcess[str]], words: list[str]
) -> None:
    done = helps[" ".join(words)]
    assert done.returncode == 0, done.stderr
    assert f"Usage: {' '.join(['brokertwin', *words])}" in done.stdout
    help_text = done.stdout.split("╭")[0].split("\n", 2)[2]
    given, _, _ = help_text.partition("Examples:")
    assert len(given.split()) >= 5, "a command's help is a sentence at least"
    assert ("--install-completion" in done.stdout) == (not words), "the shell's concern"
    example = EXAMPLES[" ".join(words)][0]
    assert example in re.sub(r"\s+", " ", help_text)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    command, rest = load(name), words[len(name.split()) :]
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("example", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_an_example_has_the_commands_words_and_options(example: str) -> None:
    call = example.rpartition("| ")[2].partition("brokertwin ")[2]
    command, arguments = command_of(shlex.split(call))
    given = command.make_context(command.name, arguments)  # parsed, not run
    assert given.args == []


def test_each_command_has_a_heading_in_the_help() -> None:
    listed = [name for names in PANELS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert COMMANDS.keys() == set(listed)


def test_examples_use_existing_commands() -> None:
    assert EXAMPLES.keys() == {" ".join(words) for words in [[], *commands_and_subcommands()]}
    for words, lines in EXAMPLES.items():
        if words and " " in words:
            assert all(f"brokertwin {words}" in line for line in lines)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("brokertwin kaf", ["kafka"]),
        ("brokertwin kafka st", ["start", "status", "stop"]),
        ("brokertwin run --http-l", ["--http-listen"]),
        ("brokertwin replay --engine s", ["spark"]),
    ],
)
def test_shell_completion_offers_matching_words(typed: str, offered: list[str]) -> None:
    done = brokertwin(
        _BROKERTWIN_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split()) - 1),
    )
    assert (done.returncode, sorted(done.stdout.split())) == (0, offered)


@pytest.mark.processes
def test_a_shell_takes_the_completion_that_is_installed(tmp_path: Path) -> None:
    """Bash reads the file that `--install-completion` wrote and completes with it."""
    script = Path(sys.executable).with_name("brokertwin")
    text = f"""
        {script} --install-completion && . {tmp_path}/.bashrc || exit 1
        COMP_WORDS=(brokertwin kaf) COMP_CWORD=1
        $(complete -p brokertwin | sed 's/.*-F \\([^ ]*\\).*/\\1/') {script}
        echo "offered: ${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc"],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert "offered: kafka\n" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("words", [[], ["kafka"], ["dead-letters"]], ids=" ".join)
def test_without_arguments_there_is_the_help(words: list[str]) -> None:
    done = brokertwin(*words)
    assert f"Usage: {' '.join(['brokertwin', *words])}" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.processes
@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_module_runs_as_the_script_does(option: str) -> None:
    command = [sys.executable, "-m", "brokertwin", option]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("brokertwin 0.")


def test_the_list_of_commands_has_a_line_for_each() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    for name, line in COMMANDS.items():
        assert name in result.output
        assert line in result.output


def test_a_mistyped_command_gets_the_nearest_one() -> None:
    result = CliRunner().invoke(app, ["kafak"])
    assert result.exit_code == 2
    assert "Did you mean 'kafka'?" in result.output
