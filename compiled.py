"""The wheel whose core is compiled: `make compiled`, or `python compiled.py [--only MODULE ...]`.

mypyc turns typed modules into C. `HOT` are those of `state/` on the way of each event; everything
else in the wheel is as in the usual one, and so is every answer. What mypyc does not do as Python
does are the classes that say what lies in a document or in the state: it drops the words of
`class Watch(msgspec.Struct, array_like=True)`. So a copy of a hot module, `<module>_types`, stays
Python, and the compiled one takes its classes from there; all else in the copy is called by these
classes alone.

`build/compiled` holds the packages; `PYTHONPATH=build/compiled` puts them before those of the
checkout. The wheel goes to `dist`. It takes a C compiler, and a minute.
"""

import argparse
import ast
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
TARGET = ROOT / "build" / "compiled"
DIST = ROOT / "dist"
GROUP = "brokertwin_core"
"""The name of the library that the compiled modules share."""

HOT = (
    *("core/tables", "core/pending", "core/events", "core/schema"),
    *("cell/cell", "cell/run", "cell/broker_changes", "cell/effects", "cell/apply"),
    *("cell/delivery", "cell/requests", "cell/metadata_reading", "cell/resuming"),
    *("cluster/image", "cluster/machines", "cluster/coordinators", "cluster/quota_rates"),
    "cluster/retention_limits",
    *("logs/log", "logs/log_transactions", "logs/producer", "logs/timestamp_index", "logs/chunked"),
    *("logs/record_validation", "logs/rolling", "logs/log_segments"),
    *("apis/produce", "apis/fetch", "apis/offset_commit", "apis/heartbeat"),
    *("fetch/places", "fetch/fetch_session", "fetch/fetch_session_counts", "fetch/reading"),
    *("groups/groups", "groups/group_rules", "groups/group_coordinator", "groups/classic_group"),
    *("groups/committed_offsets", "groups/group_rows", "groups/offset_records"),
    *("transactions/transactional_offsets", "transactions/transaction_verification"),
)
"""What `python bench/core.py` spends its time in."""

KEPT = {"Struct", "NamedTuple", "Enum", "StrEnum", "IntEnum", "Exception", "Protocol"}
"""Bases of classes that stay Python; so do classes that are made of such ones."""


def split(source: str, types: str, kept: set[str]) -> str | None:
    """A module without its classes that stay Python.

    Args:
        source: the module's.
        types: the module in which they are, by its full name.
        kept: the names of bases by which a class stays; those found here are added.

    Returns:
        What is compiled; None where the module has no such class.
    """
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    found = []
    for node in classes:
        if any(ast.unparse(base).rpartition(".")[2] in kept for base in node.bases):
            kept.add(node.name)
            found.append(node)
    if not found:
        return None
    lines: list[str | None] = list(source.splitlines(keepends=True))
    for node in found:
        first = min(each.lineno for each in (node, *node.decorator_list))
        end = node.end_lineno or first
        lines[first - 1 : end] = [None] * (end - first + 1)
    at = lines.index(None)
    lines[at] = f"from {types} import {', '.join(node.name for node in found)}\n"
    return "".join(line for line in lines if line is not None)


def stage(target: Path, modules: Sequence[str]) -> list[Path]:
    """Puts the packages into `target`, hot modules split; gives back the files to compile."""
    shutil.rmtree(target, ignore_errors=True)
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "brokertwin", target / "brokertwin", ignore=without)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, target)
    kept, files = {*KEPT, "Body"}, []
    for module in modules:
        file = target / "brokertwin" / "state" / f"{module}.py"
        types = f"brokertwin.state.{module.replace('/', '.')}_types"
        rest = split(file.read_text(encoding="utf-8"), types, kept)
        if rest is not None:
            shutil.copy(file, file.with_name(f"{file.stem}_types.py"))
            file.write_text(rest, encoding="utf-8")
        files.append(file)
    return files


def build(target: Path, modules: Sequence[str], optimize: str, *commands: str) -> None:
    """Compiles in `target`, beside the modules, and does what setuptools is told besides.

    Without a command it ends when the types are right, and C is written: that needs no compiler.
    """
    from mypyc.build import mypycify

    files = stage(target, modules)
    here = Path.cwd()
    os.chdir(target)
    try:
        words = ["--config-file=", *(str(file.relative_to(target)) for file in files)]
        extensions = mypycify(words, opt_level=optimize, group_name=GROUP)
        if commands:
            setup(
                packages=find_packages(include=["brokertwin*"]),
                ext_modules=extensions,
                script_args=["--quiet", *commands],
            )
    finally:
        os.chdir(here)


def main() -> None:
    """Builds the packages and the wheel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=HOT, metavar="MODULE", help="as in HOT")
    parser.add_argument("--target", type=Path, default=TARGET, help="where the packages go")
    parser.add_argument("--optimize", default="2", choices="0123", help="as gcc's -O")
    parser.add_argument("--no-wheel", action="store_true", help="the packages only")
    parser.add_argument("--check", action="store_true", help="only see whether it can be compiled")
    given = parser.parse_args()
    target = given.target.resolve()
    if given.check:
        build(target, given.only, given.optimize)
        return
    wheel = () if given.no_wheel else ("bdist_wheel", "--dist-dir", str(DIST))
    build(target, given.only, given.optimize, "build_ext", "--inplace", *wheel)
    print(f"the packages are in {target}" + ("" if given.no_wheel else f", the wheel in {DIST}"))


if __name__ == "__main__":
    main()
