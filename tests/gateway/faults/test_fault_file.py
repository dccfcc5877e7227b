"""Fault files, their errors, and the JSON schema."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.faults import fault_file
from brokertwin.gateway.faults.fault import Effect, FaultSpec

TOML = """
[[faults]]
effect = "fail"
api = "Produce"
error = "NOT_LEADER_OR_FOLLOWER"
topic = "orders"
partition = 0
nth = 3
times = "all"

[[faults]]
effect = "delay"
ms = 200
probability = 0.25
seed = 7
before = true
"""
SPECS = [
    FaultSpec(
        effect=Effect.FAIL,
        api="Produce",
        error="NOT_LEADER_OR_FOLLOWER",
        topic="orders",
        partition=0,
        nth=3,
        times="all",
    ),
    FaultSpec(effect=Effect.DELAY, ms=200, probability=0.25, seed=7, before=True),
]


def test_toml_and_json_files_have_the_same_entries(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(TOML)
    assert fault_file.read(tmp_path / "f.toml") == SPECS
    entries = [
        {"effect": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}
        | {"topic": "orders", "partition": 0, "nth": 3, "times": "all"},
        {"effect": "delay", "ms": 200, "probability": 0.25, "seed": 7, "before": True},
    ]
    for document in ({"faults": entries}, entries):
        (tmp_path / "f.json").write_text(json.dumps(document))
        assert fault_file.read(tmp_path / "f.json") == SPECS


def test_a_single_entry_is_a_document() -> None:
    assert fault_file.specs_in({"effect": "cut"}, "Body") == [FaultSpec(effect=Effect.CUT)]


WRONG: list[tuple[Any, str]] = [
    ({"effect": "explode"}, "Invalid effect='explode': .* Use one of fail, lose, cut"),
    ({"api": "PRODUCE"}, "missing required field effect. Example"),
    ({"effect": "lose", "nht": 2}, "A fault has no field nht. Did you mean nth"),
    ({"effect": "lose", "zzz": 2}, "A fault has no field zzz. Fields: effect, api"),
    ({"effect": "lose", "nth": 0}, "Invalid nth=0: expected int >= 1"),
    ({"effect": "lose", "times": "some"}, "Invalid times='some'"),
    ({"effect": "lose", "probability": 1.5}, "Invalid probability=1.5: expected float <= 1"),
    ({"effect": "lose", "api": "PRODUCES"}, "no API PRODUCES. Did you mean PRODUCE"),
    ({"effect": "fail", "api": "PRODUCE"}, "The effect fail requires an error"),
    ({"effect": "fail", "error": "NOT_LEADER"}, "no error NOT_LEADER. Did you mean"),
    ({"effect": "fail", "error": 3, "api": "API_VERSIONS"}, "API_VERSIONS cannot fail"),
    ({"effect": "cut", "error": 3}, "The effect cut accepts no error"),
    ({"effect": "delay"}, "The effect delay requires ms"),
    ({"effect": "hold", "ms": 5}, "The effect hold accepts no ms"),
    ({"effect": "cut", "before": True}, "The effect cut accepts no before"),
    ({"effect": "hold", "closes": False}, "The effect hold accepts no closes"),
    ({"effect": "cut", "partition": 1}, "partition=1 requires a topic"),
    ({"effect": "cut", "api": "HEARTBEAT", "topic": "a"}, "HEARTBEAT requests have no topics"),
    (7, "Invalid fault: expected object, got int"),
]


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_an_error_names_the_file_the_entry_and_what_to_do(entry: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^chaos.toml, fault 2: .*{message}") as raised:
        fault_file.specs_in([{"effect": "cut"}, entry], "chaos.toml")
    assert raised.value.hint


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.json", "{", "is not valid JSON: .* A fault file is TOML, or JSON"),
        ("f.toml", "effect: cut", "is not valid TOML"),
        ("f.toml", "", "there are no faults. Write"),
        ("f.toml", "seed = 1\n[[faults]]\neffect = 'cut'", "unknown key seed beside faults"),
        ("missing", None, "Cannot read the faults in .*missing: No such file"),
    ],
)
def test_a_file_that_is_not_a_fault_file(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message) as raised:
        fault_file.read(tmp_path / name)
    assert raised.value.hint


def test_the_schema_describes_every_field() -> None:
    schema = fault_file.schema()
    entry = schema["$defs"]["FaultSpec"]
    assert schema["properties"]["faults"]["items"] == {"$ref": "#/$defs/FaultSpec"}
    assert list(entry["properties"]) == list(FaultSpec.__struct_fields__)
    assert entry["required"] == ["effect"]
    assert entry["additionalProperties"] is False
    described = [field for field, each in entry["properties"].items() if "description" in each]
    assert described == list(FaultSpec.__struct_fields__)
