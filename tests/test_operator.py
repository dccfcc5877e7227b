"""The README alone lets an operator with a request log find the fenced producer and the reason."""

import re
import shlex
from pathlib import Path

from tests.support.console import brokertwin
from tests.support.documents import Command, commands
from tests.support.sources import ROOT

README = ROOT / "README.md"
SECTION = "Operator: why was this producer fenced?"


def typed_in_the_section() -> list[Command]:
    lines = README.read_text(encoding="utf-8").splitlines()
    first = lines.index(f"## {SECTION}") + 1
    last = next(n for n, line in enumerate(lines, 1) if n > first and line.startswith("## "))
    return [each for each in commands(README) if first < each.line < last]


def test_commands_find_the_fenced_producer(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    messages: list[str] = []
    for command in typed_in_the_section():
        program, *words = shlex.split(command.text)
        assert program == "brokertwin"
        done = brokertwin(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        messages.append(re.sub(r"\s+", " ", done.stdout))
    audited, explained, meant = messages
    assert "producer-fenced producer billing Client billing-pod-1 was fenced once" in audited
    assert "newer epochs went to client billing-pod-2" in audited
    refused = "END_TXN v1 billing.kafka-request.log:57 billing, producer 0 epoch 0, commit refused:"
    assert f"{refused} 47 INVALID_PRODUCER_EPOCH because client billing-pod-2's" in explained
    assert "bumped the epoch to 2; client billing-pod-1 has 0." in explained
    assert "use each id in one instance only" in explained
    assert meant.startswith("47 INVALID_PRODUCER_EPOCH")


def test_readme_shows_real_output(tmp_path: Path) -> None:
    """Its lines are shortened; each occurs in the output except for the omitted parts."""
    lines = README.read_text(encoding="utf-8").split(f"## {SECTION}")[1].split("```")[1]
    shown = [line.strip() for line in lines.splitlines()[1:] if line[:1] not in "$"]
    output = ""
    for command in typed_in_the_section():
        done = brokertwin(*shlex.split(command.text)[1:], cwd=ROOT)
        output += re.sub(r"\s+", " ", done.stdout)
    heads = [re.sub(r"\s+", " ", line)[:48] for line in shown]
    assert [head for head in heads if head not in output] == []
    assert len(heads) > 8
