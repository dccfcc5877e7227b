"""What docker makes of a Dockerfile and a .dockerignore, as far as ours go.

Source: the Dockerfile reference; moby's `patternmatcher` for .dockerignore: the last pattern that
fits a path or a directory above it counts, `!` takes it back, `*` stays within a name.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class Step(NamedTuple):
    """One instruction of a Dockerfile, continued lines joined."""

    instruction: str
    argument: str

    def commands(self) -> list[list[str]]:
        return [shlex.split(command) for command in self.argument.split(" && ")]


def steps(dockerfile: Path) -> list[Step]:
    lines = dockerfile.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    pairs = (line.split(maxsplit=1) for line in joined.splitlines() if line)
    return [Step(instruction, argument) for instruction, argument in pairs]


class Ignored:
    def __init__(self, file: Path) -> None:
        lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
        self._rules = [
            (_regex(line.removeprefix("!")), not line.startswith("!"))
            for line in lines
            if line and not line.startswith("#")
        ]

    def has(self, path: PurePosixPath) -> bool:
        """Whether docker leaves a file out."""
        names = [str(one) for one in (path, *path.parents) if one.name]
        ignored = False
        for rule, is_left_out in self._rules:
            if any(rule.fullmatch(name) for name in names):
                ignored = is_left_out
        return ignored


def _regex(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts))


def context_files(root: Path, ignored: Ignored) -> Iterator[PurePosixPath]:
    """Return the files below `root` that docker sees; no directory holds only an exception."""
    for top in sorted(root.iterdir()):
        if ignored.has(PurePosixPath(top.name)):
            continue
        for file in [top] if top.is_file() else sorted(top.rglob("*")):
            path = PurePosixPath(file.relative_to(root).as_posix())
            if (file.is_file() or file.is_symlink()) and not ignored.has(path):
                yield path


def copy_context(root: Path, ignored: Ignored, target: Path) -> None:
    """`COPY . .` into a directory."""
    for path in context_files(root, ignored):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, target / path, follow_symlinks=False)
