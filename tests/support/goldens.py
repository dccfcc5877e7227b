"""Recorded comparisons: a real broker's responses, used in every run.

A test that compares with a real broker sends to it through a `Tape`. Environment variable
`GOLDENS`:

    (not set)   responses come from `tests/goldens/<name>.json.gz`; no Java
    record      a real broker responds, and the file is written
    compare     a real broker responds, and nothing is written

A golden has the Kafka version, the settings, the exchanges by track (one for each client thread),
and a hash of all requests. A request that differs from the recorded one means that the scenario has
changed: record it again with `make record NAME=<name>`.
"""

import ast
import base64
import gzip
import hashlib
import inspect
import io
import json
import os
import textwrap
import time
import tokenize
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar, cast

from brokertwin.clients.io.blocking import BlockingConnection
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import now_ms
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.bodies import request_body
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S

T = TypeVar("T")

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODE = os.environ.get("GOLDENS", "")
IS_LIVE = MODE in ("record", "compare")
"""Whether a real broker is used."""

IS_RECORDING = MODE == "record"
FORMAT = 1
POLLS_MAX = 1000
"""Maximum repetitions of a response in a track; more polls fail."""
WRITTEN_MS = 1_793_491_200_000
"""The time of records in scenarios: 2026-11-01, in ms since 1970."""

KEEPING = {"log.retention.ms": "-1"}
"""Settings with which real brokers keep records of that time."""

REPEATS = 4
"""Maximum repetitions of an exchange in a recording; polling repeats one for seconds."""

NOWHERE = Address("no-real-broker.invalid", 1)


class GoldenError(AssertionError):
    """A golden is missing, damaged, or belongs to another scenario."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{path_of(name)}: {what}. Record again: make record NAME={name}")


def path_of(name: str) -> Path:
    return GOLDENS / f"{name}.json.gz"


class Connection(Protocol):
    """The common interface of `Client` and `BlockingConnection`."""

    def call(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """Send a request and return the response's body."""

    def close(self) -> None:
        """Close the connection."""


def connection_to(address: Address) -> BlockingConnection:
    return BlockingConnection(address, lambda: time.monotonic() + PATIENCE_S, "tester")


class TapedConnection(Client):
    """A connection to a real broker, or its recording."""

    def __init__(self, track: "Track", live: Connection | None) -> None:
        self._track, self._live = track, live
        self._sent: list[Any] = []

    def call(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> Any:
        body = request_body(api, version, body, fields)

        def send() -> Any:
            assert self._live is not None
            return self._live.call(api, version, body)

        return self._track.response([api, version, body], send)

    @property
    def live(self) -> Connection:
        """The connection to the real broker, whose calls are not recorded."""
        assert self._live is not None, "no real broker is asked"
        return self._live

    def on(self, track: "Track") -> "TapedConnection":
        """Return the same connection, recorded on another track."""
        return TapedConnection(track, self._live)

    def send(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> int:
        """Send a request whose response is received later; returns 0."""
        body = request_body(api, version, body, fields)
        self._sent = [api, version, body]
        if self._live is not None:
            self._raw().send(api, version, body)
        return 0

    def receive(self) -> bytes:
        return self._track.response(["receive", *self._sent], lambda: self._raw().receive())

    def is_silent(self, for_s: float) -> bool:
        requests = ["is silent", for_s, *self._sent]
        return self._track.response(requests, lambda: self._raw().is_silent(for_s))

    def _raw(self) -> Client:
        return cast(Client, self._live)

    def close(self) -> None:
        if self._live is not None:
            self._live.close()


class Track:
    """The exchanges of one thread with a real broker, in order.

    Args:
        golden: the golden's name, for errors.
        exchanges: the recorded pairs of request and response; empty while recording.
    """

    def __init__(self, golden: str, exchanges: list[list[Any]]) -> None:
        self.exchanges = exchanges
        self._golden = golden
        self._at = 0
        self._polls = 0

    def response(self, request: object, send: Callable[[], T]) -> T:
        """Return the real broker's response to a request.

        A request that repeats the former one polls: it may come more or fewer times than in the
        recording, and then gets the last response of its run.

        Args:
            request: everything that the response depends on.
            send: sends to the real broker; called only if there is one.

        Raises:
            GoldenError: the recording has another request here.
        """
        if IS_LIVE:
            response = send()
            exchange = [packed(request), packed(response)]
            if self.exchanges[-REPEATS:] != [exchange] * REPEATS:
                self.exchanges.append(exchange)
            return response
        wanted = packed(request)
        last = self.exchanges[self._at - 1] if self._at else None
        at = self._at
        while at < len(self.exchanges) and self.exchanges[at][0] != wanted:
            if last is None or self.exchanges[at][0] != last[0]:
                break
            at += 1  # the recording polled more often
        if at < len(self.exchanges) and self.exchanges[at][0] == wanted:
            self._at = at + 1
            return cast(T, unpacked(self.exchanges[at][1]))
        if last is not None and last[0] == wanted and self._polls < POLLS_MAX:
            self._polls += 1
            return cast(T, unpacked(last[1]))  # the recording polled less often
        there = self.exchanges[at][0] if at < len(self.exchanges) else "the end"
        raise GoldenError(
            self._golden, f"the scenario has changed: exchange {at} is {there}, not {wanted}"
        )

    def connection(self, connect: Callable[[], Connection]) -> "TapedConnection":
        """Return a connection to the real broker whose calls are recorded on this track."""
        return TapedConnection(self, connect() if IS_LIVE else None)

    def drawn(self, name: str, draw: Callable[[], T]) -> T:
        """Return a value that a recording keeps: a time, a random name, an id."""
        return self.response(["drawn", name], draw)

    def clock(self) -> tuple[int, Callable[[], int]]:
        """Return when the recording began, in ms, and a clock that starts with that time."""
        now = now_ms()
        began = self.drawn("now", lambda: now)
        return began, lambda: now_ms() - now + began


class Tape(Track):
    """A recording with one track, and more for other threads.

    Attributes:
        tracks: the tracks by name; the tape itself is the one with the empty name.
    """

    def __init__(self, golden: str, tracks: dict[str, list[list[Any]]]) -> None:
        super().__init__(golden, tracks.setdefault("", []))
        self.tracks = tracks

    def track(self, name: str) -> Track:
        return Track(self._golden, self.tracks.setdefault(name, []))

    def hash(self) -> str:
        request = {name: [each[0] for each in track] for name, track in self.tracks.items()}
        return hashlib.sha256(_json(request)).hexdigest()


@contextmanager
def tape(name: str, settings: Mapping[str, object] | None = None) -> Iterator[Tape]:
    """Open a golden; when recording, write it at the end unless the test failed.

    Args:
        name: `<subject>/<name>`, the path below `tests/goldens` without suffixes.
        settings: the real broker's settings; a change of them needs a new recording.

    Raises:
        GoldenError: the golden is missing or damaged, or has other settings.
    """
    given = packed(dict(settings or {}))
    found = Tape(name, {}) if IS_LIVE else _read(name, given)
    yield found
    if IS_RECORDING:
        _write(name, given, found)


@contextmanager
def real_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Address]:
    """Start a real broker if one is used; otherwise yield an unused address."""
    kept = {**KEEPING, **(settings or {})}
    with started(EmbeddedKafka(directory, default_home()), kept) as address:
        yield address


@contextmanager
def started(broker: EmbeddedKafka, settings: Mapping[str, str] | None = None) -> Iterator[Address]:
    """Like `real_broker`, for a broker of the test's own, without `KEEPING`."""
    if not IS_LIVE:
        yield NOWHERE
        return
    try:
        host, _, port = broker.start(settings).rpartition(":")
        yield Address(host, int(port))
    finally:
        broker.stop()


def properties_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a real broker with these settings has, for a gateway beside it."""
    with TemporaryDirectory() as home:
        broker = EmbeddedKafka(Path(home), default_home())
        broker._write_properties({**KEEPING, **settings})
        return properties.read(Path(home) / "server.properties")


def golden(
    name: str,
    send: Callable[[], T],
    *,
    scenario: object = None,
    settings: Mapping[str, object] | None = None,
) -> T:
    """Return the result of a whole scenario with a real broker, as one value.

    Args:
        name: `<subject>/<name>`.
        send: starts a real broker, plays the scenario and returns normalised responses.
        scenario: the scenario's data; if it changes the golden has to be recorded again.
        settings: the real broker's settings.
    """
    with tape(name, settings) as recording:
        return recording.response(scenario, send)


def source_of(*parts: Callable[..., Any] | type) -> str:
    """Return a hash of the functions and classes that play a scenario.

    Docstrings and comments do not count, so that they can be rewritten without a new recording.
    """
    code = "".join(code_of(textwrap.dedent(inspect.getsource(each))) for each in parts)
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def code_of(source: str) -> str:
    """Return source text without docstrings, comments and blank lines."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(each.rstrip() for each in lines if each.strip())


def _read(name: str, settings: object) -> Tape:
    path = path_of(name)
    if not path.is_file():
        raise GoldenError(name, "there is no recording")
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        found = Tape(name, document["tracks"])
        is_whole = document["format"] == FORMAT and document["scenario"] == found.hash()
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise GoldenError(name, f"the recording is damaged ({error})") from None
    if not is_whole:
        raise GoldenError(name, "the recording is damaged (its hash differs)")
    if document["settings"] != settings:
        raise GoldenError(name, "the settings have changed")
    return found


def _write(name: str, settings: object, recorded: Tape) -> None:
    path = path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "format": FORMAT,
        "name": name,
        "kafka": KAFKA_VERSION,
        "settings": settings,
        "scenario": recorded.hash(),
        "tracks": recorded.tracks,
    }
    path.write_bytes(gzip.compress(_json(document, is_sorted=False), mtime=0))


def _json(document: object, is_sorted: bool = True) -> bytes:
    """Return a document as JSON; responses keep the order of their maps, which may count."""
    return json.dumps(document, sort_keys=is_sorted, separators=(",", ":")).encode()


def packed(value: Any) -> Any:
    """Return a value as JSON has it, without loss of Python's types."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int | str):
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, uuid.UUID):
        return {"$uuid": str(value)}
    if isinstance(value, list):
        return [packed(each) for each in value]
    if isinstance(value, tuple):
        return {"$tuple": [packed(each) for each in value]}
    if isinstance(value, set | frozenset):
        return {"$set": sorted((packed(each) for each in value), key=_json)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: packed(each) for key, each in value.items()}
        return {"$map": [[packed(key), packed(each)] for key, each in value.items()]}
    raise TypeError(f"a golden has no form for {type(value).__name__}: {value!r}")


def unpacked(value: Any) -> Any:
    """Return the value that `packed` was given; named tuples come back as tuples."""
    if isinstance(value, list):
        return [unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, inner),) = value.items()
        if kind in _FORMS:
            return _FORMS[kind](inner)
    return {key: unpacked(each) for key, each in value.items()}


_FORMS: dict[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$uuid": uuid.UUID,
    "$tuple": lambda inner: tuple(unpacked(each) for each in inner),
    "$set": lambda inner: {unpacked(each) for each in inner},
    "$map": lambda inner: {unpacked(key): unpacked(each) for key, each in inner},
}
