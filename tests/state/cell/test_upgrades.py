"""State of former versions, as their own programs stored it, is read and goes on.

`version_3.json.gz` has cells of six histories of `seeded`, decided by the last program with version
3: seed, settings and columns. `version_5.json.gz` has cells of two histories with uncommitted
writes, one in layers, and the digests of the rows that the last program with version 5 gave for the
events that follow. `version_6.json.gz` has the cell of `EveryKind`.
"""

import base64
import gzip
import hashlib
import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from brokertwin.protocol.generated.group_rows import GroupMetadataKey, MemberMetadata
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import group_upgrades, upgrades
from brokertwin.state.cell.cell import STATE_VERSION, Cell
from brokertwin.state.cell.check import hold
from brokertwin.state.cell.upgrades import can_upgrade, upgraded
from brokertwin.state.core.check import kind_of
from brokertwin.state.core.events import Reason, Refusal, decode_body
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.outputs import DEAD_LETTERS, RESPONSES, Output, Position
from brokertwin.state.core.records import PartitionTaken, Record
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import IN_MORE, unescape
from brokertwin.state.groups import groups
from tests.state.replication.test_loading import SILENCE_MS, TIMEOUT_MS, Kinds
from tests.support.coordinators import GROUPS
from tests.support.replicas import TOPIC
from tests.support.streams_groups import COUNTING, NO_TASKS

ISOLATED = 16
"""The history in which brokers were stopped."""


class Stored(NamedTuple):
    settings: CellSettings
    columns: dict[str, bytes]

    def items(self, table: str) -> dict[str, Any]:
        return items(self.columns[table])


def items(column: bytes) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.msgpack.decode(column or b"\x80")
    return result


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
    actual = {key: item for each in in_memory for key, item in each.items()}
    assert actual == stored.items("sessions") | stored.items("waiting")
    written = items(columns["groups"])
    assert written.keys() == stored.items("groups").keys()
    ids = [key.split("/") for key in written if "/group/" in key]
    assert ids
    for broker, _, group in ids:
        known = groups.find_stored(cell.tables.of(int(broker)), unescape(group))
        assert isinstance(known, groups.StoredClassicGroup)


@pytest.mark.parametrize("seed", SEEDS)
def test_upgraded_cell_describes_its_groups(seed: int) -> None:
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
        result = UNKNOWN.search(refusal.detail)
        assert result is not None, refusal
        part = event["request"]
        for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", result[2] or ""):
            part = part[name] if name else part[int(number)]
        del part[result[1]]
    return msgspec.json.encode(event)


NOT_COMPARED = {"detail", "hasAppendTime", "written", "sizeInBytes", "packed"}


def digest(rows: list[Output]) -> str:
    """The digest of rows without the words of refusals, and without what has another form since."""
    content = [(row.topic, row.partition, row.key, row.id, value_of(row)) for row in rows]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def value_of(row: Output) -> Any:
    is_json = row.value is not None and row.value.startswith(b"{")
    return wordless(json.loads(row.value or b"")) if is_json else row.value


def wordless(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("type") == "GroupRecord":
            return "group"
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
    actual = []
    for place, document in enumerate(stored.documents, stored.offset):
        rows = cell.handle(document, Position(0, place))
        if any(Reason.UNKNOWN_FIELD.encode() in (row.value or b"") for row in rows):
            rows = cell.handle(known(document), Position(0, place))
            if rows[0].topic == DEAD_LETTERS:  # it has the input, which differs
                actual.append(stored.rows[len(actual)])
                continue
        actual.append(digest(rows))
        hold(cell)
    assert actual == stored.rows


class EveryKind(Kinds):
    """Also a group of members of both protocols, and a topology with settings."""

    def __init__(self) -> None:
        super().__init__()
        name = TOPIC.encode()
        topics = b"\0\0\0\1" + len(name).to_bytes(2, "big") + name
        subscription = b"\0\1" + topics + b"\xff\xff\xff\xff" + b"\0\0\0\0"
        assignment = b"\0\1" + topics + b"\0\0\0\1\0\0\0\0" + b"\xff\xff\xff\xff"
        group = {"groupId": "mixed", "protocolType": "consumer"}
        times = {"sessionTimeoutMs": SILENCE_MS, "rebalanceTimeoutMs": SILENCE_MS}
        protocols = [{"name": "range", "metadata": b64encode(subscription).decode()}]
        sent = {**group, **times, "memberId": "", "protocols": protocols}
        sent["memberId"] = self.response(
            self.send("JOIN_GROUP", 9, sent, self.coordinator(GROUPS))
        )["memberId"]
        waits = self.send("JOIN_GROUP", 9, sent, self.coordinator(GROUPS))
        self.bench.tick(6_000)
        member = {**group, "memberId": self.response(waits)["memberId"], "generationId": 1}
        assigned = {"memberId": member["memberId"], "assignment": b64encode(assignment).decode()}
        self.on("SYNC_GROUP", 5, {**member, "protocolName": "range", "assignments": [assigned]})
        self.modern("mixed")
        parts = [{**COUNTING["subtopologies"][0], "sourceTopics": [TOPIC]}]
        parts += COUNTING["subtopologies"][1:]
        tags = [{"key": "zone", "value": "a"}, {"key": "area", "value": "b"}]
        sent = {"groupId": "counting", "memberId": "m", "processId": "p", "clientTags": tags}
        sent |= {"topology": {"epoch": 0, "subtopologies": parts}, **NO_TASKS, "memberEpoch": 0}
        sent |= {"rebalanceTimeoutMs": TIMEOUT_MS, "endpointInformationEpoch": 0}
        self.on("STREAMS_GROUP_HEARTBEAT", 0, sent)


def sizeless(columns: dict[str, bytes]) -> dict[str, Any]:
    """The items of columns with decoded records, without the sizes of coordinators' batches."""
    result = {name: items(column) for name, column in columns.items()}
    for key, item in result["logs"].items():
        if kind_of(key) == "log":
            item["chunks"] = [[*bounds[:3], *bounds[4:]] for bounds in item.get("chunks", [])]
        elif kind_of(key) == "chunk":
            item[0] = [[*batch[:8], *batch[9:17], items(batch[17] or b"")] for batch in item[0]]
    return result


def test_an_upgraded_cell_of_version_6_is_as_this_program_stores_it() -> None:
    packed = Path(__file__).with_name("version_6.json.gz").read_bytes()
    stored = json.loads(gzip.decompress(packed))
    columns = {name: base64.b64decode(column) for name, column in stored.items()}
    cell = EveryKind().bench.cell
    found = upgraded(6, columns)
    assert not isinstance(found, str), found
    assert sizeless(found) == sizeless(cell.columns())
    groups = [item for key, item in items(columns["groups"]).items() if "/group/" in key]
    assert {each["type"] for each in groups} == {"classic", "consumer", "share", "streams"}
    hold(Cell(cell.settings, found))


def test_records_of_version_6_in_a_whole_state_and_in_uncommitted_writes_are_upgraded() -> None:
    member = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/"}
    member |= {"rebalanceTimeoutMs": 1, "sessionTimeoutMs": 2, "assignment": ""}
    metadata = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m"}
    metadata |= {"currentStateTimestamp": 3, "members": [{**member, "subscription": "QQ=="}]}
    group = {"type": "classic", "group_id": "g", "metadata": metadata}
    table = {"group/g": msgspec.msgpack.encode(group), "offset/g/t/0": b"as before"}
    place = {"topicId": "T", "partition": 0}
    taken = group_upgrades.record({"type": "PartitionTaken", **place, "items": {"groups": table}})
    after = msgspec.convert(taken, PartitionTaken).items["groups"]
    actual = msgspec.msgpack.decode(after["group/g"], type=groups.StoredClassicGroup).metadata
    assert actual is not None
    assert actual.members == [MemberMetadata("m", None, "c", "/", 1, 2, b"A", b"")]
    assert after["offset/g/t/0"] == b"as before"

    late, row = ({"type": kind} for kind in ("TransactionalIdExpired", "GroupRemoved"))
    state = [[], [], [late | {"transactionalId": "t"}], [], [], [row | {"groupId": "g"}], [], []]
    commit = group_upgrades.commit({"state": msgspec.msgpack.encode(state)})
    written = msgspec.msgpack.decode(commit["state"])
    assert written[2] == [late | {"transactionalId": "t"}]
    assert msgspec.convert(written[5], list[Record]) == [GroupRecord(GroupMetadataKey("g"))]


def test_group_without_a_type_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upgrades.STEPS, 3, dict)
    with pytest.raises(KeyError):
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
