"""Skips lines of request logs by their bytes, before they are decoded.

A question about one group needs few lines of a log. A line is skipped only if all of this holds:

- it is a whole line in Kafka's default layout, between lines that are complete;
- it is of an API of which only exchanges that name the subject matter, and it does not name it;
- a line before showed the broker of its listener and local address;
- its correlation id is higher than those before on its connection.

What else a skipped line shows is kept: its arrival, which orders the requests of its connection.
The lines with the first and the last moment of the log, the last fetch of each follower, and times
of busy brokers are decoded at the end of the file. If a request comes after a skipped one with a
higher correlation id, `DisorderedError` is raised, and all lines have to be read.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from brokertwin import unpacked
from brokertwin.patterns import later
from brokertwin.protocol.kafka_apis import API_KEYS, FETCH
from brokertwin.recordings.formats.documents import METADATA_LOG, Document
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.order import LAST, ArrivalOrder
from brokertwin.recordings.formats.request_log import DURATION_MAX_MS, ENDS, HEAD, MARK

BUSY_MS = 1.0
"""From this time in its queues on, a request shows that its broker was busy."""

READ_BYTES = 1_000_000
"""Bytes that are searched for a name at a time."""

OF_MEMBERS = (
    *("HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT", "OFFSET_COMMIT", "OFFSET_FETCH"),
    *("JOIN_GROUP", "SYNC_GROUP", "LEAVE_GROUP", "LIST_OFFSETS"),
)
OF_PRODUCERS = ("END_TXN", "ADD_PARTITIONS_TO_TXN")

_HEAD = later(
    HEAD.pattern + rb"(?:\"isForwarded\":false,)?\"requestHeader\":"
    rb"\{\"requestApiKey\":(\d+),\"requestApiVersion\":\d+,\"correlationId\":(\d+),"
)
"""Minute, second, ms, API key, correlation id."""

_CONNECTION = b'"connection":"'
_FLOAT = rb"(\d+(?:\.\d+)?(?:E-?\d+)?)"
_TAIL = later(
    rb"\"connection\":\"(([^\"\\-]+)-[^\"\\]+)\",\"totalTimeMs\":" + _FLOAT
    + rb",\"requestQueueTimeMs\":" + _FLOAT + rb",\"localTimeMs\":" + _FLOAT
    + rb",\"remoteTimeMs\":[\d.E-]+,\"throttleTimeMs\":\d+,\"responseQueueTimeMs\":" + _FLOAT
    + rb",\"sendTimeMs\":" + _FLOAT + rb","
)  # fmt: skip
"""Connection, its local address, and times of the stages."""

_LISTENER = b'"listener":"'
_FETCH = b"%d" % FETCH.key
_REQUEST = b'"request":{'
_REPLICA = later(rb"(?:\"replicaState\":\{)?\"replicaId\":(-?\d+)")
_PLAIN = later(r"[\w.:@+ -]+", re.ASCII)


class NeededLines(NamedTuple):
    """The lines that a question needs.

    Attributes:
        names: texts of the lines that are needed in any case.
        skipped: API keys of the lines that are not needed without them.
    """

    names: tuple[bytes, ...]
    skipped: frozenset[int]

    @classmethod
    def of(cls, names: Iterable[str], apis: Iterable[str]) -> "NeededLines | None":
        """The lines with one of these names; None if JSON may write a name in another way."""
        names = sorted(set(names))
        if not names or not all(_PLAIN.fullmatch(name) for name in names):
            return None
        skipped = frozenset(API_KEYS[api] for api in ("PRODUCE", "FETCH", *apis))
        return cls(tuple(f'"{name}"'.encode() for name in names), skipped)


def names_beside(paths: Iterable[Path], name: str, fields: Sequence[str]) -> set[str]:
    """Names in the lines that have a name, found by their bytes without decoding them.

    What a timeline shows may have other names; these spare a reading of all lines to find them.

    Args:
        paths: the files. Of one that cannot be read, the names up to there are returned.
        name: the name.
        fields: fields with such names; the id of a topic of this name is one, too.
    """
    quoted = b'"%s"' % name.encode()
    ids = rb"(?<=\"name\":%s,\"topicId\":\")[\w-]{22}(?=\")" % re.escape(quoted)
    values = rb"|".join(rb"(?<=\"%s\":\")[\w.:@+ -]+(?=\")" % each.encode() for each in fields)
    pattern = later(ids + b"|" + values)
    found: set[bytes] = set()
    for path in paths:
        with suppress(*unpacked.ERRORS), path.open("rb") as raw:
            for _, stream in unpacked.members(raw, lambda: None):
                left = b""
                while data := stream.read(READ_BYTES):
                    text = left + data
                    at, end = text.find(quoted), text.rfind(b"\n") + 1
                    while 0 <= at < end:
                        line_end = text.index(b"\n", at)
                        found |= {*pattern.findall(text, text.rfind(b"\n", 0, at) + 1, line_end)}
                        at = text.find(quoted, line_end)
                    left = text[end:]
                    if len(left) > unpacked.LINE_BYTES_MAX:
                        left = b""
    return {each.decode() for each in found}


class DisorderedError(Exception):
    """The requests of a connection are not in their order, so no line may be skipped."""


class Reader(Protocol):
    @property
    def is_between_entries(self) -> bool:
        """Whether no line before is incomplete."""

    def time_of(self, minute: bytes, ms: int) -> int | None:
        """The time of a line in the default layout, in ms since 1970; None if it has none."""


class _Late(NamedTuple):
    """A line that is decoded at the end of its file."""

    value: float
    line: SourceLine
    time: int
    arrival: int


class Prefilter:
    """Skips lines of files that are read in one run."""

    def __init__(self, needed: NeededLines) -> None:
        self._names = needed.names
        self._skipped = {b"%d" % key for key in needed.skipped}
        self._arrivals = ArrivalOrder()
        self._numbers: dict[str, int] = {}
        self._skipped_numbers: dict[str, int] = {}
        self._brokers: dict[tuple[bytes, bytes], int] = {}
        self._late: dict[tuple[object, ...], _Late] = {}
        self._arrived: dict[str, _Late] = {}

    def lines(
        self, lines: Iterable[SourceLine], reader: Reader, on_skipped: Callable[[], None]
    ) -> Iterator[SourceLine]:
        """Yield the lines of a file that are needed, then those that show something else."""
        self._brokers.clear()
        for line in lines:
            if not self._skips(line, reader):
                yield line
            else:
                on_skipped()
        late = {each.line.number: each for each in self._late.values()}
        self._late.clear()
        for _, each in sorted(late.items()):
            self._arrived[each.line.place] = each
            yield each.line

    def take(self, document: Document) -> None:
        """Note a document in line order, and set its arrival."""
        late = self._arrived.pop(document.place, None)
        if late is not None:
            document.time, document.arrival = late.time, late.arrival
            return
        connection = document.connection
        if document.is_from_log and document.broker is not None:
            listener = bytes(document.rest.get("listener", b"")).strip(b'"')
            local = connection.partition("-")[0].encode()
            self._brokers.setdefault((local, listener), document.broker)
            connection = f"{document.broker}/{connection}"
        number = document.header.correlation_id if document.is_request else LAST
        if number <= self._skipped_numbers.get(connection, -1):
            raise DisorderedError(connection)
        self._numbers[connection] = max(number, self._numbers.get(connection, -1))
        document.arrival = self._arrivals.time(connection, document.time, number)

    def _skips(self, line: SourceLine, reader: Reader) -> bool:
        text = line.text
        head = _HEAD.match(text)
        if head is None:
            return False
        minute, seconds, fraction, api, number_text = head.groups()
        if api not in self._skipped or not text.endswith(ENDS):
            return False
        for name in self._names:
            if name in text:
                return False
        tail = _TAIL.match(text, text.rfind(_CONNECTION))
        if tail is None or text.find(MARK, head.end()) >= 0 or not reader.is_between_entries:
            return False
        name, local_address, *stages = tail.groups()
        begin = text.find(_LISTENER, tail.end()) + len(_LISTENER)
        broker = self._brokers.get((local_address, text[begin : text.find(b'"', begin)]))
        is_fetch = api == _FETCH
        if broker is None or (is_fetch and any(each in text for each in METADATA_LOG)):
            return False
        total, queued, local, answered, sending = map(float, stages)
        if total > DURATION_MAX_MS:
            return False
        connection, number = f"{broker}/{name.decode()}", int(number_text)
        if number <= self._numbers.get(connection, -1):
            return False
        sent = reader.time_of(minute, int(seconds) * 1000 + int(fraction))
        if sent is None:
            return False
        self._numbers[connection] = self._skipped_numbers[connection] = number
        time = sent - math.ceil(total)
        arrival = self._arrivals.time(connection, time, number)
        self._keep(("first", broker), -arrival, line, time, arrival)
        self._keep(("last", broker), max(time + int(total) + 1, arrival), line, time, arrival)
        taken = sent - total + queued
        busy = queued + (local if is_fetch else 0) + answered + sending
        if busy > BUSY_MS:
            made = max(taken, sent - answered - sending)
            self._keep(("busy", broker, int(made // 1000)), busy, line, time, arrival)
        if is_fetch:
            request = text.find(_REQUEST, head.end()) + len(_REQUEST)
            replica = _REPLICA.match(text, request)
            if replica is not None and replica[1] != b"-1":
                self._keep((replica[1], connection), taken, line, time, arrival)
        return True

    def _keep(
        self, key: tuple[object, ...], value: float, line: SourceLine, time: int, arrival: int
    ) -> None:
        former = self._late.get(key)
        if former is None or former.value < value:
            self._late[key] = _Late(value, line, time, arrival)
