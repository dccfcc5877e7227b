"""Rows of `__consumer_offsets` as Kafka's own classes read them.

`GroupRows.java` beside this file drives them, from the jars.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from brokertwin.cli.options import client_of
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalRows
from brokertwin.kafka_io import jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.offsets import group_offsets
from brokertwin.settings import default_home
from brokertwin.state.core.records import Record
from brokertwin.state.groups import group_rows
from tests.support.goldens import Track

DRIVER = Path(__file__).with_name("GroupRows.java")

Row = tuple[bytes, bytes | None]

DRAWN = frozenset(
    {"commitTimestamp", "assignmentTimestamp", "metadataHash", "timestamp", "version"}
)
"""Fields whose values are a broker's own: times, a hash, the metadata image's version."""

_DRAWN_ID = re.compile(rb"tester-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Read(NamedTuple):
    """A row that Kafka has read.

    Attributes:
        again: the bytes that Kafka writes for it.
        kind: the class of its key.
        value: the fields of its value; None of a tombstone.
    """

    again: Row
    kind: str
    value: dict[str, Any] | None


def read_by_kafka(rows: Iterable[Row]) -> list[Read]:
    """What Kafka's classes find in rows, in their order."""
    lines = [key.hex() + (f" {value.hex()}" if value is not None else "") for key, value in rows]
    class_path = ":".join(str(jar) for jar in jars.fetch(jars.kafka_jars(), default_home()))
    output = subprocess.run(
        [java_executable(), "-XX:TieredStopAtLevel=1", "-cp", class_path, str(DRIVER)],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return [_read(*line.split("\t")) for line in output.splitlines()]


def _read(again: str, kind: str, output: str) -> Read:
    key, _, value = again.partition(" ")
    row = bytes.fromhex(key), bytes.fromhex(value) if value else None
    return Read(row, kind, json.loads(output))


def comparable(read: Read) -> tuple[bytes, int, dict[str, Any] | None]:
    """A row's key, the version of its value, and its fields without values drawn by each broker.

    Lists that are maps in Kafka, by topic, have one order.
    """
    key, value = read.again
    version = int.from_bytes(value[:2], "big") if value is not None else -1
    fields = read.value and {
        name: _comparable(name, x) for name, x in read.value.items() if name not in DRAWN
    }
    return key, version, fields


def _comparable(name: str, value: Any) -> Any:
    """Replace a time by whether it is set."""
    if name.lower().endswith("timestamp"):
        return value > 0
    return sorted(value, key=str) if isinstance(value, list) else value


@contextmanager
def noted_rows() -> Iterator[list[Row]]:
    """Collect our rows of groups and offsets, with fixed times, hashes and ids."""
    found: list[Row] = []

    def note(_: LocalRows, record: Record) -> None:
        fields = _undrawn("", msgspec.to_builtins(record))
        row = group_rows.encode(msgspec.convert(fields, type(record)))
        if row is not None:
            found.append(_without_drawn(row))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalRows, "of_group", note)
        yield found


def _undrawn(name: object, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undrawn(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_undrawn(name, each) for each in value]
    if name == "metadataHash":
        return 0
    is_time = str(name).lower().endswith("timestamp") and isinstance(value, int)
    return min(value, 1) if is_time else value


def kinds_of_same_rows(
    recording: Track, kafka: Address, rows: list[Row], groups: list[str]
) -> set[int]:
    """Compare the rows of groups with those in a real broker's `__consumer_offsets`.

    Kafka's own classes read both while recording. The recording has our rows that were found to be
    the same.

    Returns:
        The kinds of the rows.
    """
    ours = _rows_of(groups, rows)

    def send() -> list[Row]:
        client = client_of(f"{kafka.host}:{kafka.port}", None)
        real = [(row.key, row.value) for row in group_offsets.rows(client, {})]
        theirs = map(_without_drawn, _rows_of(groups, real))
        own, other = ([*map(comparable, read_by_kafka(side))] for side in (ours, theirs))
        differing = [pair for pair in zip_longest(own, other) if pair[0] != pair[1]]
        assert not differing, f"{len(differing)} rows, ours first: {differing[0]}"
        return ours

    recorded = recording.response(["rows", groups], send)
    changed = [pair for pair in zip(ours, recorded, strict=True) if pair[0] != pair[1]]
    assert not changed, f"record again to have Kafka compare: {changed}"
    return {key[1] for key, _ in ours}


def _rows_of(groups: list[str], rows: list[Row]) -> list[Row]:
    whose = [len(group).to_bytes(2, "big") + group.encode() for group in groups]
    return [row for group in whose for row in rows if row[0].startswith(group, 2)]


def _without_drawn(row: Row) -> Row:
    """Replace the id that a broker draws for a classic member by a fixed one."""
    key, value = row
    return key, value and _DRAWN_ID.sub(b"tester-" + bytes(36), value)
