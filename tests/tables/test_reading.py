"""Reading a state as tables: sources, moments, and SQL."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from brokertwin import tables
from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from brokertwin.sinks import snapshot_store
from brokertwin.streaming.checkpoint import facts
from brokertwin.tables import Moment, Tables
from tests.support.machine import CLUSTER, Bench
from tests.support.snapshots import NOON_MS, taken
from tests.support.sources import ROOT

CAPTURE = ROOT / "tests" / "captures" / "group_kp.jsonl.gz"

SETTINGS = properties.read(CAPTURE.with_name("broker.properties"))


@pytest.fixture(scope="module")
def replayed() -> Tables:
    return tables.read(CAPTURE, broker_settings=SETTINGS)


def with_topics(*names: str) -> dict[str, dict[str, bytes]]:
    bench = Bench()
    for name in names:
        bench.topic(name, 1)
    return {CLUSTER: bench.cell.columns()}


def test_a_replayed_recording_can_be_queried(replayed: Tables) -> None:
    query = """
        SELECT g.state, count(*) AS partitions, max(o.commitTimestamp) AS at
        FROM groups g JOIN offsets o USING (groupid) GROUP BY ALL
    """
    [row] = replayed.sql(query).to_pylist()
    assert (row["state"], row["partitions"]) == ("Empty", 4)
    assert row["at"].tzinfo is not None and row["at"].year == 2026
    frame = replayed.pandas("logs")
    internal = frame[frame["topic"] == "__consumer_offsets"]
    assert len(internal) == int(SETTINGS["offsets.topic.num.partitions"])
    assert replayed.names == list(tables.schemas.BY_NAME)


def test_a_recording_is_read_at_an_exchange_or_a_time() -> None:
    early = tables.read(CAPTURE, as_of="group_kp.jsonl:40", broker_settings=SETTINGS)
    assert early.arrow("members").num_rows == 1
    [joined] = early.arrow("members").to_pylist()
    assert joined["clientId"] == "kp-consumer"
    before = tables.read([str(CAPTURE)], as_of=datetime(2026, 1, 1, tzinfo=UTC))
    assert before.arrow("groups").num_rows == 0


def test_settings_of_the_recorded_broker_may_be_given() -> None:
    settings = {"offsets.topic.num.partitions": "7"}
    internal = tables.read(CAPTURE, broker_settings=settings).sql(
        "select partitions from topics where topic = '__consumer_offsets'"
    )
    assert internal.to_pylist() == [{"partitions": 7}]
    with pytest.raises(UserError, match=r"Invalid broker settings: .*no\.such"):
        tables.read(CAPTURE, broker_settings={"no.such": "1"})


def test_the_newest_snapshot_or_that_of_a_batch_or_time_is_read(tmp_path: Path) -> None:
    for number, names in enumerate([("a",), ("a", "b"), ("a", "b", "c")]):
        made = taken(number, NOON_MS + number * 1000)
        snapshot_store.write(tmp_path, made._replace(cells=with_topics(*names)))

    def topics(**how: Any) -> int:
        return tables.read(tmp_path, **how).arrow("topics").num_rows

    assert (topics(), topics(as_of=0), topics(as_of=1)) == (3, 1, 2)
    late = datetime.fromtimestamp((NOON_MS + 1500) / 1000, UTC)
    assert topics(as_of=late) == 2
    one = tables.read(snapshot_store.find(tmp_path))
    assert one.arrow("topics").num_rows == 3
    assert one.origin.startswith("after micro-batch 2 (")
    with pytest.raises(UserError, match="no snapshot of micro-batch 9"):
        topics(as_of=9)
    with pytest.raises(UserError, match="no snapshot of 2026-11-22 11:59"):
        topics(as_of="2026-11-22T11:59:00")
    with pytest.raises(UserError, match="is a single snapshot"):
        tables.read(snapshot_store.find(tmp_path), as_of=1)


def logs_of_batches(checkpoint: Path, **begun_ms: int) -> None:
    """Write Spark's logs of planned and committed batches."""
    facts.write(checkpoint, facts.JobFacts(1, 4, "p", 1, {"a": 0}, 1, "id", 2))
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir()
    for batch, ms in begun_ms.items():
        plan = ["v1", json.dumps({"batchTimestampMs": ms, "conf": {}}), "{}"]
        (checkpoint / "offsets" / batch[1:]).write_text("\n".join(plan))
        (checkpoint / "commits" / batch[1:]).write_text("v1\n{}")


def test_a_time_selects_the_last_batch_started_by_then(tmp_path: Path) -> None:
    logs_of_batches(tmp_path, b3=NOON_MS, b4=NOON_MS + 1000, b5=NOON_MS + 2000)
    (tmp_path / "commits" / "5").unlink()  # still running

    def batch(moment: Moment | None) -> int:
        return tables.batch_of(tmp_path, moment)

    assert [batch(Moment(ms=NOON_MS + ms)) for ms in (0, 999, 1000, 9999)] == [3, 3, 4, 4]
    assert (batch(None), batch(Moment(batch=3))) == (4, 3)
    with pytest.raises(UserError, match=r"no state at 2026-11-22 12:00:00.122") as raised:
        batch(Moment(ms=NOON_MS - 1))
    assert (
        raised.value.hint == "Its oldest micro-batch, 3, started at 2026-11-22 12:00:00.123+00:00."
    )
    with pytest.raises(UserError, match="no state of micro-batch 5"):
        batch(Moment(batch=5))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("17", Moment(batch=17)),
        (17, Moment(batch=17)),
        (str(NOON_MS), Moment(ms=NOON_MS)),
        ("2026-11-22T12:00:00.123Z", Moment(ms=NOON_MS)),
        ("2026-11-22 13:00:00.123", Moment(ms=NOON_MS)),
    ],
)
def test_a_text_is_parsed_as_a_batch_or_a_time(text: Any, moment: Moment | None) -> None:
    assert tables.moment_of(text, timezone(timedelta(hours=1))) == moment


def test_a_missing_state_is_rejected_with_a_message(tmp_path: Path, replayed: Tables) -> None:
    for source, words in [
        ([], "no source to read"),
        (tmp_path / "none", "does not exist"),
        ([tmp_path, CAPTURE], "must all be recordings"),
        (tmp_path, "not a checkpoint with a committed micro-batch"),
    ]:
        with pytest.raises(UserError, match=words):
            tables.read(source)
    with pytest.raises(UserError, match="'noon' is neither a micro-batch nor a time"):
        tables.moment_of("noon", UTC)
    with pytest.raises(UserError, match="There is no table log"):
        replayed.arrow("log")


@pytest.mark.parametrize(
    ("query", "words", "hint"),
    [
        ("select", "Parser Error", "without SQL"),
        ("select nope from groups", "nope", "without SQL"),
        ("from offset_", "offset_ does not exist", "There are topics, partitions, "),
        ("-- nothing", "is not a query", "SELECT"),
    ],
)
def test_an_invalid_query_is_explained(replayed: Tables, query: str, words: str, hint: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        replayed.sql(query)
    assert hint in raised.value.hint


def test_a_result_is_written_to_parquet_with_its_types(replayed: Tables, tmp_path: Path) -> None:
    table = replayed.sql("select topic, isr, replicas from partitions")
    pq.write_table(table, tmp_path / "file.parquet")
    again = replayed.sql(f"select count(*) as n from '{tmp_path}/file.parquet' where len(isr) = 1")
    assert again.to_pylist() == [{"n": table.num_rows}]
