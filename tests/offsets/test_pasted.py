"""Committed offsets in the output of other tools."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.offsets.pasted import NOT_SHOWN, PastedOffsets
from brokertwin.offsets.sources import OffsetSource
from brokertwin.state.core.records import OffsetCommitted
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.offset_records import OffsetKey

AT = 1_661_351_768_150
SCANS = OffsetKey("parcels", "scans", 0)
TEXT = "leaderEpoch=Optional[2], metadata=, commitTimestamp="
WITH_METADATA = (
    "OffsetAndMetadata(offset=6, leaderEpoch=Optional.empty, metadata=a, b), commitTimestamp"
    f"={AT}, expireTimestamp=Some({AT}))"
)
OF_JAVA = (
    "OffsetAndMetadata(offset=6, leaderEpoch=OptionalInt[2], metadata=, commitTimestampMs"
    f"={AT}, expireTimestampMs=OptionalLong.empty, recordOffset=3)"
)
KEY_OF_4 = 'key: {"type":"1","data":{"group":"parcels","topic":"scans","partition":0}} payload: '
VALUE_OF_4 = '{"version":"3","data":{"offset":6,"leaderEpoch":2,"metadata":"","commitTimestamp":9}}'
BATCH = (
    "baseOffset: {} lastOffset: {} count: 1 baseSequence: 0 lastSequence: 0 producerId: 7"
    " producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: true isControl: {} position: 0"
    f" CreateTime: {AT} size: 121 magic: 2 compresscodec: none crc: 1 isvalid: true"
)
RECORD = f"| offset: {{}} CreateTime: {AT} keySize: 24 valueSize: 28 sequence: 0 headerKeys: [] "


def read(
    *lines: str, group: str = ""
) -> tuple[list[tuple[OffsetKey, int | None, str]], PastedOffsets]:
    """Return the change of each line: key, position and direction."""
    pasted = PastedOffsets(group)
    moves = [
        (move.key, move.after.offset if move.after else None, move.direction.value)
        for move in pasted.read(lines)
    ]
    return moves, pasted


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        (f"OffsetAndMetadata(offset=6, {TEXT}{AT}, expireTimestamp=None)", 6),
        (WITH_METADATA, 6),
        (OF_JAVA, 6),
        (f"[OffsetMetadata[6,NO_METADATA],CommitTime {AT},ExpirationTime {AT + 1}]", 6),
        ("NULL", None),
    ],
    ids=["2.1 to 3.9", "with metadata", "Java", "0.10 to 2.0", "tombstone"],
)
def test_lines_of_the_formatter(value: str, offset: int | None) -> None:
    moves, pasted = read("$ kafka-console-consumer …", f"[a,b [c],scans,0]::{value}")
    direction = "first" if offset is not None else "gone"
    assert moves == [(OffsetKey("a,b [c]", "scans", 0), offset, direction)]
    assert pasted.unread == {}


def test_offset_that_goes_back_in_the_formatters_output() -> None:
    line = "[parcels,scans,0]::OffsetAndMetadata(offset={}, " + TEXT + "{}, expireTimestamp=None)"
    pasted = PastedOffsets()
    first, second = pasted.read([line.format(6, AT), line.format(2, AT + 1000)])
    assert (second.before, second.direction, second.since_ms) == (first.after, "back", 1000)
    assert second.by == NOT_SHOWN
    assert second.after is not None
    assert (second.after.leader_epoch, second.row.offset) == (2, 2)


@pytest.mark.parametrize("kind", [1, "1"], ids=["formatter", "dump"])
def test_json_of_kafka_4(kind: object) -> None:
    key = {"type": kind, "data": {"group": "parcels", "topic": "scans", "partition": 0}}
    data = {"offset": 6, "leaderEpoch": 2, "metadata": "", "commitTimestamp": AT}
    of_group = {"key": {"type": 2, "data": {"group": "parcels"}}, "value": None}
    moves, pasted = read(
        json.dumps({"key": key, "value": {"version": 4, "data": data}}),
        json.dumps(of_group),
        json.dumps({"key": key, "value": None}),
        '{"key":{"type":1,"da',
    )
    assert moves == [(SCANS, 6, "first"), (SCANS, None, "gone")]
    assert list(pasted.unread) == [4]


@pytest.mark.parametrize("layout", ["joined", "indented", "cut"])
def test_json_in_other_layouts(layout: str) -> None:
    """The formatter of Kafka 4.3 writes no line ends; `jq` indents."""
    key = {"type": 1, "data": {"group": "parcels", "topic": "scans", "partition": 0}}
    documents = [
        {"key": key, "value": {"version": 4, "data": {"offset": at, "commitTimestamp": AT}}}
        for at in (6, 2)
    ]
    indent = 2 if layout == "indented" else None
    texts = [json.dumps(each, indent=indent) for each in documents]
    if layout == "cut":
        texts.insert(1, texts[0][:40])
    text = ("" if layout == "joined" else "\n").join(texts)
    moves, pasted = read("$ cat", *text.splitlines())
    assert [offset for _, offset, _ in moves] == [6, 2]
    assert pasted.unread == ({3: "the JSON document is cut"} if layout == "cut" else {})


@pytest.mark.parametrize(
    ("record", "offset"),
    [
        ("key: offset_commit::group=parcels,partition=scans-0 payload: offset=6", 6),
        ("key: offset_commit::group=parcels,partition=scans-0 payload: offset=6,metadata=x", 6),
        ("key: offset_commit::group=parcels,partition=scans-0 payload: <DELETE>", None),
        ("key: offset::parcels:scans:0 payload: 6", 6),
        (KEY_OF_4 + VALUE_OF_4, 6),
        (KEY_OF_4 + "<DELETE>", None),
    ],
    ids=["2.4 to 3.9", "with metadata", "tombstone", "before 2.4", "4.0", "tombstone of 4.0"],
)
def test_records_of_the_log_dump(record: str, offset: int | None) -> None:
    pasted = PastedOffsets()
    dumping = "Dumping /var/lib/kafka/__consumer_offsets-12/00000000000000000000.log"
    group = "key: group_metadata::group=parcels payload: {}"
    lines = [dumping, "Log starting offset: 0", RECORD.format(4) + group, RECORD.format(5) + record]
    (move,) = pasted.read(lines)
    assert (move.key, move.after.offset if move.after else None) == (SCANS, offset)
    assert (move.row.partition, move.row.offset, move.row.timestamp) == (12, 5, AT)


@pytest.mark.parametrize(("ending", "offsets"), [("COMMIT", [6]), ("ABORT", [])])
def test_commits_of_a_transaction_count_if_it_was_committed(
    ending: str, offsets: list[int]
) -> None:
    moves, _ = read(
        BATCH.format(0, 0, "false"),
        RECORD.format(0) + "key: offset_commit::group=parcels,partition=scans-0 payload: offset=6",
        BATCH.format(1, 1, "true"),
        RECORD.format(1) + f"endTxnMarker: {ending} coordinatorEpoch: 0",
    )
    assert [offset for _, offset, _ in moves] == offsets


def of_kcat(offset: int, time: int, topic: str = "__consumer_offsets") -> str:
    """A message as kcat -J prints it: invalid UTF-8 becomes U+FFFD."""
    record = OffsetCommitted("parcels", "scans", 0, offset, 2, "", time)
    key, value = offset_records.committed(record)
    message = {"topic": topic, "partition": 12, "offset": 5, "tstype": "create", "ts": AT}
    texts = {"key": key.decode(), "payload": value.decode(errors="replace")}
    return json.dumps({**message, "broker": 1, **texts})


def test_messages_of_kcat() -> None:
    moves, pasted = read(of_kcat(6, AT), of_kcat(7, 1), of_kcat(8, 1, topic="other"))
    assert [offset for _, offset, _ in moves] == [6, 7]
    assert pasted.offsets[SCANS].leader_epoch == 2
    deleted = json.loads(of_kcat(6, AT)) | {"payload": None}
    assert read(json.dumps(deleted))[0] == [(SCANS, None, "gone")]


def test_offset_that_kcat_has_lost_is_not_guessed() -> None:
    moves, pasted = read(of_kcat(200, AT))
    assert moves == []
    assert "kcat -J has lost bytes of the offset" in pasted.unread[1]


HEADER = "TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID"


def test_tables_of_described_groups() -> None:
    moves, pasted = read(
        f"GROUP  {HEADER}",
        "parcels scans 0 6 9 3 reader-1-5d66 /10.0.0.9 reader-1",
        "parcels scans 1 - 4 - reader-1-5d66 /10.0.0.9 reader-1",
        "",
        "Consumer group 'two words' has no active members.",
        "",
        f"GROUP  {HEADER}",
        "two words scans 0 1 9 8 - - -",
        "parcels scans 2 7 9 2 my app-1-5d66 /10.0.0.9 my app",
        "two 5 5 0 6 9 3 m /1 c",
    )
    assert moves == []
    assert pasted.described == {
        SCANS: 6,
        OffsetKey("two words", "scans", 0): 1,
        OffsetKey("parcels", "scans", 2): 7,
        OffsetKey("two 5", "5", 0): 6,
    }
    assert pasted.unread == {}


def test_verbose_table_of_kafka_4_has_leader_epochs() -> None:
    header = HEADER.replace("CURRENT", "LEADER-EPOCH  CURRENT", 1)
    rows = "parcels scans 0 5 6 9 3 - - -", "parcels scans 1 - 4 4 0 - - -"
    _, pasted = read(f"GROUP  {header}", *rows)
    assert pasted.described == {SCANS: 6, OffsetKey("parcels", "scans", 1): 4}
    assert pasted.unread == {}


@pytest.mark.parametrize("prefix", ["kafka-1  | ", "2026-11-20T09:12:05Z ", "> ", "\x1b[1m"])
def test_tables_may_be_behind_a_prefix(prefix: str) -> None:
    row = "parcels scans 0 6 9 3 reader-1-5d66 /10.0.0.9 reader-1"
    assert read(f"{prefix}GROUP  {HEADER}", f"{prefix}{row}")[1].described == {SCANS: 6}


def test_table_without_groups_needs_one() -> None:
    row = "scans 0 6 9 3 reader-1-5d66 /10.0.0.9 reader-1"
    assert read(HEADER, row, group="parcels")[1].described == {SCANS: 6}
    assert "--group" in read(HEADER, row)[1].unread[2]


def test_an_aborted_and_a_committed_transaction_of_one_producer() -> None:
    record = "key: offset_commit::group=parcels,partition=scans-0 payload: offset={}"
    ends = [
        line
        for at, (offset, ending) in enumerate([(6, "ABORT"), (7, "COMMIT")])
        for line in (
            BATCH.format(2 * at, 2 * at, "false"),
            RECORD.format(2 * at) + record.format(offset),
            BATCH.format(2 * at + 1, 2 * at + 1, "true"),
            RECORD.format(2 * at + 1) + f"endTxnMarker: {ending} coordinatorEpoch: 0",
        )
    ]
    assert [offset for _, offset, _ in read(*ends)[0]] == [7]


def test_a_marker_ends_the_transaction_in_its_own_partition() -> None:
    dumping = "Dumping /var/lib/kafka/__consumer_offsets-{}/00000000000000000000.log"
    moves, _ = read(
        dumping.format(12),
        BATCH.format(0, 0, "false"),
        RECORD.format(0) + "key: offset_commit::group=parcels,partition=scans-0 payload: offset=6",
        dumping.format(13),
        BATCH.format(0, 0, "true"),
        RECORD.format(0) + "endTxnMarker: COMMIT coordinatorEpoch: 0",
    )
    assert moves == []


RPK = """\
GROUP        parcels
COORDINATOR  1
STATE        Empty
BALANCER
MEMBERS      0
TOTAL-LAG    3
TOPIC       PARTITION  CURRENT-OFFSET  LOG-START-OFFSET  LOG-END-OFFSET  LAG    MEMBER-ID  HOST
scans       0          6               0                 9               3
scans       1          -               0                 5               5
"""
KAF = """\
Group ID:       parcels
State:          Stable
Protocol:       range
Protocol Type:  consumer
Offsets:
  scans:
    Partition  Group Offset  High Watermark  Lag  Metadata
    ---------  ------------  --------------  ---  --------
    0          6             9               3    a b
    Total      6                             3
Members:
  reader-1:
    Host:  /10.0.0.9
    Assignments:
      Topic  Partitions
      -----  ----------
      scans  [0]
"""
KAFKACTL = """\
TOPIC     PARTITION     NEWEST_OFFSET     OLDEST_OFFSET     CONSUMER_OFFSET     LEAD     LAG
scans     0             9                 1                 6                   5        3
scans     1             9                 1                 -1                  -2       10

CLIENT_HOST     CLIENT_ID     GROUP_INSTANCE_ID     TOPIC     ASSIGNED_PARTITIONS
/10.0.0.9       reader        r-1                   scans     0,1
"""
KAFKACTL_JSON = {
    "Group": {"Name": "parcels", "ProtocolType": "consumer", "Topics": None},
    "State": "Stable",
    "Topics": [
        {
            "Name": "scans",
            "Partitions": [{"Partition": 0, "newestOffset": 9, "consumerOffset": 6, "Lag": 3}],
            "totalLag": 3,
        }
    ],
    "Members": [{"clientId": "reader", "assignedPartitions": [{"Name": "scans"}]}],
}
CONFLUENT = """\
   Cluster  | Consumer Group | Lag | Log End Offset | Current Offset | Topic | Partition
------------+----------------+-----+----------------+----------------+-------+------------
  lkc-7x2k1 | parcels        |   3 |              9 |              6 | scans |         0
  lkc-7x2k1 | parcels        |   9 |              9 |             -1 | scans |         1
"""
RESET = """\
GROUP                          TOPIC                          PARTITION  NEW-OFFSET
parcels                        scans                          0          6
"""
PARTITION = {"topic": "scans", "partition": 0}
AKHQ = {
    "id": "parcels",
    "state": "EMPTY",
    "offsets": [
        {**PARTITION, "offset": 6, "metadata": "", "firstOffset": 0, "lastOffset": 9},
        {"topic": "scans", "partition": 1},
    ],
}
BURROW = {
    "error": False,
    "status": {
        "group": "parcels",
        "partitions": [{**PARTITION, "end": {"offset": 6, "timestamp": AT, "lag": 3}}],
    },
}
BURROW_DETAIL = {
    "topics": {"scans": [{"offsets": [None, {"offset": 5}, {"offset": 6}], "current-lag": 3}]},
    "request": {"url": "/v3/kafka/local/consumer/parcels", "host": "h"},
}
KAFKA_UI = {
    "groupId": "parcels",
    "partitions": [{**PARTITION, "currentOffset": 6, "endOffset": 9, "host": "/10.0.0.9"}],
}
REST = {
    "data": [
        {"consumer_group_id": "parcels", "topic_name": "scans", "partition_id": 0}
        | {"current_offset": 6, "log_end_offset": 9, "lag": 3}
    ]
}
CONSOLE = {
    "consumerGroups": [
        {
            "groupId": "parcels",
            "coordinatorId": 1,
            "topicOffsets": [
                {"topic": "scans", "partitionOffsets": [{"partitionId": 0, "groupOffset": 6}]}
            ],
        }
    ]
}
RPK_JSON = [{"group": "parcels", "partitions": [{**PARTITION, "current_offset": "6"}]}]
ROW = {"group": "parcels", "topic": "scans", "partition": 0, "offset": 6}
NESTED = {
    "group": "parcels",
    "topics": [{"topic": "scans", "id": "a", "offsets": [{"partition": 0, "offset": 6}]}],
}
EXPORTER = """\
kafka_consumergroup_current_offset{consumergroup="parcels",partition="0",topic="scans"} 6
kafka_consumergroup_current_offset{consumergroup="parcels",partition="1",topic="scans"} -1
kafka_consumergroup_lag{consumergroup="parcels",partition="0",topic="scans"} 3
"""
LAG_EXPORTER = (
    'kafka_consumergroup_group_offset{cluster_name="c",group="parcels",topic="scans",partition="0"'
    ',client_id="r"} 6.0'
)
CHECKPOINT = (
    "Checkpoint{consumerGroupId=parcels, topicPartition=scans-0, upstreamOffset=8,"
    " downstreamOffset=6, metadata=}"
)


@pytest.mark.parametrize(
    "text",
    [
        *(RPK, KAF, CONFLUENT, RESET, CHECKPOINT, EXPORTER, LAG_EXPORTER, "parcels,scans,0,6"),
        *(json.dumps(each, indent=2) for each in (AKHQ, {"results": [AKHQ]})),
        *(json.dumps(each) for each in (BURROW, BURROW_DETAIL, KAFKA_UI, REST, CONSOLE, RPK_JSON)),
        *(
            json.dumps(KAFKACTL_JSON),
            json.dumps(NESTED),
            ",\n".join((f"[{json.dumps(ROW)}", f"{json.dumps(ROW)}]")),
        ),
    ],
    ids=[
        *(
            "rpk",
            "kaf",
            "Confluent",
            "reset",
            "checkpoint",
            "kafka_exporter",
            "lag exporter",
            "export",
        ),
        *(
            "AKHQ",
            "AKHQ, page",
            "Burrow",
            "Burrow, detail",
            "Kafka UI",
            "REST",
            "console",
            "rpk -j",
            "kafkactl -o json",
            "nested",
            "an array over lines",
        ),
    ],
)
def test_tables_and_json_of_other_tools(text: str) -> None:
    moves, pasted = read(*text.splitlines())
    assert moves == []
    assert pasted.described == {SCANS: 6}
    assert pasted.unread == {}


def test_table_of_kafkactl_names_no_group() -> None:
    _, pasted = read(*KAFKACTL.splitlines(), group="parcels")
    assert (pasted.described, pasted.unread) == ({SCANS: 6}, {})
    _, pasted = read(*KAFKACTL.splitlines())
    assert (pasted.described, "--group" in pasted.unread[2]) == ({}, True)


@pytest.mark.parametrize("change", [("| scans |         0", "| scans"), ("parcels", "par|cels")])
def test_row_of_the_confluent_cli_with_other_columns_is_not_read(change: tuple[str, str]) -> None:
    header, line, row, _ = CONFLUENT.splitlines()
    _, pasted = read(header, line, row.replace(*change))
    assert pasted.described == {}
    assert pasted.unread == {3: "the row does not fit the columns of the table"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("OffsetSync{topicPartition=scans-0, upstreamOffset=8, downstreamOffset=6}", "no group"),
        ('kminion_kafka_consumer_group_topic_partition_lag{group_id="g"} 3', "lags, no offsets"),
        (LAG_EXPORTER.replace("6.0", "+Inf"), "infinity"),
        ("[{}," + "[" * 100_000 + "]" * 100_001, "recursion"),
    ],
)
def test_output_without_committed_offsets_says_what_has_them(line: str, why: str) -> None:
    moves, pasted = read(line)
    assert (moves, pasted.described) == ([], {})
    assert why in pasted.unread[1]


def _no_cluster(address: str) -> ClientProperties:
    raise AssertionError(address)


def test_a_cut_file_is_reported(tmp_path: Path) -> None:
    lines = (
        f"[parcels,scans,{number}]::OffsetAndMetadata(offset=6, {TEXT}{AT}, expireTimestamp=None)\n"
        for number in range(9_999)
    )
    whole = gzip.compress("".join(lines).encode())
    warnings: list[str] = []
    for name, content in (("whole.gz", whole), ("cut.gz", whole[: len(whole) // 2])):
        file = tmp_path / name
        file.write_bytes(content)
        assert OffsetSource(str(file), _no_cluster, warnings.append).committed(())[SCANS] == 6
    assert "cut.gz: the compressed data has no end" in warnings[0]


def show(tmp_path: Path, name: str, text: str, *groups: str) -> dict[OffsetKey, int]:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return OffsetSource(str(file), _no_cluster, lambda _: None).committed(groups)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("parcels,scans,0,6\n", ()),
        ("group;topic;partition;offset\nparcels;scans;0;6\n", ()),
        ("Topic,Partition,Lag,CURRENT-OFFSET,Group\nscans,0,3,6,parcels\n", ()),
        ("topic,partition,offset,metadata\nscans,0,6,x\n", ("parcels",)),
    ],
)
def test_csv_files_may_have_names_and_further_columns(
    tmp_path: Path, text: str, groups: tuple[str, ...]
) -> None:
    assert show(tmp_path, "offsets.csv", text, *groups) == {SCANS: 6}


def test_csv_with_further_columns_needs_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected group,topic") as raised:
        show(tmp_path, "offsets.csv", "parcels,scans,0,6,3\n")
    assert "Begin the file with a line of names" in raised.value.hint


def test_the_formatters_output_without_line_ends_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokertwin.offsets.sources.PIECE_BYTES", 100)
    key = {"type": 1, "data": {"group": "parcels", "topic": "scans", "partition": 0}}
    text = "".join(
        json.dumps({"key": key, "value": {"version": 4, "data": {"offset": at}}})
        for at in range(50)
    )
    assert show(tmp_path, "pasted.txt", text) == {SCANS: 49}


PIECES = [
    *("[a,b,1", "Checkpoint{consumerGroupId=", ", topicPartition=", " key: ", " producerId: 1 "),
    *("offset_commit::group=", ",partition=", "GROUP ", ", commitTimestamp=1", "a 0 ", '{"a":'),
    *("(offset=1, leaderEpoch=Optional.empty, ", '"\\\\', "{", " payload: ", "a-1"),
]
"""Parts of lines that repeat: a quadratic expression takes hours for them, a linear one seconds."""
REPEATED = """
import resource, sys
from brokertwin.offsets.pasted import PastedOffsets
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
begins = ("", "[", "offset: 1 CreateTime: 1", "baseOffset: 1 CreateTime: 1 producerId: 1 key: ")
for piece in sys.argv[1:]:
    for begin in begins:
        list(PastedOffsets().read([begin + piece * (3_000_000 // len(piece))]))
print("read")
"""


def test_a_line_takes_a_time_in_proportion_to_its_length() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, *PIECES], capture_output=True, text=True, check=False
    )
    assert done.stdout == "read\n", done.stderr[-2000:]
