"""First lines of a compacted journal: a cell's state instead of its events.

{"snapshot": …}     version of the state, and number of the following lines
{"table": …}        a table of the cell: column, zlib, base64
{"kept": …}         batches of a log: last offset and locator of each
{"sealed": …}       a sealed segment of a log's index
{"settings": …}     settings of the cell, as in any journal
"""

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.records.batch_store import KeptBatch, LogKey
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.cell.upgrades import can_upgrade, upgraded
from brokertwin.state.core import layers
from brokertwin.state.core.settings import CellSettings

HEAD = b'{"snapshot"'
"""Beginning of the first line, and of no other."""

COMPRESSION_LEVEL = 1
_DAMAGED = "Restore the journal from a backup, or pass another --journal."

SegmentKey = tuple[str, int, int]
"""Topic id, partition, base offset."""


class EngineSnapshot(NamedTuple):
    """State of the local engine between two events; `events` counts those before."""

    events: int
    columns: Mapping[str, bytes]
    kept: list[tuple[LogKey, list[KeptBatch]]]
    sealed: dict[SegmentKey, Any]
    settings: CellSettings


class _Head(msgspec.Struct):
    version: int
    events: int
    lines: int


class _SnapshotLine(msgspec.Struct, omit_defaults=True):
    snapshot: _Head | None = None
    table: tuple[str, str] | None = None
    kept: tuple[LogKey, list[KeptBatch]] | None = None
    sealed: tuple[SegmentKey, Any] | None = None
    settings: CellSettings | None = None


_decoder = msgspec.json.Decoder(_SnapshotLine)
_encode = msgspec.json.encode


def documents(snapshot: EngineSnapshot) -> Iterator[bytes]:
    lines = len(snapshot.columns) + len(snapshot.kept) + len(snapshot.sealed) + 1
    yield _encode(_SnapshotLine(snapshot=_Head(STATE_VERSION, snapshot.events, lines)))
    for name, column in snapshot.columns.items():
        packed = base64.b64encode(zlib.compress(column, COMPRESSION_LEVEL))
        yield _encode(_SnapshotLine(table=(name, packed.decode())))
    for of_log in snapshot.kept:
        yield _encode(_SnapshotLine(kept=of_log))
    for key, batches in snapshot.sealed.items():
        yield _encode(_SnapshotLine(sealed=(key, batches)))
    yield _encode({"settings": msgspec.to_builtins(snapshot.settings)})


def read(first: bytes, following: Callable[[], bytes | None]) -> EngineSnapshot:
    """Read a snapshot with first line `first`; `following` returns the next lines.

    Raises:
        UserError: it is incomplete, or its version is unsupported.
    """
    head = _line(first).snapshot
    assert head is not None, "the caller checked the first line"
    if head.version > STATE_VERSION or not can_upgrade(head.version):
        raise UserError(
            f"The journal has a snapshot of version {head.version}, but this brokertwin supports"
            f" up to {STATE_VERSION}.",
            "Use the brokertwin that wrote it.",
        )
    columns: dict[str, bytes] = {}
    kept, sealed = [], {}
    settings = None
    for _ in range(head.lines):
        document = following()
        if document is None:
            raise UserError("The snapshot in the journal is incomplete.", _DAMAGED)
        line = _line(document)
        if line.table is not None:
            columns[line.table[0]] = _column(line.table[1])
        elif line.kept is not None:
            kept.append(line.kept)
        elif line.sealed is not None:
            sealed[line.sealed[0]] = line.sealed[1]
        else:
            settings = line.settings
    found = upgraded(head.version, columns)
    if isinstance(found, str) or settings is None:
        reason = found if isinstance(found, str) else "has no settings"
        raise UserError(f"The snapshot in the journal {reason}.", _DAMAGED)
    return EngineSnapshot(head.events, found, kept, sealed, settings)


def _column(packed: str) -> bytes:
    try:
        return layers.flat(zlib.decompress(base64.b64decode(packed)))
    except (ValueError, zlib.error, layers.DamagedError) as error:
        raise UserError(f"The snapshot in the journal is damaged: {error}.", _DAMAGED) from None


def _line(document: bytes) -> _SnapshotLine:
    try:
        return _decoder.decode(document)
    except msgspec.MsgspecError as error:
        raise UserError(
            f"The snapshot in the journal is not readable: {error}.", _DAMAGED
        ) from None
