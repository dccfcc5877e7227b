"""`brokertwin offsets`: from rows that a real broker has written, and between two real ones."""

import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.offsets.store import MOVES
from brokertwin.settings import default_home
from brokertwin.state.core.outputs import offsets_topic
from tests.support.commits import commit
from tests.support.console import brokertwin
from tests.support.consumer_groups import ConsumerBench
from tests.support.gateways import client_at
from tests.support.kafka_tools import run_tool
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT

RECORDED = ROOT / "tests" / "consumer_offsets"
GROUPS = ("classic", "modern")
"""One of each protocol: 4, 10 and back to 2, by its only member."""


def documents(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("group", GROUPS)
def test_a_history_reports_who_moved_it_and_how_far(group: str) -> None:
    done = brokertwin("offsets", "history", RECORDED, group, "--json")
    moves = documents(done.stdout)
    assert [(m["before"], m["after"], m["direction"]) for m in moves] == [
        *((None, 4, "first"), (4, 10, "forth"), (10, 2, "back")),
    ]
    assert all(re.match(r".+ \(client reader at .+\), generation \d", str(m["by"])) for m in moves)


def test_a_history_fits_80_columns() -> None:
    words = ("offsets", "history", RECORDED, "classic", "--change", "back")
    done = brokertwin(*words, COLUMNS="80")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "back" in done.stdout
    assert "forth" not in done.stdout


def test_a_history_of_an_unknown_group_is_an_error() -> None:
    for words in ((), ("--json",)):
        done = brokertwin("offsets", "history", RECORDED, "nosuch", *words)
        assert done.returncode == 2
        assert f"{RECORDED} has no commits of group nosuch." in done.stderr


def test_show_returns_committed_offsets_at_a_time() -> None:
    row = {"topic": "orders", "partition": 0}
    now = documents(brokertwin("offsets", "show", RECORDED, "--json").stdout)
    assert now == [{"group": group, **row, "offset": 2} for group in GROUPS]
    moves = documents(brokertwin("offsets", "history", RECORDED, "classic", "--json").stdout)
    last_ms = int(str(moves[-1]["time"]))
    when = datetime.fromtimestamp((last_ms - 1) / 1000, UTC).isoformat()
    words = ("--group", "classic", "--at", when, "--json")
    (then,) = documents(brokertwin("offsets", "show", RECORDED, *words).stdout)
    early = brokertwin("offsets", "show", RECORDED, "--at", "2000-01-01")
    assert early.stderr == f"{RECORDED} has no committed offsets at this time\n"
    assert then["offset"] == 10
    (changed,) = documents(
        brokertwin(
            *("offsets", "diff", RECORDED, when, "now", "--group", "classic", "--json")
        ).stdout
    )
    assert changed == {"group": "classic", **row, "before": 10, "after": 2, "change": "-8"}


def test_verify_reads_every_row_and_names_a_damaged_file(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(RECORDED, backup)
    done = brokertwin("offsets", "verify", backup)
    assert done.returncode == 0
    assert "0 damaged or missing" in done.stderr
    file = next(backup.glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    done = brokertwin("offsets", "verify", backup)
    assert done.returncode == 1
    assert f"{file} is damaged" in done.stderr.replace("\n", " ")
    assert brokertwin("offsets", "show", backup).returncode == 2


def test_a_csv_file_is_a_source_too(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    done = brokertwin("offsets", "export", RECORDED, "--out", file)
    assert done.stderr == f"wrote 2 offsets to {file}\n"
    assert file.read_text() == "classic,orders,0,2\nmodern,orders,0,2\n"
    shown = brokertwin("offsets", "show", file, "--group", "modern", "--json")
    assert documents(shown.stdout) == [
        {"group": "modern", "topic": "orders", "partition": 0, "offset": 2}
    ]


def test_a_csv_file_without_groups_is_of_the_one_that_is_given(tmp_path: Path) -> None:
    """As Kafka's own tool exports one group; a spreadsheet has put its mark before the first."""
    file = tmp_path / "offsets.csv"
    file.write_text("only-here,0,0\norders,1,10\n\n", encoding="utf-8-sig")
    shown = brokertwin("offsets", "show", file, "--group", "g", "--json")
    assert [(d["group"], d["topic"], d["offset"]) for d in documents(shown.stdout)] == [
        *(("g", "only-here", 0), ("g", "orders", 10)),
    ]


def test_the_whole_history_goes_into_a_parquet_file(tmp_path: Path) -> None:
    """Of groups whose offsets are gone, too; each row as `history` has it."""
    file = tmp_path / "history.parquet"
    done = brokertwin("offsets", "export", RECORDED, "--parquet", file)
    assert done.stderr == f"wrote 8 commits to {file}\n"
    table = pq.read_table(file)
    assert table.schema.equals(MOVES)
    rows = table.to_pylist()
    assert Counter(row["group"] for row in rows) == {"classic": 3, "modern": 3, "simple": 2}
    output = [
        each
        for group in dict.fromkeys(row["group"] for row in rows)
        for each in documents(brokertwin("offsets", "history", RECORDED, group, "--json").stdout)
    ]
    same = ("group", "topic", "partition", "before", "after", "distance", "direction", "by")
    assert sorted(
        (round(row["time"].timestamp() * 1000), row["since_ms"], *(row[name] for name in same))
        for row in rows
    ) == sorted((each["time"], each["sinceMs"], *(each[name] for name in same)) for each in output)
    one = ("export", RECORDED, "--parquet", file, "--group", "modern", "--at", "2020-01-01")
    again = brokertwin("offsets", *one)
    assert (again.returncode, again.stderr) == (
        2,
        f"{file} exists.\nPass another file, or --force to replace it.\n",
    )
    assert pq.read_table(file) == table
    one += ("--force",)
    assert brokertwin("offsets", *one).stderr == f"wrote 0 commits to {file}\n"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("history", "FILE.csv", "g"), "has offsets but no history"),
        (("show", "nowhere"), "nowhere is neither a file, a directory nor an address"),
        (("show", "."), ". has no offsets"),
        (("show", "ONE.csv"), "If the file has no group column, add --group GROUP"),
        (
            ("export", RECORDED, "--out", "no/where.csv"),
            "Cannot write to no/where.csv: there is no folder no",
        ),
        (
            ("export", RECORDED, "--parquet", "no/where"),
            "Cannot write to no/where: there is no folder no",
        ),
        (("export", RECORDED, "--out", "x.csv", "--dry-run"), "have no effect without --to"),
        (("diff", RECORDED, "now", "2026-01-01"), "TIME now is after LATER 2026-01-01"),
        (("import", "DIR", "localhost:1"), "Invalid address 'DIR'. Pass HOST:PORT"),
        (
            ("show", "FILE.csv"),
            "Cannot read FILE.csv:2: expected group,topic,partition,offset, found one,two",
        ),
        (("show", RECORDED, "--group", "none"), "has no offsets of the groups none"),
        (
            ("show", RECORDED, "--group", "classic", "--at", "2000-01-01"),
            f"at this time. See when each began: brokertwin offsets history {RECORDED} classic",
        ),
        (("show", RECORDED, "--at", "noon"), "Invalid time for --at: 'noon'"),
        (("history", RECORDED, "classic", "--change", "up"), "'up' is not a valid Direction"),
        (("export", RECORDED), "Pass one of --out FILE, --parquet FILE and --to"),
        (("import", "localhost:1", "DIR"), "did not respond"),
        (("show", "LATIN.csv"), "Cannot read LATIN.csv: it is not valid UTF-8"),
        (("show", "TWICE.csv"), "TWICE.csv:2 repeats g,orders,0"),
        (
            ("show", "BELOW.csv"),
            "Cannot read BELOW.csv:1: expected group,topic,partition,offset, found g,orders,-1,0",
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_topology_errors_are_reported(
    words: tuple[str, ...], message: str, empty_directory: Path
) -> None:
    (empty_directory / "FILE.csv").write_text("g,orders,0,1\none,two\n")
    (empty_directory / "ONE.csv").write_text("orders,0,1\n")
    (empty_directory / "LATIN.csv").write_text("g,commandé,0,1\n", encoding="latin-1")
    (empty_directory / "TWICE.csv").write_text("g,orders,0,1\ng,orders,0,2\n")
    (empty_directory / "BELOW.csv").write_text("g,orders,-1,0\n")
    done = brokertwin("offsets", *words, cwd=empty_directory)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


@pytest.fixture
def other(tmp_path: Path) -> Iterator[str]:
    """A second cluster without commits."""
    broker = EmbeddedKafka(tmp_path / "kafka", default_home())
    try:
        yield broker.start()
    finally:
        broker.stop()


def fresh(name: str) -> str:
    return f"{name}-{token_hex(4)}"


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


def fill(bootstrap: str, topic: str, older: int, begin_ms: int) -> None:
    """Twenty records, a second after one another, behind some that only this cluster has."""
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(older):
        producer.produce(topic, b"older", timestamp=begin_ms - older + number)
    for number in range(20):
        producer.produce(topic, b"both", timestamp=begin_ms + number * 1000)
    assert producer.flush(PATIENCE_S) == 0


def committed_at(bootstrap: str) -> dict[object, object]:
    shown = documents(brokertwin("offsets", "show", bootstrap, "--json").stdout)
    return {d["group"]: d["offset"] for d in shown}


@pytest.mark.kafka
def test_offsets_go_from_one_real_cluster_to_another(
    kafka: str, other: str, tmp_path: Path
) -> None:
    begin_ms = int(time.time() * 1000) - 3_600_000  # not so long ago that a broker removes them
    topic, moving, at_end, past = map(fresh, ("offsets-tool", "moving", "at-the-end", "past"))
    fill(kafka, topic, 0, begin_ms)
    fill(other, topic, 100, begin_ms)
    for offset in (15, 3):
        commit(kafka, moving, topic, offset)
    commit(kafka, at_end, topic, 20)
    commit(kafka, past, topic, 999)
    backup = tmp_path / "backup"
    first = brokertwin("offsets", "import", kafka, backup)
    assert int(first.stderr.split()[0]) >= 3
    commit(kafka, moving, topic, 4)
    again = brokertwin("offsets", "import", kafka, backup)
    assert re.match(r"[1-9]\d* rows?", again.stderr), "others may have committed, too"
    moves = documents(brokertwin("offsets", "history", backup, moving, "--json").stdout)
    assert [(m["after"], m["direction"]) for m in moves] == [
        *((15, "first"), (3, "back"), (4, "forth")),
    ]

    admin = AdminClient({"bootstrap.servers": other})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 50)]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 50
    dry = ("offsets", "export", backup, "--json", "--to", other, "--dry-run", "--group", past)
    unwarned = brokertwin(*dry, "--group", moving)
    assert f"and {other} is another one" in unwarned.stderr
    assert "--by-time HOST:PORT" in unwarned.stderr
    of_cluster = ("offsets", "export", kafka, *dry[3:])
    spans = f"{topic}-0 has offsets 0..20 at {kafka} and 50..120 at {other}"
    assert spans in brokertwin(*of_cluster).stderr.replace("\n", " ")
    assert "differ" not in brokertwin(*of_cluster[:4], "--to", kafka, "--dry-run").stderr
    as_they_are = documents(unwarned.stdout)
    assert [d["verdict"] for d in as_they_are] == ["before the log's start", "past the log's end"]
    (by_time,) = documents(brokertwin(*dry, "--by-time", kafka).stdout)
    assert by_time["verdict"] == "no record at the source offset", (
        "it was past the end where it comes from"
    )
    create(other, at_end)
    (tmp_path / "gone.csv").write_text(f"{past},{at_end},0,0\n")
    gone = ("offsets", "export", tmp_path / "gone.csv", *dry[3:], "--by-time", kafka)
    (vanished,) = documents(brokertwin(*gone).stdout)
    assert vanished["verdict"] == "no record at the source offset", (
        "the source has no such topic any more"
    )
    idle, ahead = fresh("idle"), fresh("ahead")
    create(kafka, idle)
    create(other, idle)
    create(kafka, ahead)
    fill(other, ahead, 0, begin_ms)
    (tmp_path / "idle.csv").write_text(f"{idle},{idle},0,0\n{idle},{ahead},0,0\n")
    empty = ("offsets", "export", tmp_path / "idle.csv", *dry[3:-1], idle, "--by-time", kafka)
    assert [
        (d["topic"], d["target"], d["verdict"]) for d in documents(brokertwin(*empty).stdout)
    ] == [
        (ahead, None, "no record at the source offset"),
        (idle, 0, "fine"),
    ]

    words = ("--group", moving, "--group", at_end, "--json")
    to = ("offsets", "export", backup, *words, "--to", other, "--by-time", kafka)
    verdicts = [
        (d["group"], d["target"], d["verdict"])
        for d in documents(brokertwin(*to, "--dry-run").stdout)
    ]
    assert verdicts == [(at_end, 120, "fine"), (moving, 104, "fine")]
    assert brokertwin("offsets", "show", other, "--json").stdout == "", "nothing is written"
    done = brokertwin(*to, "--saved", tmp_path / "first.json")
    undo = f"brokertwin offsets undo {tmp_path}/first.json {other}"
    assert (done.returncode, done.stderr) == (
        0,
        (
            f"saved the former offsets to {tmp_path}/first.json before the change\n"
            f"2 offsets written, 0 refused, 2 in total\nundo it with: {undo}\n"
        ),
    )
    shown = documents(brokertwin("offsets", "show", other, "--json").stdout)
    assert [(d["group"], d["offset"]) for d in shown] == [(at_end, 120), (moving, 104)]

    commit(other, moving, topic, 110)
    refused = brokertwin(*to, cwd=tmp_path)
    assert refused.returncode == 1
    assert [d["verdict"] for d in documents(refused.stdout)] == ["there already", "goes back"]
    assert brokertwin(*to, "--back", cwd=tmp_path).returncode == 0
    (saved,) = tmp_path.glob("offsets-before-*.json")
    assert committed_at(other) == {at_end: 120, moving: 104}
    undone = brokertwin("offsets", "undo", tmp_path / "first.json", other, "--dry-run", "--json")
    assert [d["result"] for d in documents(undone.stdout)] == ["would be undone"] * 2
    assert brokertwin("offsets", "undo", saved, other).returncode == 0
    assert committed_at(other) == {at_end: 120, moving: 110}
    undone = brokertwin("offsets", "undo", tmp_path / "first.json", other, "--json")
    assert [d["result"] for d in documents(undone.stdout)] == [
        *("undone", "changed since: left alone"),
    ]
    assert (undone.returncode, committed_at(other)) == (1, {moving: 110})
    wrong = brokertwin("offsets", "undo", saved, kafka)
    assert wrong.returncode == 2
    assert "Pass the address of the cluster that was changed" in wrong.stderr
    assert brokertwin(*to, "--back", cwd=tmp_path).returncode == 0
    brokertwin("offsets", "export", other, "--out", tmp_path / "o.csv", "--group", moving)
    tool = ("--reset-offsets", "--group", moving, "--dry-run", "--from-file", tmp_path / "o.csv")
    output = run_tool(kafka, "consumer.group.ConsumerGroupCommand", *map(str, tool))
    assert re.search(rf"{moving}\s+{topic}\s+0\s+20\b", output), "Kafka's own tool reads the file"


@pytest.mark.kafka
def test_what_an_aborted_transaction_commits_is_not_read(kafka: str) -> None:
    name = fresh("transactional")
    create(kafka, name)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    member = Consumer({"bootstrap.servers": kafka, "group.id": name})
    metadata = member.consumer_group_metadata()
    for offset, is_aborted in ((3, False), (17, True), (5, False)):
        producer.begin_transaction()
        place = TopicPartition(name, 0, offset)
        producer.send_offsets_to_transaction([place], metadata, PATIENCE_S)
        end = producer.abort_transaction if is_aborted else producer.commit_transaction
        end(PATIENCE_S)
    member.close()
    moves = documents(brokertwin("offsets", "history", kafka, name, "--json").stdout)
    assert [(m["after"], m["direction"]) for m in moves] == [(3, "first"), (5, "forth")]


@pytest.mark.kafka
def test_a_group_with_members_is_left_alone(kafka: str, tmp_path: Path) -> None:
    group = fresh("with-members")
    create(kafka, group)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    assigned: list[object] = []
    consumer.subscribe([group], on_assign=lambda _, given: assigned.extend(given))
    while not assigned:
        consumer.poll(0.1)
    join_others(kafka, group)
    file = tmp_path / "o.csv"
    file.write_text("".join(f"{group}{kind},{group},0,0\n" for kind in ("", "-share", "-streams")))
    done = brokertwin("offsets", "export", file, "--to", kafka, "--json")
    consumer.close()
    assert (done.returncode, done.stderr) == (1, "0 offsets written, 3 refused, 3 in total\n")
    assert [d["verdict"] for d in documents(done.stdout)] == [
        *("the group has members", "a share group", "the group has members"),
    ]


def join_others(bootstrap: str, name: str) -> None:
    """A member of a share group and one of a streams group, both of which read the topic `name`."""
    member = {"memberId": str(uuid4()), "memberEpoch": 0}
    topology = {"epoch": 1, "subtopologies": [{"subtopologyId": "0", "sourceTopics": [name]}]}
    streams = {"rebalanceTimeoutMs": 60_000, "processId": "p", "topology": topology}
    tasks = {key: list[str]() for key in ("activeTasks", "standbyTasks", "warmupTasks")}
    with client_at(bootstrap) as client:
        share = {"groupId": f"{name}-share", **member, "subscribedTopicNames": [name]}
        wait_until(lambda: client.call("SHARE_GROUP_HEARTBEAT", 1, share)["errorCode"] == 0)
        body = {"groupId": f"{name}-streams", **member, **streams, **tasks}
        wait_until(lambda: client.call("STREAMS_GROUP_HEARTBEAT", 0, body)["errorCode"] == 0)


@pytest.mark.kafka
def test_offsets_topic_of_a_job_names_the_committing_member(kafka: str, tmp_path: Path) -> None:
    bench = ConsumerBench()
    bench.join("a", "foo")
    for _ in range(2):
        assert bench.commit("a", 2) == 0
    topic = f"{fresh('job')}.{offsets_topic('bench')}"
    create(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka})
    for row in bench.rows:
        if row.topic == offsets_topic("bench"):
            producer.produce(topic, key=row.key, value=row.value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    backup, before = tmp_path / "backup", tmp_path / "before"
    create(kafka, f"{topic}.new")
    done = brokertwin("offsets", "import", kafka, before, "--offsets-topic", f"{topic}.new")
    assert done.stderr.startswith("0 rows of cluster ")
    assert brokertwin("offsets", "show", before, "--json").stdout == "", "it is there, and empty"
    done = brokertwin("offsets", "import", kafka, backup, "--offsets-topic", topic)
    assert re.search(rf"\d+ rows of cluster .+/{topic}", done.stderr), done.stderr
    again = brokertwin("offsets", "import", kafka, backup, "--offsets-topic", topic)
    assert re.search(rf"0 rows of cluster .+/{topic}", again.stderr), again.stderr
    moves = documents(brokertwin("offsets", "history", backup, "g", "--json").stdout)
    assert [(m["before"], m["after"]) for m in moves] == [(None, 100), (100, 100)]
    assert all(str(m["by"]).startswith("a (client bench at ") for m in moves)
    refused = brokertwin("offsets", "import", kafka, backup)
    assert refused.returncode == 2
    assert "Use one directory for each cluster." in refused.stderr


FORMATTED = (
    "[parcels,scans,{}]::OffsetAndMetadata(offset={}, leaderEpoch=Optional[2], metadata=,"
    " commitTimestamp=166135176{}150, expireTimestamp=None)\n"
)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_output_of_the_formatter_is_a_source(tmp_path: Path, is_compressed: bool) -> None:
    file = tmp_path / "pasted.txt"
    text = FORMATTED.format(0, 6, 8) + FORMATTED.format(1, 3, 8) + FORMATTED.format(0, 2, 9)
    file.write_bytes(gzip.compress(text.encode()) if is_compressed else text.encode())
    moves = documents(brokertwin("offsets", "history", file, "parcels", "--json").stdout)
    assert [(m["partition"], m["after"], m["direction"], m["row"]) for m in moves] == [
        *((0, 6, "first", "line 1"), (1, 3, "first", "line 2"), (0, 2, "back", "line 3")),
    ]
    assert {str(m["by"]) for m in moves} == {"not in this output"}
    shown = documents(brokertwin("offsets", "show", file, "--json").stdout)
    assert [(d["partition"], d["offset"]) for d in shown] == [(0, 2), (1, 3)]
    earlier = ("offsets", "show", file, "--at", "2022-08-24T14:36:08.500", "--json")
    assert [d["offset"] for d in documents(brokertwin(*earlier).stdout)] == [6, 3]


def test_a_described_group_is_shown_and_has_no_history(tmp_path: Path) -> None:
    file = tmp_path / "described.txt"
    columns = "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    file.write_text(f"\n{columns}\nscans 0 6 9 3 reader-1-5d66 /10.0.0.9 reader-1\n")
    (shown,) = documents(brokertwin("offsets", "show", file, "--group", "parcels", "--json").stdout)
    assert (shown["group"], shown["topic"], shown["offset"]) == ("parcels", "scans", 6)
    history = brokertwin("offsets", "history", file, "parcels")
    assert history.returncode != 0
    nameless = brokertwin("offsets", "show", file)
    assert "--group" in nameless.stderr.replace("\n", " ")
    assert nameless.returncode == 2


def test_a_file_without_offsets_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("[2026-11-26 20:17:48,602] INFO started (kafka.server.KafkaServer)\n")
    done = brokertwin("offsets", "show", file)
    assert done.returncode == 2
    assert "has no committed offset that can be read" in done.stderr
