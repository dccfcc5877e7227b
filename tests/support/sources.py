"""The project's own Python files."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "protocol",
    "state",
    "clients",
    "sinks",
    "kafka_io",
    "offsets",
    "recordings",
    "page",
    "streaming",
    "tables",
    "gateway",
    "testing",
    "simulation",
    "cli",
    "brokertwin",
)


AT_THE_TOP = ("state", "streaming", "sinks", "brokertwin")
"""Folders of the repository; those of the other rooms lie in `brokertwin/`."""


def folder_of(name: str) -> Path:
    is_inside = name.partition("/")[0] in set(PACKAGES) - set(AT_THE_TOP)
    return ROOT / "brokertwin" / name if is_inside else ROOT / name


def python_files(*directories: str) -> list[Path]:
    """Every Python file below the directories, sorted; of `brokertwin` itself, not of its rooms."""
    files = (
        file
        for name in directories
        for file in folder_of(name).glob("*.py" if name == "brokertwin" else "**/*.py")
    )
    return sorted(file for file in files if "__pycache__" not in file.parts)


def name_of(file: Path) -> str:
    """The path within the project; for test ids."""
    return file.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """The file's syntax tree, parsed once for all tests of a process."""
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree, gone through once for all who look for some."""
    return tuple(ast.walk(tree))


@functools.cache
def imported_modules(tree: ast.AST) -> tuple[str, ...]:
    """Every module that the code imports, also inside functions; `from x import y` gives x."""
    modules = []
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules.append("." * node.level + (node.module or ""))
            if node.module == "brokertwin":
                modules += [f"brokertwin.{alias.name}" for alias in node.names]
    return tuple(modules)
