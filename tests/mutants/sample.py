"""A sample of small changes to the code of a room: how many of them do its tests notice?

python -m tests.mutants.sample ROOM… [--count N] [--seed S]      a room: state/logs, or a file

The changes are drawn: another comparison or error code, a condition negated, `and`, `or`, plus,
minus, a number or a truth value replaced, a statement left out. The tests that call the changed
function run in a copy, the fast ones first. Each change is printed with the first failure. Some
changes are without effect.
"""

import argparse
import ast
import random
import resource
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from tests.clauses.check import copied, run_tests, say
from tests.mutants import reach
from tests.support.sources import ROOT, folder_of

BUDGET_S, CPU_S = 30.0, 300
"""CPU time of the unchanged tests that run for a change; a run is endless above the other one."""
SHOWN = 4
"""Number of lines of a failure that are shown."""

LIVE = "not (spark or kafka or browser or site or processes or clients or full)"
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


class Change(NamedTuple):
    """A file of the project, the line, its statement before and after, and the file's new text."""

    file: str
    line: int
    before: str
    after: str
    text: str


PLAIN = (ast.Name, ast.Attribute, ast.Call)
OTHER_CODE = "UNKNOWN_SERVER_ERROR"


def _left_out(node: ast.Expr | ast.Assign | ast.AugAssign) -> ast.Expr:
    """A statement without effect. A function with `yield` remains a generator."""
    value = node.value
    is_yield = isinstance(value, ast.Yield | ast.YieldFrom)
    nothing = ast.YieldFrom(ast.Tuple([], ast.Load())) if is_yield else ast.Constant(...)
    return ast.Expr(nothing)


def changed(node: ast.AST) -> ast.AST | None:
    """A node that is another, or none where this kind of node stays."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, PLAIN):
        other_branch = deepcopy(node)
        other_branch.test = ast.UnaryOp(ast.Not(), node.test)
        return other_branch
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield | ast.YieldFrom):
        return _left_out(node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript):
        return _left_out(node)
    if isinstance(node, ast.AugAssign):
        return _left_out(node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        is_code = node.value.id == "Error" and node.attr.isupper() and node.attr != OTHER_CODE
        return ast.Attribute(node.value, OTHER_CODE, node.ctx) if is_code else None
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


def tests_of(room: str) -> list[str]:
    """Return the tests that should notice a change in a room."""
    own = f"tests/{room.rpartition('/')[0] if room.endswith('.py') else room}"
    if own in (OF_APIS, OF_CELLS):
        others = [f"tests/state/{each}" for each in OTHER_ROOMS]
        return [*dict.fromkeys([own, OF_APIS, *others, OF_JOURNALS]), AGREEMENT]
    if room.startswith("recordings"):
        return ["tests/recordings", "tests/score"]
    return [own, OF_APIS, AGREEMENT] if room.startswith("state/") else [own]


class Limit:
    """A plugin that ends a run that does not end."""

    @staticmethod
    def pytest_configure() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def who_notices(copy: Path, change: Change, tests: list[str]) -> str:
    """The first failure; empty if there is none."""
    path = copy / change.file
    source = path.read_text("utf-8")
    path.write_text(change.text, "utf-8")
    output = copy / "output"
    try:
        code = run_tests(copy, ["--tb=short", "--timeout=600", *tests], str(output), Limit())
    finally:
        path.write_text(source, "utf-8")
    if not code:
        return ""
    lines = output.read_text("utf-8").splitlines()
    said = [each for each in lines if each.startswith("E  ")][:SHOWN]
    test = next((each for each in lines if each.startswith(("FAILED", "ERROR"))), f"exit {code}")
    return " ".join(" ".join([test.partition(" - ")[0], *said]).split())


def sample(room: str, count: int, seed: int) -> list[Change]:
    """As many changes of a room as are wanted, the same for the same seed."""
    folder = folder_of(room)
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    every = [(file, number) for file in files for number in range(count_in(file))]
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    return [change_of(*each) for each in drawn]


def reach_of(tests: list[str], copy: Path, folder: Path) -> reach.Reach | None:
    """Trace the tests; none if one fails unchanged."""
    folder.mkdir()
    options = ["--timeout=600", "-m", LIVE]
    output = folder / "output"
    if run_tests(copy, [*options, *tests], str(output), reach.Tracing(copy, folder)):
        sys.stderr.write(output.read_text("utf-8"))
        return None
    return reach.read(folder)


def main() -> int:
    """Print each change with its failure and the score; return 1 if tests fail unchanged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.sample", description=__doc__)
    parser.add_argument("rooms", nargs="+", metavar="ROOM")
    parser.add_argument("--count", type=int, default=20, help="changes tried in each room")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other changes")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        copy = copied(Path(directory))
        drawn = {room: sample(room, wanted.count, wanted.seed) for room in wanted.rooms}
        for number, (room, changes) in enumerate(drawn.items()):
            reached = reach_of(tests_of(room), copy, copy / f"reach-{number}")
            if reached is None:
                sys.stderr.write(f"{room}: its tests fail in a copy where nothing is changed\n")
                return 1
            found = 0
            for change in changes:
                first = reach.function_at((copy / change.file).read_text("utf-8"), change.line)
                tests = reached.tests_for(change.file, first, BUDGET_S)
                by = who_notices(copy, change, tests) if tests else ""
                found += bool(by)
                said = by or ("NOT FOUND" if tests else "NOT FOUND: no test calls it")
                what = " ".join(f"{change.before}  ->  {change.after}".split())
                say(f"{change.file}:{change.line} | {what} | {said}")
            say(f"{room}: {found} of {len(changes)} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
