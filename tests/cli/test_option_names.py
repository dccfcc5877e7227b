"""Names of options: one meaning over all commands, and former names with a notice."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokertwin.cli.former_names import COMMANDS as FORMER_COMMANDS
from brokertwin.cli.former_names import OPTIONS as FORMER_OPTIONS
from brokertwin.cli.former_names import SUBCOMMANDS, renamed
from brokertwin.cli.main import COMMANDS, load
from tests.support.console import brokertwin
from tests.support.sources import ROOT

LOG = ROOT / "examples" / "billing.kafka-request.log.gz"


def options(name: str, command: Any) -> Iterator[tuple[str, str, str]]:
    """Yield command, name of an option and the kind of its value."""
    for below, found in getattr(command, "commands", {}).items():
        yield from options(f"{name} {below}", found)
    for each in command.params:
        for option in (*each.opts, *each.secondary_opts):
            if option.startswith("-"):
                yield name, option, "flag" if each.is_flag else kind_of(each.metavar or "")


def kind_of(metavar: str) -> str:
    """Return the first form of a value, without optional parts and more elements."""
    return re.sub(r"\[[^]]*\]|,…|\|.*", "", metavar)


TREE = [found for name in COMMANDS for found in options(name, load(name))]


def test_an_option_has_one_meaning_over_all_commands() -> None:
    kinds = defaultdict(lambda: defaultdict(set))  # type: ignore[var-annotated]
    for command, option, kind in TREE:
        kinds[option][kind].add(command)
    assert {option: dict(found) for option, found in kinds.items() if len(found) > 1} == {}


def test_short_forms_are_those_of_kcat() -> None:
    short = {"-b": "--bootstrap", "-t": "--topic", "-g": "--group", "-J": "--json"}
    with_short = {(command, option) for command, option, _ in TREE if option in short}
    assert with_short == {(c, s) for c, o, _ in TREE for s, long in short.items() if o == long}


def test_former_names_lead_to_names_of_today() -> None:
    names = defaultdict(set)
    for command, option, _ in TREE:
        names[command.split()[0]].add(option)
        names[command].add(option)
    for command, pairs in FORMER_OPTIONS.items():
        assert set(pairs.values()) - {""} <= names[command], command
    assert set(FORMER_COMMANDS.values()) <= COMMANDS.keys()
    assert {f"replay {below}" for below, _ in SUBCOMMANDS.values()} <= COMMANDS.keys()


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("report a.log --partition a-0", "replication a.log --topic-partition a-0"),
        ("offsets import k:1 DIR --every=9", "offsets import k:1 DIR --interval=9"),
        ("capture --out x --broker kafka:1", "capture kafka:1 --out x"),
        ("exam k:1 --json x", "exam k:1 --out x"),
        (
            "exam-client --broker k:1 -- run --broker x",
            "exam-client --bootstrap k:1 -- run --broker x",
        ),
        ("replay a.jsonl --state groups --until 12", "replay state groups a.jsonl --at 12"),
        ("replay --diff a b --state groups", "replay diff a b --kind groups"),
        ("replay --job --records x --prefix p", "replay records x --prefix p"),
    ],
)
def test_a_former_command_line_is_understood(former: str, today: str) -> None:
    assert renamed(former.split())[0] == today.split()
    assert renamed(former.split())[1]
    assert renamed(today.split()) == (today.split(), [])


def test_a_former_name_prints_a_notice(empty_directory: Path) -> None:
    former = brokertwin("replay", LOG, "--state", "groups", "--json", cwd=empty_directory)
    today = brokertwin("replay", "state", "groups", LOG, "--json", cwd=empty_directory)
    assert former.stdout == today.stdout
    notice = "warning: `replay --state` is now `replay state`\n"
    assert former.stderr == notice + today.stderr
