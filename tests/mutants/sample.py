"""A sample of small changes to the code of a room: how many of them do the room's own tests notice?

python -m tests.mutants.sample ROOM… [--count N] [--seed S]      a room: state/logs, or clients

Nobody chose these: one comparison, `and`, `or`, `not`, plus,
minus, number or truth value is another. Each is tried in a copy, with the tests of the room; what
they do not notice, in `state`, with those of the APIs, and with the recordings of real brokers,
which the machine has to agree with. Those not found are printed to be read: some change nothing
that anyone could see.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from tests.support.sources import PACKAGES, ROOT, folder_of

PATIENCE_S, SLOWER = 60.0, 10
"""A run of tests is endless above this duration, and this multiple of the unchanged one."""
AGREEMENT = "tests/recordings/replay/test_agreement.py"
OF_APIS, OF_CELLS = "tests/state/apis", "tests/state/cell"
OF_JOURNALS = "tests/gateway/engine/test_journal.py"
OTHER_ROOMS = ("core", "configs", "access", "cluster", "logs", "fetch", "share", "replication")
OTHER_ROOMS += ("groups", "transactions")
"""Packages with the tests of APIs and of a cell's use of each subsystem."""

OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


CACHES = shutil.ignore_patterns("__pycache__")


class Change(NamedTuple):
    """A file of the project, the line, its statement before and after, and the file's new text."""

    file: str
    line: int
    before: str
    after: str
    text: str


def changed(node: ast.AST) -> ast.AST | None:
    """A node that is another, or none where this kind of node stays."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in OTHERS:
        other = deepcopy(node)
        other.op = OTHERS[type(node.op)]()  # type: ignore[assignment]
        return other
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHERS:
        other = deepcopy(node)
        other.ops[0] = OTHERS[type(node.ops[0])]()  # type: ignore[call-overload]
        return other
    return None


class _Replacing(ast.NodeTransformer):
    """Puts another node in the place of the n-th that `changed` knows, in the order of a walk."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.line = 0
        self.before = self.after = ""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.ClassDef):
            node.body = [self.visit(each) for each in node.body]  # type: ignore[misc]
            return node
        other = changed(node)
        if other is None:
            return self.generic_visit(node)
        self.left -= 1
        if self.left != -1:
            return self.generic_visit(node)
        self.line = node.lineno  # type: ignore[attr-defined]
        self.before, self.after = ast.unparse(node), ast.unparse(other)
        return other


def count_in(file: Path) -> int:
    """How many changes a file has; how a class is stored, and what decorates it, is none."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.keywords, node.decorator_list = [], []
    return sum(changed(node) is not None for node in ast.walk(tree))


def change_of(file: Path, number: int, root: Path = ROOT) -> Change:
    """The n-th change of a file, counted from 0."""
    replacing = _Replacing(number)
    tree = replacing.visit(ast.parse(file.read_text(encoding="utf-8")))
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    name = file.relative_to(root).as_posix()
    return Change(name, replacing.line, replacing.before, replacing.after, text)


def copy_to(directory: Path, broken: str) -> Path:
    """Copy the files for the tests of one package; return the copy of the package.

    The package to be broken and the tests are copies, everything else is a link.
    """
    package = directory / "brokertwin"
    package.mkdir()
    for file in (ROOT / "brokertwin").glob("*.py"):
        (package / file.name).symlink_to(file)
    for name in set(PACKAGES) - {"brokertwin"}:
        if folder_of(name).parent == ROOT:
            (directory / name).symlink_to(package / name)
        if name != broken:
            (package / name).symlink_to(folder_of(name))
    for name in ("pyproject.toml", "docs", "examples"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", directory / "tests")
    for folder in (each for each in (ROOT / "tests").iterdir() if each.is_dir()):
        if folder.name in (broken, "support"):
            shutil.copytree(folder, directory / "tests" / folder.name, ignore=CACHES)
        elif folder.name != "__pycache__":
            (directory / "tests" / folder.name).symlink_to(folder)
    return Path(shutil.copytree(folder_of(broken), package / broken, ignore=CACHES))


def tests_of(room: str) -> list[str]:
    """Return the tests that should notice a change in a room, the nearest ones first."""
    own = f"tests/{room}"
    if own in (OF_APIS, OF_CELLS):
        others = [f"tests/state/{each}" for each in OTHER_ROOMS]
        return [*dict.fromkeys([own, OF_APIS, *others, OF_JOURNALS]), AGREEMENT]
    if room.startswith("recordings/"):
        return [own, "tests/recordings/audit", "tests/score"]
    return [own, OF_APIS, AGREEMENT] if room.startswith("state/") else [own]


def who_notices(room: str, change: Change | None, patience_s: float | None = None) -> str:
    """The tests that turn red, or never end; empty where none does. None changes nothing."""
    with tempfile.TemporaryDirectory() as directory:
        package = room.partition("/")[0]
        copy_to(Path(directory), package)
        if change is not None:
            (Path(directory) / "brokertwin" / change.file.removeprefix("brokertwin/")).write_text(
                change.text, "utf-8"
            )
        return next((each for each in tests_of(room) if _turn_red(each, directory, patience_s)), "")


def _turn_red(tests: str, directory: str, patience_s: float | None) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
    command += ["-m", "not spark and not kafka and not processes and not clients", tests]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, check=False, timeout=patience_s
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def sample(room: str, count: int, seed: int) -> list[Change]:
    """As many changes of a room as are wanted, the same for the same seed."""
    files = sorted(folder_of(room).rglob("*.py"))
    every = [(file, number) for file in files for number in range(count_in(file))]
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    return [change_of(*each) for each in drawn]


def main() -> int:
    """Print unnoticed changes and the score of each room; return 1 if tests fail unchanged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.sample", description=__doc__)
    parser.add_argument("rooms", nargs="+", metavar="ROOM")
    parser.add_argument("--count", type=int, default=20, help="changes tried in each room")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other changes")
    wanted = parser.parse_args()
    for room in wanted.rooms:
        began = time.monotonic()
        if who_notices(room, None):
            sys.stderr.write(f"{room}: its tests fail in a copy where nothing is changed\n")
            return 1
        patience_s = PATIENCE_S + SLOWER * (time.monotonic() - began)
        tried = sample(room, wanted.count, wanted.seed)
        found = Counter[bool]()
        for change in tried:
            by = who_notices(room, change, patience_s)
            found[by == AGREEMENT] += bool(by)
            if not by:
                where = f"{change.file}:{change.line}"
                sys.stdout.write(f"NOT FOUND  {where}  {change.before}  ->  {change.after}\n")
                sys.stdout.flush()
        sys.stdout.write(
            f"{room}: {found.total()} of {len(tried)} found, {found[True]} of them by recordings\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
