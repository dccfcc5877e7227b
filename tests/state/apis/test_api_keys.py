"""API keys and facts about APIs are in one table, `brokertwin/protocol/kafka_apis.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import brokertwin
from brokertwin.protocol.kafka_apis import KAFKA_APIS

ROOT = Path(brokertwin.__file__).parent
PACKAGES = (
    *("cli", "clients", "gateway", "kafka_io", "recordings", "simulation", "sinks"),
    *("state", "streaming", "tables", "testing", "protocol", "offsets"),
)
TABLE = ROOT / "protocol/kafka_apis.py"
NAMES = {api.name for api in KAFKA_APIS.values()}
EQUALITY = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
KEY_FIELDS = {"api_key", "request_api_key", "requestApiKey"}
ENGINES = [
    *(ROOT / "state/cell").glob("*.py"),
    *(ROOT / "gateway/engine").glob("*.py"),
    *(ROOT / f"gateway/{name}.py" for name in ("connection", "refusals")),
]
"""Modules that ask an API's row and name no API."""


def sources() -> list[Path]:
    paths = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return sorted(path for path in paths if path != TABLE)


def numbers_of_apis(tree: ast.Module) -> Iterator[str]:
    """Assignments of a number to the name of an API, as in `PRODUCE = 0`."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                is_api = isinstance(name, ast.Name) and name.id in NAMES
                if is_api and isinstance(value, ast.Constant) and type(value.value) is int:
                    yield ast.unparse(node)


def compared_numbers(tree: ast.Module) -> Iterator[str]:
    """Comparisons of an API key with numbers, as in `api_key in {0, 1}`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], EQUALITY):
            continue
        sides = [node.left, *node.comparators]
        if any(_is_key(side) for side in sides) and any(map(_has_number, sides)):
            yield ast.unparse(node)


def _is_key(side: ast.expr) -> bool:
    if isinstance(side, ast.Attribute):
        return side.attr in KEY_FIELDS
    return isinstance(side, ast.Name) and side.id in KEY_FIELDS


def _has_number(side: ast.expr) -> bool:
    parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
    return any(isinstance(part, ast.Constant) and part.value in KAFKA_APIS for part in parts)


def named_apis(tree: ast.Module) -> Iterator[str]:
    """Uses of a row by the name of its API, and of the `API` of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if each.name in NAMES | {"API"})
        elif isinstance(node, ast.Attribute):
            is_row = ast.unparse(node.value) == "kafka_apis" and node.attr in NAMES
            if is_row or node.attr == "API":
                yield ast.unparse(node)


def test_api_keys_are_defined_in_one_module() -> None:
    found = {}
    for path in sources():
        tree = ast.parse(path.read_text())
        found[path] = [*numbers_of_apis(tree), *compared_numbers(tree)]
    assert {str(path): each for path, each in found.items() if each} == {}


def test_cells_and_engines_name_no_api() -> None:
    found = {path: list(named_apis(ast.parse(path.read_text()))) for path in ENGINES}
    assert {str(path): each for path, each in found.items() if each} == {}


def test_module_that_defines_an_api_key_is_found() -> None:
    assert list(numbers_of_apis(ast.parse("PRODUCE, FETCH = 0, 1"))) != []
    assert list(compared_numbers(ast.parse("request.api_key in (0, 1)"))) != []
    assert list(named_apis(ast.parse("kafka_apis.PRODUCE.key"))) == ["kafka_apis.PRODUCE"]
    assert list(named_apis(ast.parse("from brokertwin.state.apis.fetch import API"))) == ["API"]
