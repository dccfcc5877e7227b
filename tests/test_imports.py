"""Which package may import which: the core stays pure, and the layers point one way."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from brokertwin.cli.main import COMMANDS, FAMILIES
from tests.support.sources import (
    PACKAGES,
    ROOT,
    imported_modules,
    name_of,
    nodes_of,
    python_files,
    tree_of,
)

LAYERS: dict[str, set[str]] = {
    "protocol": {"protocol"},
    "state": {"state", "protocol"},
    "clients": {"clients", "state", "protocol"},
    "kafka_io": {"kafka_io", "state", "protocol"},
    "sinks": {"sinks", "state", "kafka_io", "protocol"},
    "offsets": {"offsets", "sinks", "state", "kafka_io", "protocol"},
    "gateway": {"gateway", "state", "clients", "kafka_io", "sinks", "protocol"},
    "clients.io": {"clients.io", "state", "clients", "kafka_io", "gateway", "protocol"},
    "tables": {"tables", "state", "kafka_io", "protocol"},
    "recordings": {"recordings", "state", "tables", "sinks", "kafka_io", "protocol"},
    "page": {"page", "recordings", "tables", "state", "protocol"},
    "streaming": {
        *{"streaming", "state", "sinks", "kafka_io", "tables", "offsets", "recordings"},
        "protocol",
    },
    "tables.query": {
        *{"tables.query", "tables", "state", "sinks", "kafka_io", "recordings", "streaming"},
        "protocol",
    },
    "testing": {
        *{"testing", "gateway", "state", "clients", "clients.io", "kafka_io", "recordings"},
        "protocol",
    },
    "simulation": {"simulation", "clients", "state", "protocol"},
    "cli": {
        *{"cli", "state", "clients", "clients.io", "sinks", "kafka_io", "gateway", "protocol"},
        *{"recordings", "streaming", "tables", "tables.query", "simulation", "testing"},
        *{"offsets", "page"},
    },
    "brokertwin": {"cli"},  # __main__ alone; importing the package loads nothing
}
"""Packages with the packages that they import, besides the modules `OURS_AT_THE_TOP`."""

ROOMS: dict[str, set[str]] = {
    "core": set(),
    "logs": {"core"},
    "configs": {"core"},
    "access": {"core", "configs"},
    "cluster": {"core", "logs", "configs", "access"},
    "fetch": {"core", "logs", "cluster"},
    "share": {"core", "logs", "cluster"},
    "groups": {"core", "access", "cluster", "share"},
    "eras": {"core", "logs", "cluster", "groups"},
    "replication": {"core", "logs", "cluster", "eras"},
    "transactions": {"core", "logs", "cluster", "eras", "groups"},
    "apis": {
        *{"core", "logs", "configs", "access", "cluster", "eras", "replication", "fetch"},
        *{"share", "groups", "transactions"},
    },
    "cell": {
        *{"core", "logs", "access", "cluster", "eras", "replication", "fetch", "groups"},
        *{"transactions", "share", "apis"},
    },
}  # fmt: skip
"""Subpackages of `state/` with their imports, all of them lower: there is no cycle."""

PURE = ("state", "clients")
PURE_MODULES = {
    "__future__", "abc", "array", "base64", "binascii", "bisect", "collections", "contextlib",
    "copy", "dataclasses", "difflib", "enum", "fnmatch", "functools", "hashlib", "heapq",
    "importlib", "ipaddress", "itertools", "json", "math", "msgspec", "operator", "pkgutil",
    "re", "re2", "string", "struct", "textwrap", "threading", "types", "typing", "unicodedata",
    "uuid", "zlib",
}  # fmt: skip
"""Modules that the core may import: none reads a clock, a file, the network or randomness.

From threading only the lock, which does not affect decisions: see `state/core/tables.py`."""

LATER = {"tables": "brokertwin.tables.query.reading"}
"""A module that a package hands on when one of its names is first used."""

OURS_AT_THE_TOP = {
    "brokertwin",
    "brokertwin.brokers",
    "brokertwin.errors",
    "brokertwin.wording",
    "brokertwin.extras",
    "brokertwin.patterns",
    "brokertwin.places",
    "brokertwin.processes",
    "brokertwin.settings",
    "brokertwin.unpacked",
    "brokertwin.__version__",
}
IMPURE_FUNCTIONS = {"open", "input", "print", "exec", "eval", "__import__"}
IMPURE_METHODS = {"uuid1", "uuid4", "getnode"}


def is_allowed(package: str, module: str) -> bool:
    if module in OURS_AT_THE_TOP:
        return package not in PURE
    return _layer(module.split(".")[1:]) in LAYERS[package] or module == LATER.get(package)


def _layer(parts: Sequence[str]) -> str:
    """The layer of a module's path: its package, or the I/O half of the clients."""
    two = ".".join(parts[:2])
    return two if two in LAYERS else parts[0]


def rooms_of(tree: ast.AST) -> set[str]:
    """The rooms of `state/` that the code imports from."""
    modules = [module.split(".") for module in imported_modules(tree)]
    return {parts[2] for parts in modules if parts[:2] == ["brokertwin", "state"] and parts[2:]}


def top_of(file: Path) -> str:
    parts = module_of(file).split(".")[1:]
    return _layer(parts) if parts[0] in PACKAGES else "brokertwin"


def wrong_imports(package: str, tree: ast.AST) -> Iterator[str]:
    """Return the forbidden imports of a module in a package, each with the rule."""
    modules = set(imported_modules(tree))
    for module in sorted(modules):
        if module.startswith("."):
            yield f"{module}: write full names"
        elif module in PACKAGES[:-1]:
            yield f"{module}: directories are imported as brokertwin.<name>"
        elif module.split(".")[0] == "brokertwin" and not is_allowed(package, module):
            yield f"{module}: not below {package}"


def test_a_package_imports_only_the_layers_below_it() -> None:
    found = {
        name_of(f): list(wrong_imports(top_of(f), tree_of(f))) for f in python_files(*PACKAGES)
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_room_imports_only_those_that_the_table_names() -> None:
    files = {file: file.relative_to(ROOT / "state").parts[0] for file in python_files("state")}
    assert [room for room in files.values() if room.endswith(".py")] == ["__init__.py"], (
        "a module of state/ lies in a room"
    )
    found = {
        name_of(file): rooms_of(tree_of(file)) - ROOMS[room] - {room}
        for file, room in files.items()
        if room != "__init__.py"
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_each_arrow_between_rooms_is_there_and_none_goes_up() -> None:
    order = list(ROOMS)
    for at, (room, below) in enumerate(ROOMS.items()):
        assert below <= set(order[:at]), f"{room} stands on rooms that come after it"
        trees = [tree_of(f) for f in python_files(f"state/{room}")]
        used = set().union(*(rooms_of(tree) for tree in trees))
        assert used - {room} == below, f"{room}: the table has what the code has"


def test_each_room_has_its_folder_of_tests() -> None:
    for room in ROOMS:
        assert list((ROOT / "tests" / "state" / room).glob("test_*.py")), room


def impure(tree: ast.AST) -> set[str]:
    """Return the imports and calls of a module that are forbidden in the core."""
    tops = {module.split(".")[0] for module in imported_modules(tree)}
    called = [node.func for node in nodes_of(tree) if isinstance(node, ast.Call)]
    names = {call.id for call in called if isinstance(call, ast.Name)}
    methods = {call.attr for call in called if isinstance(call, ast.Attribute)}
    return (
        (tops - PURE_MODULES - {"brokertwin"})
        | (names & (IMPURE_FUNCTIONS | IMPURE_METHODS))
        | (methods & IMPURE_METHODS)
    )


def test_the_core_is_pure() -> None:
    found = {
        name_of(file): impure(tree_of(file)) for file in python_files(*PURE) if top_of(file) in PURE
    }
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time", {"time"}),
        ("def f():\n    from random import choice", {"random"}),
        ("open('file')", {"open"}),
        ("import uuid\nuuid.uuid4()", {"uuid4"}),
        ("import json, brokertwin.state.core.tables", set()),
    ],
)
def test_impure_code_is_found(code: str, what: set[str]) -> None:
    assert impure(ast.parse(code)) == what


@pytest.mark.parametrize(
    ("package", "code", "wrong"),
    [
        ("state", "from . import tables", ".: write full names"),
        ("cli", "import gateway", "gateway: directories are imported as brokertwin.<name>"),
        (
            "state",
            "from brokertwin.gateway.server import Server",
            "brokertwin.gateway.server: not below state",
        ),
    ],
)
def test_a_wrong_import_is_found(package: str, code: str, wrong: str) -> None:
    assert list(wrong_imports(package, ast.parse(code))) == [wrong]


@pytest.mark.parametrize(
    ("package", "module", "allowed"),
    [
        ("state", "brokertwin.state.core.tables", True),
        ("state", "brokertwin.errors", False),
        ("clients", "brokertwin.settings", False),
        ("streaming", "brokertwin.cli.output", False),
        ("gateway", "brokertwin.kafka_io.topics", True),
        ("gateway", "brokertwin.streaming.job.session", False),
        ("cli", "brokertwin.settings", True),
    ],
)
def test_the_rule_itself(package: str, module: str, allowed: bool) -> None:
    assert is_allowed(package, module) is allowed


LOADED_BY_NAME = {
    "brokertwin.__main__": "python -m brokertwin",
    "brokertwin.testing.plugin": "entry point pytest11 in pyproject.toml",
    "brokertwin.streaming.job.worker_daemon": "module that Spark starts, named in session.py",
    "brokertwin.page.browser": "page/assets/worker.js, in the browser",
    "brokertwin.simulation.zookeeper": "used by examples/before_groups.py",
}
"""Modules without an importer in product code, and who loads them."""


def module_of(file: Path) -> str:
    path = name_of(file).removeprefix("brokertwin/").removesuffix(".py").removesuffix("/__init__")
    return f"brokertwin.{path.replace('/', '.')}"


def unused_modules(trees: Mapping[str, ast.AST], loaded: Collection[str]) -> list[str]:
    """Return modules that no other module imports and that are not `loaded` by name."""
    imported = {
        name
        for module, tree in trees.items()
        for name in (*imported_modules(tree), *_imported_names(tree))
        if name != module
    }
    return sorted(trees.keys() - imported - set(loaded))


def _imported_names(tree: ast.AST) -> Iterator[str]:
    """Full names of all `from module import name`: a name may be a module."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_each_module_is_imported_by_another_or_loaded_by_name() -> None:
    trees = {module_of(file): tree_of(file) for file in python_files(*PACKAGES)}
    folders = {name: f"{family}." for family, names in FAMILIES.items() for name in names}
    commands = {
        f"brokertwin.cli.{folders.get(name, '')}{re.sub('[- ]', '_', name)}" for name in COMMANDS
    }
    packages = {module_of(file) for file in python_files(*PACKAGES) if file.name == "__init__.py"}
    commands |= packages
    commands |= {  # `registry.py` loads them
        module_of(file) for file in python_files("state") if file.parent.name == "apis"
    }
    assert unused_modules(trees, LOADED_BY_NAME.keys() | commands) == []
    assert set(LOADED_BY_NAME) <= set(unused_modules(trees, commands)), "no entry is superfluous"


def test_an_unused_module_is_found() -> None:
    trees = {
        "brokertwin.a": ast.parse("from brokertwin import b"),
        "brokertwin.b": ast.parse("import brokertwin.b"),
        "brokertwin.c": ast.parse(""),
        "brokertwin.d": ast.parse(""),
    }
    assert unused_modules(trees, ["brokertwin.a", "brokertwin.d"]) == ["brokertwin.c"]


def test_every_python_directory_at_the_top_is_mapped() -> None:
    tops = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    rooms = {file.parent.name for file in ROOT.glob("brokertwin/*/__init__.py")}
    assert tops | rooms == set(PACKAGES)


def test_modules_in_tests_are_imported_by_their_full_name() -> None:
    """By its full name: under two names a helper would be two modules, each with its own state."""
    below = {path.stem for path in (ROOT / "tests").iterdir()}
    found = [
        f"{name_of(file)}: {module}"
        for file in python_files("tests", "bench", *PACKAGES)
        for module in imported_modules(tree_of(file))
        if module.startswith(".") or module.split(".")[0] in below
    ]
    assert found == []


@pytest.mark.parametrize("module", ["brokertwin", "brokertwin.state", "brokertwin.clients"])
def test_the_core_loads_nothing_heavy(module: str) -> None:
    """Importing it in a fresh interpreter leaves Spark, pandas and Kafka clients out."""
    heavy = ["pyspark", "pandas", "numpy", "pyarrow", "kafka", "confluent_kafka", "pydantic"]
    code = f"import {module}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
