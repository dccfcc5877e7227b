"""Builds the wheel with a compiled core: `make compiled`.

    python compiled.py [--only MODULE ...]

mypyc compiles typed modules to C. `HOT` are those of `state/` that every event uses; all other
modules, and every response, are as in the usual wheel. mypyc does not support the class keywords of
msgspec structs, as in `class Watch(msgspec.Struct, array_like=True)`. So a Python copy of each hot
module, `<module>_types`, defines the classes, and the compiled module imports them from there;
other code in the copy is used only by these classes.

`build/compiled` has the packages; `PYTHONPATH=build/compiled` puts them before those of the
checkout. The wheel is written to `dist`. This needs a C compiler and takes a minute.
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
"""Name of the library of the compiled modules."""

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
    *("groups/groups", "groups/group_rules", "groups/classic_coordinator", "groups/classic_group"),
    *("groups/committed_offsets", "groups/group_rows", "groups/offset_records"),
    *("transactions/transactional_offsets", "transactions/transaction_verification"),
)
"""The modules in which `python bench/core.py` spends its time."""

KEPT = {"Struct", "NamedTuple", "Enum", "StrEnum", "IntEnum", "Exception", "Protocol"}
"""Bases of classes that stay Python, with their subclasses."""


def split(source: str, types: str, kept: set[str]) -> str | None:
    """Return a module without its classes that stay Python.

    Args:
        source: the module's.
        types: full name of the module that defines these classes.
        kept: names of bases whose subclasses stay; classes found here are added.

    Returns:
        The source to compile; None if the module has no such class.
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
    """Copy the packages into `target` with hot modules split; return the files to compile."""
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
    """Compile the modules in place in `target` and run further setuptools commands.

    Without a command it only checks types and writes C, which needs no compiler.
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
