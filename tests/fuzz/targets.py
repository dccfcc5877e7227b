"""Readers of foreign bytes: seeds of each reader, and its declared exceptions."""

import contextlib
import gzip
import random
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple
from unittest import mock

import msgspec
from crc32c import crc32c

from brokertwin.errors import UserError
from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.placement import Placement
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.frames import RequestFrame, decode_request, encode_request
from brokertwin.protocol.primitives import MalformedError
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.one_pass import pass_over
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.pipeline import FileReading, read_lines
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.state.cell.cell import STATE_VERSION, Cell, state_columns
from brokertwin.state.configs import broker_config
from brokertwin.state.configs.broker_config import UnknownSettingError
from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.state.core import layers, outputs
from brokertwin.state.core.events import Reason
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.streaming.checkpoint import state_reader, store_files, store_writer
from brokertwin.streaming.job.edge import JobEdge
from brokertwin.tables import stored_states
from tests.fuzz.mutations import changed, changed_document, changed_shape
from tests.support.batches import CODECS, batch
from tests.support.jobs import CAPTURES, capture
from tests.support.requestlogs import REQUEST_LOGS
from tests.support.sources import ROOT
from tests.support.state_items import something_of_every_kind

EVENTS_OF_A_CELL = 400
"""So many events go to a cell before a new one takes its place."""

LINE_BYTES_MAX = 20_000
CELL = "fuzzed"
START = 1_700_000_000_000
EXAMPLES = ROOT / "checkpoints.example"


class Target(NamedTuple):
    """A reader.

    Attributes:
        seeds: real inputs of it.
        reader: returns a function that reads one and raises if the input shows a fault.
        change: makes an input of two seeds.
    """

    seeds: Callable[[], list[bytes]]
    reader: Callable[[], Callable[[bytes], None]]
    change: Callable[[bytes, bytes, random.Random], bytes] = changed


# -- frames, record batches


@cache
def frames() -> list[bytes]:
    """Requests of captures, of any API that is served, as clients wrote them."""
    actual: dict[tuple[int | str, int | None], bytes] = {}
    for file in sorted(CAPTURES.glob("*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            document = msgspec.json.decode(line)
            if "requestHeader" not in document:
                continue  # the end of a connection
            header = document["requestHeader"]
            place = header["requestApiKey"], header["requestApiVersion"]
            if header["requestApiKey"] in SERVED and place not in actual:
                with contextlib.suppress(Exception):  # a body as events have it: without bytes
                    actual[place] = encode_request(RequestFrame(header, document["request"]))
    return list(actual.values())


def read_frame(data: bytes) -> None:
    """A frame is a request or malformed; a request can be written again."""
    with contextlib.suppress(MalformedError):
        decode_request(data)


@cache
def batches() -> list[bytes]:
    values = [b"", b"x", b"some value", bytes(300)]
    return [batch(*values * 5, codec=codec) for codec in CODECS] + [batch(b"one", b"two")]


def read_batch(data: bytes) -> None:
    """It never raises; half of the inputs get a true CRC, so that their records are looked at."""
    if len(data) > records.CHECKED_FROM and data[-1] % 2:
        made = bytearray(data)
        made[16] = records.MAGIC
        struct.pack_into(">i", made, 8, len(made) - records.LOG_OVERHEAD)
        struct.pack_into(">I", made, 17, crc32c(bytes(made[records.CHECKED_FROM :])))
        data = bytes(made)
    records.parse(data)


# -- events


@cache
def events() -> list[bytes]:
    """An event of each API and version of the captures, as `send` makes them, and an end."""
    placed = Placement(CELL, [1], [CELL], 1, 1)
    found: dict[tuple[int | str, int | None], bytes] = {}
    for file in sorted(CAPTURES.glob("*.jsonl.gz")):
        edge = JobEdge({CELL: placed}, CELL, None, lambda: START)
        for event in capture(file.name.removesuffix(".jsonl.gz"), edge):
            decoded = msgspec.json.decode(event.document)
            header = decoded.get("requestHeader", {"requestApiKey": decoded.get("kind")})
            place = header["requestApiKey"], header.get("requestApiVersion")
            found.setdefault(place, event.document)
    return list(found.values())


class Events:
    """Hand events to a cell, which keeps its state between them."""

    def __init__(self) -> None:
        self._settings = CellSettings(
            name=CELL, cluster=CELL, brokers=[1], broker_settings=BrokerSettings()
        )
        self._count = 0
        self._cell = Cell(self._settings)

    def read(self, data: bytes) -> None:
        """An event is answered, waits, or becomes a dead letter, and none of them is a fault."""
        if self._count % EVENTS_OF_A_CELL == 0:
            self._cell = Cell(self._settings)
        self._count += 1
        position = Position(0, self._count, START + self._count, CELL.encode())
        for row in self._cell.handle(data, position):
            if row.topic == outputs.DEAD_LETTERS:
                letter = msgspec.json.decode(row.value or b"")
                assert letter["reason"] != Reason.FAULT, letter


# -- request logs


@cache
def log_lines() -> list[bytes]:
    files = [*sorted(REQUEST_LOGS.rglob("*.log.gz")), *sorted(CAPTURES.glob("*.jsonl.gz"))]
    found: list[bytes] = []
    for file in files:
        lines = [line for line in gzip.decompress(file.read_bytes()).splitlines() if line.strip()]
        found += lines[:: max(len(lines) // 12, 1)]
    return [line for line in found if len(line) < LINE_BYTES_MAX]


def read_log(data: bytes) -> None:
    """Each line is in a document or is left; a document can be written."""
    lines = (
        SourceLine("any.log", number, text) for number, text in enumerate(data.splitlines(), 1)
    )
    filled = (line for line in lines if line.text.strip())
    for made in FormatReader(Origin("any.log")).read(filled, True):
        if isinstance(made, Document):
            made.encoded()


@cache
def exchanges() -> list[bytes]:
    return [line for line in log_lines() if b"Completed request:{" in line]


def changed_exchange(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """Two lines of a request log; the second one has a body of another shape."""
    return other + b"\n" + changed_shape(data, draw)


def audit(data: bytes) -> None:
    """A body of any shape is damaged, or no audit raises because of it."""
    lines = [SourceLine("any.log", number, text) for number, text in enumerate(data.splitlines())]
    with contextlib.suppress(UserError):  # no line is an exchange
        passed = pass_over(partial(read_lines, lines, "any.log", FileReading(broker=1)))
        findings(passed.history)


# -- checkpoints


@cache
def changelogs() -> list[bytes]:
    return [file.read_bytes() for file in sorted(EXAMPLES.rglob("*.changelog"))]


def read_changelog(data: bytes) -> None:
    """The state store's changes, or why they cannot be read."""
    with contextlib.suppress(store_files.NotReadable):
        for _, value in store_files.changes(data):
            if value is not None:
                with contextlib.suppress(struct.error):  # `read_states` explains it
                    store_files.state_of(value)


@cache
def state_rows() -> list[bytes]:
    """Rows of a cell's state as a micro-batch leaves them: small columns, and those in layers."""
    columns = something_of_every_kind().cell.columns()
    large = {**columns, **{name: in_layers(columns[name]) for name in ("logs", "metadata")}}
    return [
        store_writer.state_row(STATE_VERSION, [each[name] for name in state_columns()])
        for each in (columns, large)
    ]


def in_layers(column: bytes) -> bytes:
    """A column whose first item has gone since its base, and whose second has changed."""
    items = layers.read_items(column)
    first, second, *_ = items
    with mock.patch.object(layers, "LAYERED_BYTES", 0):
        whole = msgspec.msgpack.decode(layers.stored(items, None, ()), type=layers.LayeredColumn)
        items.pop(first)
        return layers.stored(items, layers.Base(whole.base), [first, second])


def read_state_row(data: bytes) -> None:
    with contextlib.suppress(store_files.NotReadable, UserError):
        stored_states.in_this_version("the checkpoint", {CELL: state_reader.of_row(data)})


# -- settings


@cache
def property_files() -> list[bytes]:
    files = [*ROOT.glob("tests/**/*.properties"), *ROOT.glob("examples/**/*.properties")]
    return [file.read_bytes() for file in sorted(files)]


def read_properties(data: bytes) -> None:
    """A file is what Java would read, or refused; so are the settings in it."""
    with contextlib.suppress(ValueError, UnknownSettingError, InvalidConfigError):
        broker_config.parse(properties.parse(data.decode("utf-8")))


TARGETS = {
    "frames": Target(frames, lambda: read_frame),
    "batches": Target(batches, lambda: read_batch),
    "events": Target(events, lambda: Events().read, changed_document),
    "request-logs": Target(log_lines, lambda: read_log),
    "bodies": Target(exchanges, lambda: audit, changed_exchange),
    "checkpoints": Target(changelogs, lambda: read_changelog),
    "state-rows": Target(state_rows, lambda: read_state_row),
    "properties": Target(property_files, lambda: read_properties),
}
