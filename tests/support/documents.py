"""The commands that documents tell their readers to type, in order."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.sources import ROOT


def _pages(folder: Path) -> Iterator[Path]:
    """Return every page below a folder, without built, fetched and hidden ones."""
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith(".") and path.name not in NOT_OURS:
            yield from _pages(path)
        elif path.suffix == ".md":
            yield path


NOT_OURS = {"build", "dist", "artifacts", "spark-warehouse"}
DOCUMENTS = sorted(_pages(ROOT))
SHELL = {"console", "sh", "bash"}
PROGRAMS = re.compile(
    r"brokertwin|make|python3?|pip|pytest|pre-commit|docker|git|cd|export|source|\.|spark-submit"
    r"|curl|kafka-[\w-]+\.sh|\S*/bin/\w+|\S+\.sh"
)
"""Possible first words of a command in a block that may contain other text."""


class Command(NamedTuple):
    """A command in a document, without its comment and with its lines joined."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(page: Path) -> list[Command]:
    """The commands of a page's blocks, fenced or indented."""
    result = []
    for number, language, lines in _blocks(page.read_text(encoding="utf-8").splitlines()):
        joined = ""
        for offset, line in enumerate(lines):
            if not joined and not _is_command(line, language):
                continue
            joined += line.removesuffix("\\").strip() + " "
            if not line.endswith("\\"):
                text = re.sub(r"\s+#\s.*$", "", joined).strip().removeprefix("$ ")
                result.append(Command(name_of(page), number + offset, text))
                joined = ""
    return result


def outputs(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The outputs that a page shows: commands, and the lines after them in words.

    They are the rest of a block `console`, or the block after one of commands. What is left out, a
    line or the rest of one, is an ellipsis.
    """
    typed = {each.line: each.text for each in commands(page)}
    before: list[str] = []
    for number, language, lines in _blocks(page.read_text(encoding="utf-8").splitlines(), True):
        within = [typed[at] for at in range(number, number + len(lines)) if at in typed]
        if within and language != "console":
            before = within
            continue
        for offset, line in enumerate(lines):
            if number + offset in typed:
                before = [typed[number + offset]]
            elif before:
                yield before, [words for part in line.split("…") if (words := plain(part))]
        before = []


def plain(text: str) -> str:
    """The words of an output, without the lines of tables."""
    return " ".join(re.sub("[\u2500-\u257f]", " ", text).split())


def the_command(page: str, start: str) -> Command:
    """The only command of a page that begins so."""
    (command,) = (each for each in commands(ROOT / page) if each.text.startswith(start))
    return command


def inline(page: Path) -> list[Command]:
    """The calls of a program within the sentences and tables of a page."""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    return [
        Command(name_of(page), number, span)
        for number, line in lines
        for span in re.findall(r"`([^`]+)`", line)
        if " " in span and PROGRAMS.fullmatch(span.split()[0])
    ]


def _is_command(line: str, language: str) -> bool:
    if language == "console":
        return line.startswith("$ ")
    first = line.strip().partition(" ")[0]
    return bool(first) and (language in SHELL or PROGRAMS.fullmatch(first) is not None)


def _blocks(lines: list[str], is_any: bool = False) -> list[tuple[int, str, list[str]]]:
    """First line number, language and lines of each block, of the shell or any."""
    found: list[tuple[int, str, list[str]]] = []
    fence = ""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            if not fence:
                found.append((number + 1, line.strip().removeprefix("```"), []))
            fence = "" if fence else "```"
        elif fence:
            found[-1][2].append(line)
        elif line.startswith("    ") and not lines[number - 2].strip():
            found.append((number, "", [line]))
        elif line.startswith("    ") and found and number == found[-1][0] + len(found[-1][2]):
            found[-1][2].append(line)
    return [block for block in found if is_any or block[1] in {"", *SHELL}]
