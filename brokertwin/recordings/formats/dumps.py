"""Batch headers from log dumps, also compressed.

- Output of `kafka-dump-log.sh --files .../orders-0/00000000000000000000.log`. It has a batch's
  greatest timestamp; its first one only with `--deep-iteration`, otherwise the greatest is used.
- Tab-separated tables with the column names `baseOffset lastOffset producerId producerEpoch
  baseSequence records bytes baseTimestamp maxTimestamp crc leaderEpoch`. The file has the name of
  its partition, `orders-0.tsv`, optionally after `<broker>.`.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from brokertwin.errors import UserError
from brokertwin.patterns import later
from brokertwin.protocol.batch_headers import Batch, BatchPartition, Headers
from brokertwin.recordings.formats.lines import SourceLine, lines_of

DUMPED_FILE = later(rb"Dumping .*?([^/\\]+)-(\d+)[/\\]\d+\.log")
FIELD = later(rb"(\w+): (\S+)")
TABLE_NAME = later(r"(?:broker-\d+\.)?(.+)-(\d+)\.tsv")
TABLE_START = b"baseOffset\t"

_Found = tuple[BatchPartition, Batch]


def read(paths: Iterable[Path]) -> Headers:
    """Read the headers of some dumps. Raises UserError: a file is unreadable or no dump."""
    headers: Headers = {}
    for path in paths:
        lines = lines_of(path, path.name.removesuffix(".gz"))
        first = next(lines, None)
        if first is None:
            continue
        is_table = first.text.startswith(TABLE_START)
        parse: Callable[[SourceLine, Iterator[SourceLine]], Iterator[_Found]] = (
            _table if is_table else _printed
        )
        count = 0
        try:
            for place, batch in parse(first, lines):
                headers.setdefault(place, []).append(batch)
                count += 1
        except (KeyError, ValueError, msgspec.ValidationError) as error:
            raise UserError(f"Cannot read a line of {path} as a batch: {error}.", _HINT) from None
        if not count and not is_table:
            raise UserError(f"{path} has no batch of a partition.", _HINT)
    return headers


_HINT = (
    "What `kafka-dump-log.sh --files DIR/TOPIC-PARTITION/….log` prints is read, or a .tsv table."
)


def _table(first: SourceLine, lines: Iterator[SourceLine]) -> Iterator[_Found]:
    named = TABLE_NAME.fullmatch(first.file)
    if named is None:
        raise UserError(
            f"{first.file} does not name its partition.",
            "Name a table of batches after its partition: orders-0.tsv.",
        )
    place = BatchPartition(named[1], int(named[2]))
    names = first.text.decode().rstrip("\r\n").split("\t")
    for line in lines:
        values = dict(zip(names, line.text.decode().rstrip("\r\n").split("\t"), strict=True))
        yield (
            place,
            Batch(
                base_offset=int(values["baseOffset"]),
                last_offset_delta=int(values["lastOffset"]) - int(values["baseOffset"]),
                producer_id=int(values.get("producerId", -1)),
                producer_epoch=int(values.get("producerEpoch", -1)),
                base_sequence=int(values.get("baseSequence", -1)),
                partition_leader_epoch=int(values.get("leaderEpoch", -1)),
                base_timestamp=int(values["baseTimestamp"]),
                max_timestamp=int(values["maxTimestamp"]),
                size_in_bytes=int(values["bytes"]),
                record_count=int(values["records"]),
                crc=int(values.get("crc", 0)),
            ),
        )


def _printed(first: SourceLine, lines: Iterator[SourceLine]) -> Iterator[_Found]:
    place: BatchPartition | None = None
    batch: Batch | None = None
    for line in [first, *lines]:
        if line.text.startswith(b"Dumping "):
            named = DUMPED_FILE.match(line.text)
            if batch is not None and place is not None:
                yield place, batch
            batch = None
            place = BatchPartition(named[1].decode(), int(named[2])) if named else None
        elif line.text.startswith(b"baseOffset: ") and place is not None:
            if batch is not None:
                yield place, batch
            batch = _batch(dict(FIELD.findall(line.text)))
        elif line.text.startswith(b"| offset: ") and batch is not None:
            record = dict(FIELD.findall(line.text))
            if int(record[b"offset"]) == batch.base_offset and b"CreateTime" in record:
                batch = msgspec.structs.replace(batch, base_timestamp=int(record[b"CreateTime"]))
    if batch is not None and place is not None:
        yield place, batch


def _batch(printed: dict[bytes, bytes]) -> Batch:
    """Parse the header in a printed line."""
    base_offset = int(printed[b"baseOffset"])
    time = int(printed.get(b"CreateTime") or printed[b"LogAppendTime"])
    return Batch(
        base_offset=base_offset,
        last_offset_delta=int(printed[b"lastOffset"]) - base_offset,
        producer_id=int(printed[b"producerId"]),
        producer_epoch=int(printed[b"producerEpoch"]),
        base_sequence=int(printed[b"baseSequence"]),
        partition_leader_epoch=int(printed[b"partitionLeaderEpoch"]),
        base_timestamp=time,
        max_timestamp=time,
        size_in_bytes=int(printed[b"size"]),
        record_count=int(printed[b"count"]),
        magic=int(printed[b"magic"]),
        compression_type=printed[b"compresscodec"].decode().lower(),
        is_transactional=printed[b"isTransactional"] == b"true",
        is_control=printed[b"isControl"] == b"true",
        crc=int(printed[b"crc"]),
    )
