"""The table of exit codes in docs/reads_and_writes.md agrees with the commands."""

import re

from brokertwin.cli.broker import kafka
from brokertwin.cli.job import check
from brokertwin.cli.main import COMMANDS
from brokertwin.cli.recordings import audit
from brokertwin.testing.exam import verdicts
from tests.support.sources import ROOT

PAGE = (ROOT / "docs" / "reads_and_writes.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Exit codes\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"(?m)^\| (`.*?) \|(.*?)\|(.*?)\|$", SECTION)
OF_SEVERITIES = {
    "audit": set(audit.EXIT_CODES.values()),
    "check": set(check.EXIT_CODES.values()),
    "exam": set(verdicts.EXIT_CODES.values()),
    "kafka status": {kafka.NOT_RUNNING},
}


def codes(row: tuple[str, str, str]) -> set[int]:
    return {1 for _ in row[1].strip()[:1]} | {
        int(code) for code in re.findall(r"\b[3-9]\b", row[2])
    }


def commands(row: tuple[str, str, str]) -> list[str]:
    return re.findall(r"`([a-z -]+?)(?: --[a-z -]+)?`", row[0])


def test_each_command_with_an_exit_code_of_its_own_has_a_row() -> None:
    files = (ROOT / "brokertwin" / "cli").rglob("*.py")
    ends = {each.stem for each in files if "typer.Exit(" in each.read_text(encoding="utf-8")}
    named = {command.split()[0] for row in ROWS for command in commands(row)}
    assert named <= {command.split()[0] for command in COMMANDS}
    assert {each.replace("_", "-") for each in ends - {"run_checks", "main"}} <= named


def test_codes_of_severities_are_those_of_the_page() -> None:
    found = {command: codes(row) for row in ROWS for command in commands(row)}
    assert {command: found[command] for command in OF_SEVERITIES} == OF_SEVERITIES
