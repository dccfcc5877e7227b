"""Files of recorded exchanges, read and merged into one history.

A line is one exchange in the shape of Kafka's request log: `{"time", "requestHeader", "request",
"response", "connection", "responseTime", "principal"}`. `time` is when the request arrived, in ms
since 1970; `responseTime` is how many ms later it had been answered. Files ending in `.gz` are
compressed. A line that cannot be read is counted with its reason and left out.

The history is ordered by `time`; ties go by file and line. A connection is never reordered: Kafka
answers its requests one after the other, so its lines are in order whatever their times say.
"""

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from brokerstream.errors import UserError
from brokerstream.state.apis.api_versions import KAFKA_APIS
from brokerstream.state.events import RequestHeader

DURATION_MAX_MS = 86_400_000.0
"""A longer `responseTime` is taken for a mistake."""


class Exchange(msgspec.Struct, frozen=True):
    """A request and what the real broker answered.

    Attributes:
        id: file and line, `orders.jsonl:12`.
        time: when the request arrived, in ms since 1970.
        end: the last ms at which the broker may have answered.
        is_recorded: whether the line has a `response` at all; a null one is an answer (acks 0).
        connection: the file's name for it; with several files the file's name stands before it.
    """

    id: str
    time: int
    end: int
    broker: int
    header: RequestHeader
    request: msgspec.Raw
    response: Any
    is_recorded: bool
    connection: str
    principal: str

    @property
    def api(self) -> str:
        """The name of the API in the request log, or its key where Kafka has no such API."""
        known = KAFKA_APIS.get(self.header.request_api_key)
        return known.name if known is not None else str(self.header.request_api_key)

    @property
    def version(self) -> int:
        """The API version of the request."""
        return self.header.request_api_version

    def body(self) -> Any:
        """The request's body, decoded."""
        return msgspec.json.decode(self.request)


class Broken(NamedTuple):
    """A line that could not be read: where it lies and why."""

    place: str
    reason: str


class Recording(NamedTuple):
    """One history: its exchanges in order, and the lines that were left out."""

    exchanges: list[Exchange]
    broken: list[Broken]


class _Line(msgspec.Struct, rename="camel"):
    time: int
    request_header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    response_time: float = 0.0
    connection: str = ""
    principal: str = "User:ANONYMOUS"
    broker: int = 1


_decoder = msgspec.json.Decoder(_Line)


def read(paths: Sequence[Path]) -> Recording:
    """Read files into one history.

    Raises:
        UserError: a file cannot be read, or none of the lines is an exchange.
    """
    broken: list[Broken] = []
    exchanges: list[Exchange] = []
    for path, name in zip(paths, _names(paths), strict=True):
        exchanges.extend(_read_file(path, name, len(paths) > 1, broken))
    if not exchanges:
        why = f" The first reason: {broken[0].place}: {broken[0].reason}." if broken else ""
        raise UserError(
            "There is no exchange to replay." + why,
            "A line is an exchange as Kafka's request log has it: time, requestHeader, request"
            " and response.",
        )
    return Recording(merge(exchanges), broken)


def merge(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges of several files, each in the order of its lines, as one history."""
    latest: dict[str, int] = {}
    keyed = []
    for place, exchange in enumerate(exchanges):
        time = max(exchange.time, latest.get(exchange.connection, exchange.time))
        latest[exchange.connection] = time
        keyed.append((time, place, exchange))
    keyed.sort(key=lambda entry: entry[:2])
    return [
        exchange
        if exchange.time == time
        else msgspec.structs.replace(exchange, time=time, end=max(exchange.end, time))
        for time, _, exchange in keyed
    ]


def _names(paths: Sequence[Path]) -> list[str]:
    """A name for each file, unique, and the same for a file and its compressed copy."""
    names = [path.name.removesuffix(".gz") for path in paths]
    counts = Counter(names)
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name}#{seen[name]}" if counts[name] > 1 else name)
    return unique


def _read_file(
    path: Path, name: str, is_qualified: bool, broken: list[Broken]
) -> Iterator[Exchange]:
    try:
        for number, line in enumerate(_lines(path), start=1):
            if not line.strip():
                continue
            try:
                yield _exchange(_decoder.decode(line), name, number, is_qualified)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                broken.append(Broken(f"{name}:{number}", str(error)))
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path} cannot be read: {reason}.") from None


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as file:
            yield from file
    else:
        with path.open("rb") as file:
            yield from file


def _exchange(line: _Line, name: str, number: int, is_qualified: bool) -> Exchange:
    """Raises msgspec.ValidationError for times that cannot be."""
    if not 0 <= line.response_time <= DURATION_MAX_MS:
        raise msgspec.ValidationError(
            f"responseTime is {line.response_time}; it is how many ms the answer took, 0 to a day"
        )
    response = None
    if not isinstance(line.response, msgspec.UnsetType):
        response = msgspec.json.decode(line.response)
    if response is not None and not isinstance(response, dict):
        raise msgspec.ValidationError("Expected `object` or null - at `$.response`")
    return Exchange(
        id=f"{name}:{number}",
        time=line.time,
        # `time` is a whole ms, the answer's is a fraction: the end is the ms after it.
        end=line.time + int(line.response_time) + 1,
        broker=line.broker,
        header=line.request_header,
        request=line.request,
        response=response,
        is_recorded=line.response is not msgspec.UNSET,
        connection=f"{name}/{line.connection}" if is_qualified else line.connection,
        principal=line.principal,
    )
