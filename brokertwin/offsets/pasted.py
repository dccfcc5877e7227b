"""Committed offsets in the output of other tools: pasted, or in a file.

    OffsetsMessageFormatter        lines of kafka-console-consumer, text or JSON
    kafka-dump-log                 with --offsets-decoder, of Kafka 1 to 4
    kcat -J                        messages of __consumer_offsets
    kafka-consumer-groups          --describe, --reset-offsets, --export: offsets without history
    rpk, kaf, kafkactl             `group describe`: the same
    Confluent CLI                  `kafka consumer group lag list`: the same
    AKHQ, Burrow and others        JSON of groups: the same
    kafka_exporter                 its metrics, and kafka-lag-exporter's: the same
    MirrorMaker 2                  CheckpointFormatter: the offsets of the target cluster

Lines are parsed independently, so other lines are ignored. Line numbers replace log offsets, which
most of these outputs lack. Each regular expression takes a time in proportion to its line.

Source: OffsetsMessageFormatter, DumpLogSegments, GroupMetadataManager.formatRecordKeyAndValue,
OffsetAndMetadata.toString, ConsumerGroupCommand and Checkpoint in Kafka 0.10 to 4.3; kcat's json.c,
kaf's group.go, kafkactl's consumer-group-operation.go, the Confluent CLI's goldens of `lag list`,
AKHQ's ConsumerGroup, Burrow's ConsumerGroupStatus.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from brokertwin.offsets.history import CoordinatorRow, OffsetMove
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.offset_records import NO_TIMESTAMP, OffsetKey

NOT_SHOWN = "not in this output"
"""Cause of a commit; only the cluster's own group rows contain it."""

DECODER = json.JSONDecoder()
SIGNS = re.compile(r"\\.|[\"{}\[\]]")
END_OF_SPACE = re.compile(r"\s*")
LONGEST = 1_000_000
"""Maximum length of a document in characters; group metadata can be long."""

ERRORS = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
    msgspec.MsgspecError,
)
"""What the parts of a damaged line raise."""

CUT = "the JSON document is cut"

CONSUMER_OFFSETS = "__consumer_offsets"
NO_EPOCH = -1
OF_OFFSETS = {0, 1}
"""Key versions of offsets in `__consumer_offsets`."""

LOST = "\ufffd"
"""kcat's replacement of invalid UTF-8."""

FORMATTED = re.compile(r"\[(?P<group>.*),(?P<topic>[\w.-]+),(?P<partition>\d+)\]::(?P<value>.*)")
VALUE = re.compile(
    r"(?:OffsetAndMetadata)?\(offset=(?P<offset>-?\d+),"
    r" leaderEpoch=Optional\w*(?:\[(?P<epoch>\d+)\]|\.empty), metadata=(?P<metadata>.*?),"
    r" commitTimestamp(?:Ms)?=(?P<commit>-?\d+), .*"
)
OLD_VALUE = re.compile(
    r"\[?Offset(?:And)?Metadata\[(?P<offset>-?\d+),(?P<metadata>.*?)\]?,"
    r"CommitTime (?P<commit>-?\d+),ExpirationTime .*"
)
"""`OffsetAndMetadata.toString` since Kafka 2.0, and before."""

TOMBSTONES = {"NULL", "null", "<DELETE>", ""}

DUMPED = re.compile(
    r"(?:\| ?)?(?:base)?[oO]ffset: (?P<at>\d+) .*?(?:CreateTime|LogAppendTime): (?P<time>-?\d+)"
    r"(?P<rest>.*)"
)
DECODED_KEY = re.compile(
    r"offset_commit::group=(?P<group>.*),partition=(?P<topic>[\w.-]+)-(?P<partition>\d+)"
    r"|offset::(?P<old_group>.*):(?P<old_topic>[\w.-]+):(?P<old_partition>\d+)"
)
DECODED_VALUE = re.compile(r"(?:offset=)?(?P<offset>-?\d+)(?:,metadata=(?P<metadata>.*))?")
DUMPING = re.compile(r"Dumping .*__consumer_offsets-(?P<partition>\d+)/.*")
PRODUCER = re.compile(r" producerId: (-?\d+) ")
TRANSACTIONAL = re.compile(r" isTransactional: (\w+)")
MARKER = re.compile(r" endTxnMarker: (COMMIT|ABORT)")

HEADER = re.compile(
    r"(?:GROUP\s+)?TOPIC\s+PARTITION\s+(?:LEADER-EPOCH\s+)?(?:CURRENT|NEW)-OFFSET(?:\s.*)?"
    r"|TOPIC\s+PARTITION\s+NEWEST_OFFSET\s+OLDEST_OFFSET\s+CONSUMER_OFFSET\s+LEAD\s+LAG"
)
COLUMNS = {
    "NEW-OFFSET": "CURRENT-OFFSET",
    "CONSUMER_OFFSET": "CURRENT-OFFSET",
    "NEWEST_OFFSET": "LOG-END-OFFSET",
    "OLDEST_OFFSET": "LOG-START-OFFSET",
}
"""Other names of columns: of `--reset-offsets`, and of kafkactl."""
EXPORTED = re.compile(
    r"(?:\"(?P<quoted>[^\"]+)\",|(?P<group>[^\",]+),)?\"?(?P<topic>[\w.-]+)\"?,"
    r"(?P<partition>\d+),(?P<offset>\d+)"
)
COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
METRIC = re.compile(
    r"kafka_consumergroup_(?:current|group)_offset\{(?P<labels>.*)\} (?P<offset>\S+).*"
)
LABEL = re.compile(r"(\w+)=\"((?:[^\"\\]|\\.)*)\"")
HEADER_OF_KAF = re.compile(r"Partition\s+Group Offset\s+High Watermark\s.*")
COLUMNS_OF_KAF = ["PARTITION", "CURRENT-OFFSET"]
NAMES_OF_CONFLUENT = {"Consumer Group", "Topic", "Partition", "Current Offset"}
"""Cells of the Confluent CLI's header, in any order, among others; `|` is between cells."""

GROUP_OF_OTHERS = re.compile(r"(?:GROUP|Group ID:)\s+(?P<group>\S+)")
TOPIC_OF_KAF = re.compile(r"(?P<topic>[\w.-]+):")
CHECKPOINT = re.compile(
    r"Checkpoint\{consumerGroupId=(?P<group>.*),"
    r" topicPartition=(?P<topic>[\w.-]+)-(?P<partition>\d+),"
    r" upstreamOffset=-?\d+, downstreamOffset=(?P<offset>\d+), metadata=.*\}"
)
OTHERS = {
    "OffsetSync{": "an offset sync maps offsets of two clusters and names no group: print"
    " CLUSTER.checkpoints.internal with CheckpointFormatter",
    "kminion_": "kminion reports lags, no offsets: use `kafka-consumer-groups --describe`",
}
"""Beginnings of lines that have no committed offset, and what has one."""

NAMES = {
    "groupid": "group",
    "consumergroupid": "group",
    "consumergroup": "group",
    "topicname": "topic",
    "partitionid": "partition",
    "currentoffset": "offset",
    "groupoffset": "offset",
    "consumeroffset": "offset",
}
"""Names of fields in the JSON of tools, in lower case and without underscores."""

NUMBERS = {
    "PARTITION",
    "LEADER-EPOCH",
    "CURRENT-OFFSET",
    "LOG-START-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
}
URL_OF_BURROW = re.compile(r"/consumer/([^/]+)(?:/|$)")
NO_MEMBERS = re.compile(
    r"(?:Warning: )?Consumer group '(?P<group>.*)' (?:has no active members|is rebalancing)\."
)
NO_OFFSET = "-"
MISFIT = "the row does not fit the columns of the table"


class PastedOffsets:
    """Parses lines and tracks the committed offsets.

    Args:
        group: group of a table without a column GROUP.

    Attributes:
        offsets: committed offsets after the lines so far.
        described: offsets of tables, which have no history.
        unread: errors by line number.
        time: time of the last line that has one, in ms since 1970.
    """

    def __init__(self, group: str = "") -> None:
        self.offsets: dict[OffsetKey, OffsetCommitValue] = {}
        self.described: dict[OffsetKey, int] = {}
        self.unread: dict[int, str] = {}
        self.time = NO_TIMESTAMP
        self._group = group
        self._partition = -1
        self._columns: list[str] = []
        self._cells: list[str] = []
        self._prefix = 0
        self._producer: int | None = None
        self._topic = ""
        self._begun: list[str] = []
        self._begun_at = self._begun_size = 0
        self._depth = _Depth()
        self._pending: dict[
            tuple[int, int], list[tuple[CoordinatorRow, OffsetKey, OffsetCommitValue | None]]
        ]
        self._pending = defaultdict(list)

    def read(self, lines: Iterable[str]) -> Iterator[OffsetMove]:
        """Yield the change of each line. Commits of aborted transactions are skipped."""
        for number, line in enumerate(lines, 1):
            text = COLOURS.sub("", line).strip().removeprefix("\ufeff")
            try:
                if self._begun or text.startswith(("{", "[{")):
                    yield from self._documents(number, text)
                else:
                    yield from self._read(number, text)
            except ERRORS as error:
                self.unread[number] = str(error) or type(error).__name__
        if self._begun:
            self.unread[self._begun_at] = CUT

    def _read(self, number: int, text: str) -> Iterator[OffsetMove]:
        if match := FORMATTED.fullmatch(text):
            key = OffsetKey(match["group"], match["topic"], int(match["partition"]))
            value = None if match["value"] in TOMBSTONES else _value(match["value"])
            yield self._moved(_at(number, value), key, value)
        elif match := DUMPING.fullmatch(text):
            self._partition = int(match["partition"])
        elif match := DUMPED.fullmatch(text):
            yield from self._dumped(number, text, match)
        elif match := HEADER.search(text):
            self._columns = [COLUMNS.get(each, each) for each in match[0].split()]
            self._prefix = match.start()
        elif {*(cells := [each.strip() for each in text.split("|")])} >= NAMES_OF_CONFLUENT:
            self._cells = cells
        elif self._cells and "|" in text:
            self._of_confluent(cells)
        elif HEADER_OF_KAF.fullmatch(text):
            self._columns, self._prefix = COLUMNS_OF_KAF, 0
        elif match := CHECKPOINT.fullmatch(text):
            key = OffsetKey(match["group"], match["topic"], int(match["partition"]))
            self.described[key] = int(match["offset"])
        elif not self._columns and (match := EXPORTED.fullmatch(text)):
            key = OffsetKey(
                self._named(match["quoted"] or match["group"]),
                match["topic"],
                int(match["partition"]),
            )
            self.described[key] = int(match["offset"])
        elif match := METRIC.fullmatch(text):
            self._measured(dict(LABEL.findall(match["labels"])), float(match["offset"]))
        elif why := next((why for start, why in OTHERS.items() if text.startswith(start)), ""):
            raise ValueError(why)
        elif match := GROUP_OF_OTHERS.fullmatch(text):
            self._group, self._columns = match["group"], []
        elif self._columns is not COLUMNS_OF_KAF and (match := TOPIC_OF_KAF.fullmatch(text)):
            self._topic = match["topic"]
        elif match := NO_MEMBERS.fullmatch(text):
            self._group, self._columns = match["group"], []
        elif not text:
            self._columns, self._cells = [], []
        elif self._columns:
            self._described(text[self._prefix :].split())

    def _named(self, group: str | None) -> str:
        """The group of a row. Raises ValueError if nothing names it."""
        if not (group or self._group):
            raise ValueError("the table has no column GROUP: --group names the group")
        return group or self._group

    def _measured(self, labels: dict[str, str], offset: float) -> None:
        """Parse a metric of kafka_exporter or kafka-lag-exporter; -1 is no offset."""
        group = labels.get("consumergroup") or labels["group"]
        if offset >= 0:
            key = OffsetKey(group, labels["topic"], int(labels["partition"]))
            self.described[key] = int(offset)

    def _moved(
        self, row: CoordinatorRow, key: OffsetKey, value: OffsetCommitValue | None
    ) -> OffsetMove:
        self.time = row.timestamp if row.timestamp != NO_TIMESTAMP else self.time
        before = self.offsets.pop(key, None)
        if value is not None:
            self.offsets[key] = value
        return OffsetMove(row, key, before, value, NOT_SHOWN)

    # JSON

    def _documents(self, number: int, text: str) -> Iterator[OffsetMove]:
        """Parse a line of JSON: several documents without a space, one, or a part of one."""
        if text.startswith('{"') and len(self._begun) == 1 and self._begun[0][0] != "[":
            self.unread[self._begun_at] = CUT  # a new document begins
            self._begin()
        if not self._begun:
            self._begun_at = number
        self._begun.append(text)
        self._begun_size += len(text)
        if not self._depth.is_closed_by(text):
            if self._begun_size > LONGEST:
                self._begin()
                raise ValueError(CUT)
            return
        whole = "\n".join(self._begun)
        self._begin()
        at = 0
        while whole.startswith(("{", "["), at):
            document, at = DECODER.raw_decode(whole, at)
            yield from self._document(number, document)
            at = END_OF_SPACE.match(whole, at).end()  # type: ignore[union-attr]

    def _begin(self) -> None:
        self._begun, self._begun_size, self._depth = [], 0, _Depth()

    def _document(self, number: int, document: Any) -> Iterator[OffsetMove]:
        key = document.get("key") if isinstance(document, dict) else None
        if isinstance(key, dict):
            decoded = _json_offset(key, document.get("value"))
            if decoded is not None:
                yield self._moved(_at(number, decoded[1]), *decoded)
        elif isinstance(key, str) and document.get("topic") == CONSUMER_OFFSETS:
            yield from self._of_kcat(document)
        elif "key" not in document:
            self.described.update(_of_monitors(document))

    def _of_kcat(self, document: Any) -> Iterator[OffsetMove]:
        if LOST in document["key"]:
            raise ValueError("kcat -J has lost bytes of the key: it prints them as U+FFFD")
        key = offset_records.decode_key(document["key"].encode())
        if key is not None:
            time = document.get("ts", NO_TIMESTAMP)
            row = CoordinatorRow(document["partition"], document["offset"], time, b"", None)
            yield self._moved(row, key, _value_of_kcat(document.get("payload"), time))

    # kafka-dump-log

    def _dumped(self, number: int, text: str, match: re.Match[str]) -> Iterator[OffsetMove]:
        """Parse a line of a batch, a record, or a transaction marker."""
        transactional = TRANSACTIONAL.search(text)
        rest = match["rest"]
        if transactional is not None and (producer := PRODUCER.search(text)):
            self._producer = int(producer[1]) if transactional[1] == "true" else None
        elif marker := MARKER.search(rest):
            held = self._pending.pop((self._partition, self._producer or 0), [])
            yield from (self._moved(*each) for each in held if marker[1] == "COMMIT")
        elif " payload:" in (record := rest.partition(" key: ")[2]):
            key, _, payload = record.partition(" payload:")
            decoded = _dumped_offset(key, payload.removeprefix(" "), int(match["time"]))
            if decoded is None:
                return
            row = CoordinatorRow(self._partition, int(match["at"]), int(match["time"]), b"", None)
            if self._producer is None:
                yield self._moved(row, *decoded)
            else:
                self._pending[self._partition, self._producer].append((row, *decoded))

    # tables

    def _of_confluent(self, cells: list[str]) -> None:
        if len(cells) != len(self._cells):
            raise ValueError(MISFIT)
        row = dict(zip(self._cells, cells, strict=True))
        key = OffsetKey(row["Consumer Group"], row["Topic"], int(row["Partition"]))
        if (offset := int(row["Current Offset"])) >= 0:
            self.described[key] = offset

    def _described(self, parts: list[str]) -> None:
        """Parse a row of a table; names of groups can contain spaces, last columns be empty."""
        if self._columns is COLUMNS_OF_KAF:
            if parts[0].isdecimal():
                key = OffsetKey(self._group, self._topic, int(parts[0]))
                self.described[key] = int(parts[1])
            return
        at = self._columns.index("CURRENT-OFFSET")
        if len(parts) <= at:
            raise ValueError("the row has fewer fields than the table has columns")
        words = range(1, len(parts) - at + 1 if self._columns[0] == "GROUP" else 2)
        rows = [
            dict(zip(self._columns, [" ".join(parts[:n]), *parts[n:]], strict=False)) for n in words
        ]
        rows = [each for each in rows if _is_row(each)]
        if not rows:
            raise ValueError(MISFIT)
        row = next(filter(_has_its_lag, rows), rows[0])
        group = self._named(row.get("GROUP"))
        if row["CURRENT-OFFSET"].isdecimal():
            key = OffsetKey(group, row["TOPIC"], int(row["PARTITION"]))
            self.described[key] = int(row["CURRENT-OFFSET"])


def _is_row(row: dict[str, str]) -> bool:
    """Whether the fields of a row are of their columns."""
    return all(
        text.removeprefix("-").isdecimal() or text == NO_OFFSET
        for name, text in row.items()
        if name in NUMBERS
    )


def _has_its_lag(row: dict[str, str]) -> bool:
    """Whether the lag is that of the offsets, so that no other field was taken for one."""
    numbers = [row.get(name, "") for name in ("LOG-END-OFFSET", "CURRENT-OFFSET", "LAG")]
    if not all(each.removeprefix("-").isdecimal() for each in numbers):
        return False
    end, offset, lag = map(int, numbers)
    return lag == end - offset


def _of_monitors(document: Any) -> Iterator[tuple[OffsetKey, int]]:
    """Yield the offsets of groups in the JSON of a tool; none for other JSON."""
    yield from _of_tool(document, {})
    if not isinstance(document, dict):
        return
    asked = URL_OF_BURROW.search((document.get("request") or {}).get("url", ""))
    topics = document.get("topics")
    if asked is None or not isinstance(topics, dict):
        return
    for topic, partitions in topics.items():
        for partition, part in enumerate(partitions):
            offsets = [each["offset"] for each in part.get("offsets") or () if each is not None]
            if offsets:
                yield OffsetKey(asked[1], topic, partition), offsets[-1]


def _of_tool(value: Any, around: dict[str, Any]) -> Iterator[tuple[OffsetKey, int]]:
    """Yield the offsets in a part of JSON, whose group and topic may be in the objects around."""
    if isinstance(value, list):
        for each in value:
            yield from _of_tool(each, around)
    if not isinstance(value, dict):
        return
    named = {}
    for name, part in value.items():
        plain = name.lower().replace("_", "")
        named[NAMES.get(plain, plain)] = part
    if "offsets" in named and "group" not in {*named, *around}:  # AKHQ
        named["group"] = named.get("id")
    if isinstance(named.get("group"), dict):  # kafkactl
        named["group"] = named["group"].get("Name")
    if "partitions" in named and "name" in named:
        named["topic"] = named["name"]
    columns = around | {
        name: named[name] for name in ("group", "topic", "partition") if name in named
    }
    offset = str(named.get("offset"))
    if offset.isdecimal() and isinstance(columns.get("group"), str) and "partition" in columns:
        yield OffsetKey(columns["group"], columns["topic"], int(columns["partition"])), int(offset)
    for name, part in named.items():
        if name != "start":  # Burrow: an older offset
            yield from _of_tool(part, columns)


class _Depth:
    """Finds the end of JSON documents in lines, each of which is looked at once."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_inside = False

    def is_closed_by(self, text: str) -> bool:
        """Whether all documents are complete after a line."""
        for sign in SIGNS.finditer(text):
            if self._is_inside:
                self._is_inside = sign[0] != '"'
            elif sign[0] == '"':
                self._is_inside = True
            else:
                self._depth += 1 if sign[0] in "{[" else -1
        return self._depth <= 0 and not self._is_inside


def _at(number: int, value: OffsetCommitValue | None) -> CoordinatorRow:
    """Return the position of a line without a log offset."""
    time = value.commit_timestamp if value is not None else NO_TIMESTAMP
    return CoordinatorRow(-1, number, time, b"", None)


def _value(text: str) -> OffsetCommitValue:
    match = VALUE.fullmatch(text) or OLD_VALUE.fullmatch(text)
    if match is None:
        raise ValueError(f"not an offset as Kafka prints it: {text}")
    named = match.groupdict()
    epoch, metadata = named.get("epoch"), named["metadata"]
    return OffsetCommitValue(
        int(named["offset"]),
        int(epoch) if epoch is not None else NO_EPOCH,
        "" if metadata == "NO_METADATA" else metadata,
        int(named["commit"]),
    )


def _json_offset(key: Any, value: Any) -> tuple[OffsetKey, OffsetCommitValue | None] | None:
    """Parse key and value as Kafka 4 prints them; None for other keys."""
    if int(key.get("type", key.get("version", -1))) not in OF_OFFSETS:
        return None
    of = key["data"]
    made = OffsetKey(of["group"], of["topic"], of["partition"])
    if value is None or value.get("data") is None:
        return made, None
    decoded = value["data"]
    return made, OffsetCommitValue(
        decoded["offset"],
        decoded.get("leaderEpoch", NO_EPOCH),
        decoded.get("metadata") or "",
        decoded.get("commitTimestamp", decoded.get("timestamp", NO_TIMESTAMP)),
    )


def _dumped_offset(
    key: str, payload: str, time: int
) -> tuple[OffsetKey, OffsetCommitValue | None] | None:
    """Parse a record of kafka-dump-log; None for other keys."""
    if key.startswith("{"):
        value = msgspec.json.decode(payload) if payload.startswith("{") else None
        return _json_offset(msgspec.json.decode(key), value)
    match = DECODED_KEY.fullmatch(key)
    if match is None:
        return None
    made = OffsetKey(
        match["group"] or match["old_group"],
        match["topic"] or match["old_topic"],
        int(match["partition"] or match["old_partition"]),
    )
    if payload in TOMBSTONES:
        return made, None
    value = DECODED_VALUE.fullmatch(payload)
    if value is None:
        raise ValueError(f"not an offset as kafka-dump-log prints it: {payload}")
    return made, OffsetCommitValue(int(value["offset"]), NO_EPOCH, value["metadata"] or "", time)


def _value_of_kcat(payload: str | None, time: int) -> OffsetCommitValue | None:
    """Decode a value; damaged time and metadata are ignored, a damaged offset is an error."""
    if payload is None:
        return None
    if LOST not in payload:
        return offset_records.decode_value(payload.encode())
    whole = payload.partition(LOST)[0].encode()
    if len(whole) < 10:
        raise ValueError("kcat -J has lost bytes of the offset: it prints them as U+FFFD")
    version, offset = int.from_bytes(whole[:2]), int.from_bytes(whole[2:10], signed=True)
    has_epoch = version >= 3 and len(whole) >= 14
    epoch = int.from_bytes(whole[10:14], signed=True) if has_epoch else NO_EPOCH
    return OffsetCommitValue(offset, epoch, "", time)
