"""Sources of committed offsets: a directory of imports, a cluster, or a file.

A CSV file has the columns of `kafka-consumer-groups --from-file` (KIP-122).
"""

import csv
import io
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from brokertwin import unpacked
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.offsets import group_offsets
from brokertwin.offsets.history import CoordinatorRow, OffsetHistory, OffsetMove, is_of
from brokertwin.offsets.pasted import PastedOffsets
from brokertwin.sinks.files import replacing
from brokertwin.state.groups.offset_records import OffsetKey
from brokertwin.wording import counted

COLUMNS = ("group", "topic", "partition", "offset")
"""Columns of a CSV file without header, as `kafka-consumer-groups --from-file` has (KIP-122)."""

NAMES = {
    "group": ("group", "group-id", "groupid", "consumer-group", "consumergroup"),
    "topic": ("topic", "topic-name"),
    "partition": ("partition", "partition-id"),
    "offset": ("offset", "current-offset", "committed-offset", "group-offset"),
}
"""Names of these columns in files with a header, in lower case."""

WITHOUT_GROUP = COLUMNS[1:]
"""Columns of a file of one group, as `kafka-consumer-groups --export` can write it (KIP-122)."""

CSV = ".csv"
STANDARD_INPUT = "-"
PIECE_BYTES = 1024 * 1024
LINE_BYTES_MAX = 8 * 1024 * 1024
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
UNREAD_SHOWN = 3

Observe = Callable[[int], None]
"""Receives the number of offsets to read, first in total, then remaining."""


def _without_progress(_title: str) -> AbstractContextManager[Observe]:
    return nullcontext(lambda _: None)


class OffsetSource(NamedTuple):
    """A directory of `offsets import`, a file, or a cluster's address.

    Attributes:
        text: the path or address.
        connect: returns the connection properties for an address.
        warn: receives a sentence for each thing that could not be read.
        progress: shows the progress of a slow step with this title.
    """

    text: str
    connect: Callable[[str], ClientProperties]
    warn: Callable[[str], None]
    progress: Callable[[str], AbstractContextManager[Observe]] = _without_progress

    @property
    def is_csv(self) -> bool:
        return self.text.endswith(CSV)

    @property
    def is_pasted(self) -> bool:
        """True for the output of another tool: a file, or standard input."""
        path = Path(self.text)
        is_file = not self.is_csv and path.exists() and not path.is_dir()
        return self.text == STANDARD_INPUT or is_file

    @property
    def is_cluster(self) -> bool:
        return not (self.is_csv or Path(self.text).exists()) and ":" in self.text

    def cluster_id(self) -> str | None:
        """The cluster whose offsets they are; None for a file, which does not say it."""
        if self.is_cluster:
            return group_offsets.cluster_id(self.connect(self.text))
        if not Path(self.text).is_dir():
            return None
        from brokertwin.offsets.store import OffsetHistoryStore

        facts = OffsetHistoryStore(Path(self.text)).facts()
        return facts.cluster.partition("/")[0] if facts is not None else None

    def rows(self, groups: Collection[str] = ()) -> Iterator[CoordinatorRow]:
        """Yield the rows of these groups or all rows. Raises UserError."""
        if self.is_csv:
            raise self._without_history()
        if self.is_cluster:
            with self.progress("reading __consumer_offsets") as observe:
                rows = group_offsets.rows(self.connect(self.text), {}, observe)
                yield from (row for row in rows if is_of(row.key, groups))
            return
        if not Path(self.text).exists():
            raise UserError(
                f"{self.text} is neither a file, a directory nor an address.",
                "Pass HOST:PORT, or create a directory with:"
                " brokertwin offsets import HOST:PORT DIR",
            )
        need("Reading a directory of `brokertwin offsets import`", "pyarrow")
        from brokertwin.offsets.store import OffsetHistoryStore

        yield from OffsetHistoryStore(Path(self.text)).rows(groups)

    def moves(
        self, until_ms: int | None = None, groups: Collection[str] = ()
    ) -> Iterator[OffsetMove]:
        """Yield the change of each row of an offset up to a time, of these groups or of all."""
        if self.is_pasted:
            moves = self._pasted_moves(until_ms)
            yield from (move for move in moves if not groups or move.key.group in groups)
            return
        history = OffsetHistory()
        yield from history.read(
            row for row in self.rows(groups) if until_ms is None or row.timestamp <= until_ms
        )
        for warning in unread_warnings("__consumer_offsets", history.unread):
            self.warn(warning)

    def committed(
        self, groups: Collection[str], until_ms: int | None = None
    ) -> dict[OffsetKey, int]:
        """Return the offsets committed at a time, of these groups or of all."""
        if self.is_csv:
            offsets = dict(_of_csv(Path(self.text), groups))
        elif self.is_pasted:
            offsets = self._pasted(groups, until_ms)
        else:
            offsets = {}
            for move in self.moves(until_ms, groups):
                move.note_in(offsets)
        lacking = sorted(set(groups) - {key.group for key in offsets})
        if lacking:
            when = "" if until_ms is None else " at this time"
            raise UserError(
                f"{self.text} has no offsets of the groups {', '.join(lacking)}{when}.",
                f"List all groups with: brokertwin offsets show {self.text}"
                if until_ms is None
                else f"See when each began: brokertwin offsets history {self.text} {lacking[0]}",
            )
        return {key: at for key, at in offsets.items() if not groups or key.group in groups}

    def _pasted_moves(self, until_ms: int | None) -> Iterator[OffsetMove]:
        pasted = PastedOffsets()
        count = yield from self._read_pasted(pasted, until_ms)
        if not count:
            raise self._without_history()

    def _pasted(self, groups: Collection[str], until_ms: int | None) -> dict[OffsetKey, int]:
        """Return the offsets in the output of another tool."""
        pasted = PastedOffsets(next(iter(groups)) if len(groups) == 1 else "")
        offsets: dict[OffsetKey, int] = {}
        for move in self._read_pasted(pasted, until_ms):
            move.note_in(offsets)
        if pasted.described and until_ms is not None:
            raise self._without_history()
        return offsets | pasted.described

    def _read_pasted(
        self, pasted: PastedOffsets, until_ms: int | None
    ) -> Generator[OffsetMove, None, int]:
        """Yield the changes up to a time; returns the number of all changes."""
        count = 0
        lines = _lines(self.text, lambda: self.warn(f"{self.text}: {unpacked.CUT}"))
        for move in pasted.read(lines):
            count += 1
            if until_ms is None or pasted.time <= until_ms:
                yield move
        self._warn_of_unread(pasted, count > 0)
        return count

    def _without_history(self) -> UserError:
        return UserError(
            f"{self.text} has offsets but no history.",
            "Pass the address of a cluster, a directory of `brokertwin offsets import`, or the"
            " output of a tool that prints __consumer_offsets.",
        )

    def _warn_of_unread(self, pasted: PastedOffsets, is_read: bool) -> None:
        """Warn of lines that could not be read. Raises UserError if there is no offset at all."""
        if pasted.unread:
            self.warn(f"{len(pasted.unread)} lines of {self.text} could not be read:")
        for number, why in list(pasted.unread.items())[:UNREAD_SHOWN]:
            self.warn(f"{self.text}:{number}: {why}")
        if not is_read and not pasted.described:
            raise UserError(
                f"{self.text} has no committed offset that can be read.",
                "It may be a directory of `brokertwin offsets import`, a .csv file, or the output"
                " of OffsetsMessageFormatter, `kafka-dump-log --offsets-decoder`, `kcat -J`,"
                " `kafka-consumer-groups --describe`, rpk, kaf, kafkactl, AKHQ or"
                " Burrow.",
            )


def _lines(text: str, on_cut: Callable[[], None]) -> Iterator[str]:
    """The lines of a file, compressed or not, or of standard input. Raises UserError."""
    try:
        with _opened(text) as raw:
            for _, stream in unpacked.members(raw, on_cut):
                for line in _pieces(stream):
                    yield line.decode("utf-8", "replace")
    except unpacked.ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{text} cannot be read: {reason}.") from None


def _opened(text: str) -> AbstractContextManager[io.BufferedReader]:
    if text == STANDARD_INPUT:
        return nullcontext(unpacked.buffered(sys.stdin.buffer))
    return Path(text).open("rb")


def _pieces(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield lines; the formatter of Kafka 4.3 writes documents without any line end."""
    held = b""
    while piece := stream.readline(PIECE_BYTES):
        held += piece
        end = held.rfind(b'}{"') + 1 if held.startswith(b"{") else 0
        if piece.endswith(b"\n"):
            yield held
            held = b""
        elif end:
            yield held[:end]
            held = held[end:]
        elif len(held) > LINE_BYTES_MAX:
            raise ValueError(f"it has a line of more than {LINE_BYTES_MAX >> 20} MiB")
    if held:
        yield held


def unread_warnings(topic: str, unread: Mapping[tuple[int, int], str]) -> Iterator[str]:
    """Yield a sentence for some rows of a topic that could not be read."""
    if unread:
        yield f"could not read {counted(len(unread), 'row')} of {topic}:"
    for (partition, offset), why in list(unread.items())[:UNREAD_SHOWN]:
        yield f"partition {partition} offset {offset}: {why}"


def _of_csv(file: Path, groups: Collection[str]) -> Iterator[tuple[OffsetKey, int]]:
    """Yield the offsets of a file; if it names no group, `groups` has the only one.

    A line with names may be the first one; then there may be further columns, in any order. A byte
    order mark is ignored, and semicolons are read like commas: spreadsheets write both.
    """
    seen: set[OffsetKey] = set()
    chosen: list[int] = []
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            first = lines.readline()
            lines.seek(0)
            delimiter = ";" if ";" in first and "," not in first else ","
            for number, row in enumerate(csv.reader(lines, delimiter=delimiter), 1):
                if not row:
                    continue
                if number == 1 and (chosen := _chosen(row)):
                    continue
                if chosen:
                    row = [row[at] for at in chosen if at < len(row)]
                if len(row) == len(WITHOUT_GROUP) and len(groups) == 1:
                    row = [*groups, *row]
                key, offset = _read(file, number, row)
                if key in seen:
                    raise UserError(
                        f"{file}:{number} repeats {','.join(row[:-1])}.",
                        "Keep one line for each partition.",
                    )
                seen.add(key)
                yield key, offset
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"Cannot read {file}: it is not valid UTF-8.") from None


def _chosen(row: list[str]) -> list[int]:
    """The places of the group, topic, partition and offset in a line of names; else empty."""
    names = [name.strip().lower().replace("_", "-").replace(" ", "-") for name in row]
    numbers = []
    for column in COLUMNS:
        place = next((names.index(name) for name in NAMES[column] if name in names), None)
        if place is not None:
            numbers.append(place)
        elif column != "group":
            return []
    return numbers


def _read(file: Path, number: int, row: list[str]) -> tuple[OffsetKey, int]:
    """Parse a line. Raises UserError for values that no cluster can have."""
    try:
        group, topic, *numbers = row
        partition, offset = map(int, numbers)
    except ValueError:
        raise _unread(file, number, row) from None
    if not (0 <= partition <= INT32_MAX and abs(offset) <= INT64_MAX):
        raise _unread(file, number, row)
    return OffsetKey(group, topic, partition), offset


def _unread(file: Path, number: int, row: list[str]) -> UserError:
    said = f"Cannot read {file}:{number}: expected {','.join(COLUMNS)}, found {','.join(row)}."
    if len(row) == len(WITHOUT_GROUP):
        return UserError(said, "If the file has no group column, add --group GROUP.")
    if len(row) > len(COLUMNS):
        return UserError(said, f"Begin the file with a line of names: {','.join(COLUMNS)},….")
    return UserError(said)


def write_csv(file: Path, committed: Mapping[OffsetKey, int]) -> None:
    """Write the offsets in the format of Kafka's own tool. Raises UserError."""
    try:
        with (
            replacing(file) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as lines,
        ):
            writer = csv.writer(lines, lineterminator="\n")
            for key in sorted(committed):
                writer.writerow([key.group, key.topic, key.partition, committed[key]])
    except OSError as error:
        raise UserError(f"Cannot write to {file}: {error.strerror}.") from None
