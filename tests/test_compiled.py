"""The compiled core: what of a module stays Python, and that it decides as the usual one does."""

import ast
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import compiled
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import Position
from tests.support.histories import Story, seeded
from tests.support.sources import ROOT

CLASS = re.compile(r"^class (\w+)(?:\((?:\w+\.)*(\w+))?", re.MULTILINE)
"""A class, and the first of its bases."""

FEW = ("core/tables", "fetch/fetch_session", "logs/log", "groups/offset_records")
"""Modules with items, with enums, and with neither; few, because gcc is slow."""

SEEDS = (51, 49)

DECIDE = """
import sys, msgspec
from brokertwin.state.core import tables
from brokertwin.state.core.settings import CellSettings
from tests.test_compiled import Story, decided
stories = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[tuple[CellSettings, list]])
print(tables.__file__.rpartition(".")[2], decided(Story(*each) for each in stories))
"""

MODULE = '''"""Words."""

from typing import NamedTuple

import msgspec

LIMIT = 3


class Watch(msgspec.Struct, array_like=True):
    """An item."""

    ids: list[str]


class Machine:
    """Compiled."""

    def at(self) -> int:
        return LIMIT


@decorated
class More(Watch):
    """An item by its base."""


def count(watch: Watch) -> int:
    return len(watch.ids)
'''


def decided(stories: Iterator[Story]) -> str:
    """A hash of all rows of the stories, and of the states in which they end."""
    found = hashlib.sha256()
    for story in stories:
        cell = Cell(story.settings)
        for offset, document in enumerate(story.documents):
            found.update(repr(cell.handle(bytes(document), Position(0, offset))).encode())
        found.update(repr(sorted(cell.columns().items())).encode())
    return found.hexdigest()


def test_what_says_how_a_document_looks_stays_python() -> None:
    rest = compiled.split(MODULE, "there", {"Struct"})
    assert rest is not None
    tree = ast.parse(rest)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    taken = [node for node in tree.body if isinstance(node, ast.ImportFrom)][-1]
    assert classes == ["Machine"]
    assert (taken.module, [alias.name for alias in taken.names]) == ("there", ["Watch", "More"])
    assert "decorated" not in rest
    assert "def count(watch: Watch)" in rest


def test_a_module_without_such_classes_is_compiled_as_it_is() -> None:
    assert compiled.split("class Machine:\n    pass\n", "there", {"Struct"}) is None


def test_no_class_with_words_is_compiled(tmp_path: Path) -> None:
    """Such words are lost without notice: the state would be of another shape."""
    trees = [ast.parse(file.read_text()) for file in compiled.stage(tmp_path, compiled.HOT)]
    classes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    assert [node.name for node in classes if node.keywords] == []
    assert {"Cell", "CellLoop", "Table", "SessionCache"} <= {node.name for node in classes}


def test_only_compiled_classes_derive_from_compiled_ones(tmp_path: Path) -> None:
    """Python refuses others when it meets them: such a gateway, or job, would not begin."""
    hot = compiled.stage(tmp_path, compiled.HOT)
    made = {name for file in hot for name, _ in CLASS.findall(file.read_text())}
    rest = {each for each in tmp_path.rglob("*.py") if not each.stem.endswith("_types")} - {*hot}
    bases = {base for file in rest for _, base in CLASS.findall(file.read_text())}
    assert len(made) > 10 and len(bases) > 30
    assert made & bases == set()


def decided_in(path: str, stories: list[Story]) -> list[str]:
    """Return the modules found in `path`, and the hash of their decisions.

    Hashes of strings are fixed, because an item's sets are stored in their order.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", DECIDE],
        input=msgspec.msgpack.encode(stories),
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


@pytest.mark.processes
def test_compiled_modules_decide_as_the_others_do(tmp_path: Path) -> None:
    words = ["--only", *FEW, "--optimize", "0", "--no-wheel", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "compiled.py", *words], cwd=ROOT, check=True)
    stories = [seeded(seed) for seed in SEEDS]
    kind, usual = decided_in(str(ROOT), stories)
    assert kind == "py"
    assert decided_in(os.pathsep.join([str(tmp_path), str(ROOT)]), stories) == ["so", usual]
