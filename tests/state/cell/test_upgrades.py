"""State of former versions, as their own programs stored it, is read and goes on.

`version_3.json.gz` has cells of six histories of `seeded`, decided by the last program with version
3: seed, settings and columns. `version_5.json.gz` has cells of two histories with uncommitted
writes, one in layers, and the digests of the rows that the last program with version 5 gave for the
events that follow.
"""

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import upgrades
from brokertwin.state.cell.cell import STATE_VERSION, Cell
from brokertwin.state.cell.check import hold
from brokertwin.state.cell.upgrades import can_upgrade, upgraded
from brokertwin.state.core.check import kind_of
from brokertwin.state.core.events import Reason, Refusal, decode_body
from brokertwin.state.core.outputs import DEAD_LETTERS, RESPONSES, Output, Position
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import IN_MORE, unescape
from brokertwin.state.groups import groups

ISOLATED = 16
"""The history in which brokers were stopped."""


class Stored(NamedTuple):
    """A cell as it was stored."""

    settings: CellSettings
    columns: dict[str, bytes]

    def items(self, table: str) -> dict[str, Any]:
        """The items of a table by key."""
        return items(self.columns[table])


def items(column: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.msgpack.decode(column or b"\x80")
    return found


def version_3() -> dict[int, Stored]:
    packed = Path(__file__).with_name("version_3.json.gz").read_bytes()
    return {
        each["seed"]: Stored(
            msgspec.convert(each["settings"], CellSettings),
            {name: base64.b64decode(column) for name, column in each["columns"].items()},
        )
        for each in json.loads(gzip.decompress(packed).replace(b"brokerstream_", b"brokertwin_"))
    }


SEEDS = sorted(version_3().keys() - {ISOLATED})


def cell_of(stored: Stored) -> Cell:
    found = upgraded(3, stored.columns)
    assert not isinstance(found, str), found
    return Cell(stored.settings, found)


@pytest.mark.parametrize("seed", SEEDS)
def test_upgraded_cell_satisfies_the_invariants(seed: int) -> None:
    stored = version_3()[seed]
    cell = cell_of(stored)
    hold(cell)
    columns = cell.columns()
    for table in ("logs", "producers", "transactions", "metadata"):
        assert items(columns[table]) == stored.items(table)
    moved = [items(each) for each in items(columns["more"]).values()]
    in_memory = [items(columns["sessions"]), items(columns["waiting"]), *moved]
    found = {key: item for each in in_memory for key, item in each.items()}
    assert found == stored.items("sessions") | stored.items("waiting")
    untagged = {
        key: {name: value for name, value in item.items() if name != "type"}
        if "/group/" in key
        else item
        for key, item in items(cell.columns()["groups"]).items()
    }
    assert untagged == stored.items("groups")
    ids = [key.split("/") for key in untagged if "/group/" in key]
    assert ids
    for broker, _, group in ids:
        written = groups.find_stored(cell.tables.groups, int(broker), unescape(group))
        assert isinstance(written, groups.StoredClassicGroup)


@pytest.mark.parametrize("seed", SEEDS)
def test_upgraded_cell_describes_its_groups(seed: int) -> None:
    """It describes each group to a client as before."""
    stored = version_3()[seed]
    cell = cell_of(stored)
    living = {key: item for key, item in stored.items("sessions").items() if "/live-group/" in key}
    assert living
    for key, item in living.items():
        broker, _, group = key.split("/", 2)
        described = response_of(cell, int(broker), 15, 4, {"groups": [unescape(group)]})["groups"][
            0
        ]
        assert described["errorCode"] == 0
        assert described["groupState"] == item["state"]
        assert len(described["members"]) == len(item["members"])
    hold(cell)


def response_of(cell: Cell, broker: int, key: int, version: int, body: dict[str, Any]) -> Any:
    event = {
        "id": "asked",
        "cluster": cell.settings.cluster,
        "broker": broker,
        "time": cell.meta.now,
        "principal": "User:ANONYMOUS",
        "requestHeader": {"requestApiKey": key, "requestApiVersion": version},
        "request": body,
    }
    rows = cell.handle(msgspec.json.encode(event), Position(0, 0))
    (found,) = (row for row in rows if row.topic == RESPONSES)
    return msgspec.json.decode(found.value or b"")["response"]


class Continued(NamedTuple):
    """A cell as it was stored, the events that follow, and the digest of each one's rows."""

    settings: CellSettings
    columns: dict[str, bytes]
    offset: int
    documents: list[bytes]
    rows: list[str]


def version_5() -> list[Continued]:
    packed = Path(__file__).with_name("version_5.json.gz").read_bytes()
    return [
        Continued(
            msgspec.convert(each["settings"], CellSettings),
            {name: base64.b64decode(column) for name, column in each["columns"].items()},
            each["offset"],
            [base64.b64decode(document) for document in each["documents"]],
            each["rows"],
        )
        for each in json.loads(gzip.decompress(packed))
    ]


UNKNOWN = re.compile(r"unknown field `(\w+)`(?: - at `\$(.*)`)?")


def known(document: bytes) -> bytes:
    """The event without fields that its API does not have, which were ignored at that time."""
    event = json.loads(document)
    key = (event.get("requestHeader") or {}).get("requestApiKey")
    while key in BUILT:
        body = msgspec.Raw(msgspec.json.encode(event["request"]))
        refusal = decode_body(body, BUILT[key].decoder())
        if not isinstance(refusal, Refusal) or refusal.reason is not Reason.UNKNOWN_FIELD:
            break
        found = UNKNOWN.search(refusal.detail)
        assert found is not None, refusal
        part = event["request"]
        for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", found[2] or ""):
            part = part[name] if name else part[int(number)]
        del part[found[1]]
    return msgspec.json.encode(event)


NOT_COMPARED = {"detail", "hasAppendTime"}


def digest(rows: list[Output]) -> str:
    """The digest of rows without the words of refusals, and without a later field of batches."""
    content = [(row.topic, row.partition, row.key, row.id, value_of(row)) for row in rows]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def value_of(row: Output) -> Any:
    is_json = row.value is not None and row.value.startswith(b"{")
    return wordless(json.loads(row.value or b"")) if is_json else row.value


def wordless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: wordless(each) for name, each in value.items() if name not in NOT_COMPARED}
    return [wordless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("stored", version_5(), ids=["in layers", "in maps"])
def test_an_upgraded_cell_of_version_5_gives_the_same_rows(stored: Continued) -> None:
    columns = upgraded(5, stored.columns)
    assert not isinstance(columns, str), columns
    cell = Cell(stored.settings, columns)
    hold(cell)
    commits = cell.tables.pending.keys("commit/")
    assert commits
    kinds = {kind_of(key) for name in IN_MORE for key in cell.tables[name].keys("")}
    assert kinds >= {"leading", "checkpointed", "busy", "verifications"}
    found = []
    for place, document in enumerate(stored.documents, stored.offset):
        rows = cell.handle(document, Position(0, place))
        if any(Reason.UNKNOWN_FIELD.encode() in (row.value or b"") for row in rows):
            rows = cell.handle(known(document), Position(0, place))
            if rows[0].topic == DEAD_LETTERS:  # it has the input, which differs
                found.append(stored.rows[len(found)])
                continue
        found.append(digest(rows))
        hold(cell)
    assert found == stored.rows


def test_group_without_a_type_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upgrades.STEPS, 3, dict)
    with pytest.raises(msgspec.ValidationError):
        test_upgraded_cell_satisfies_the_invariants(SEEDS[0])


def test_stopped_brokers_in_version_3_are_refused() -> None:
    why = upgraded(3, version_3()[ISOLATED].columns)
    assert isinstance(why, str) and "stopped or isolated" in why


def test_columns_of_this_version_are_unchanged() -> None:
    columns = cell_of(version_3()[SEEDS[0]]).columns()
    assert upgraded(STATE_VERSION, columns) == columns


def test_each_version_since_3_has_a_step() -> None:
    assert [can_upgrade(version) for version in (1, 2)] == [False, False]
    assert all(can_upgrade(version) for version in range(3, STATE_VERSION + 1))
    assert sorted(upgrades.STEPS) == list(range(3, STATE_VERSION))
