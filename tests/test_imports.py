"""Which package may import which: the core stays pure, and the layers point one way."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources import PACKAGES, ROOT, name_of, python_files

LAYERS: dict[str, set[str]] = {
    "state": {"state"},
    "clients": {"clients", "state"},
    "sinks": {"sinks", "state"},
    "streaming": {"streaming", "state", "sinks"},
    "gateway": {"gateway", "state", "clients"},
    "testing": {"testing", "gateway", "state"},
    "cli": {"cli", "state", "clients", "sinks", "streaming", "gateway"},
    "brokerstream": set(),
}
"""Package to what it imports of ours, beside `brokerstream.errors`."""

EXTRA = {
    "gateway": {
        f"brokerstream.streaming.{module}"
        for module in (
            "kafka_clients",
            "locators",
            "partitioning",
            "placement",
            "topic_reader",
            "topic_writer",
            "topics",
        )
    }
}
"""Single modules beyond the layers: the gateway reads and writes the job's topics."""

PURE = ("state", "clients")
PURE_MODULES = {
    "__future__", "abc", "array", "base64", "binascii", "bisect", "collections", "contextlib",
    "copy", "dataclasses", "difflib", "enum", "fnmatch", "functools", "hashlib", "heapq",
    "ipaddress", "itertools", "json", "math", "msgspec", "operator", "re", "string", "struct",
    "textwrap", "types", "typing", "unicodedata", "uuid", "zlib",
}  # fmt: skip
"""What the core may import: nothing that reads a clock, a file, the network or chance."""

IMPURE_FUNCTIONS = {"open", "input", "print", "exec", "eval", "__import__"}
IMPURE_METHODS = {"uuid1", "uuid4", "getnode"}


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Every module that the code imports, also inside functions; `from x import y` gives x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            if node.module == "brokerstream":
                yield from (f"brokerstream.{alias.name}" for alias in node.names)


def is_allowed(package: str, module: str) -> bool:
    """Whether a package may import a module of ours."""
    if module in {"brokerstream", "brokerstream.errors", "brokerstream.__version__"}:
        return package not in PURE
    layer = module.split(".")[1]
    return layer in LAYERS[package] or module in EXTRA.get(package, ())


def files_of(*packages: str) -> list[tuple[str, Path]]:
    return [(package, file) for package in packages for file in python_files(package)]


def ids(value: object) -> str:
    return name_of(value) if isinstance(value, Path) else ""


@pytest.mark.parametrize(("package", "file"), files_of(*PACKAGES), ids=ids)
def test_a_package_imports_only_the_layers_below_it(package: str, file: Path) -> None:
    modules = set(imported_modules(ast.parse(file.read_text(encoding="utf-8"))))
    ours = {module for module in modules if module.split(".")[0] == "brokerstream"}
    assert {module for module in ours if not is_allowed(package, module)} == set()
    assert {module for module in modules if module.startswith(".")} == set(), "write full names"
    assert not modules & set(PACKAGES[:-1]), "directories are imported as brokerstream.<name>"


@pytest.mark.parametrize(("package", "file"), files_of(*PURE), ids=ids)
def test_the_core_is_pure(package: str, file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tops = {module.split(".")[0] for module in imported_modules(tree)}
    assert tops - PURE_MODULES - {"brokerstream"} == set()
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {call.id for call in called if isinstance(call, ast.Name)}
    methods = {call.attr for call in called if isinstance(call, ast.Attribute)}
    assert names & (IMPURE_FUNCTIONS | IMPURE_METHODS) == set()
    assert methods & IMPURE_METHODS == set()


@pytest.mark.parametrize(
    ("package", "module", "allowed"),
    [
        ("state", "brokerstream.state.tables", True),
        ("state", "brokerstream.errors", False),
        ("clients", "brokerstream.streaming.settings", False),
        ("streaming", "brokerstream.cli.output", False),
        ("gateway", "brokerstream.streaming.topics", True),
        ("gateway", "brokerstream.streaming.session", False),
        ("cli", "brokerstream.streaming.settings", True),
    ],
)
def test_the_rule_itself(package: str, module: str, allowed: bool) -> None:
    assert is_allowed(package, module) is allowed


def test_every_python_directory_at_the_top_is_mapped() -> None:
    tops = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    assert tops == set(PACKAGES)


@pytest.mark.parametrize("module", ["brokerstream", "brokerstream.state", "brokerstream.clients"])
def test_the_core_loads_nothing_heavy(module: str) -> None:
    """Importing it in a fresh interpreter leaves Spark, pandas and Kafka clients out."""
    heavy = ["pyspark", "pandas", "numpy", "pyarrow", "kafka", "confluent_kafka", "pydantic"]
    code = f"import {module}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
