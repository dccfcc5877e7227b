"""The streaming job with a real Spark and a real Kafka broker."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.sinks import snapshot_store
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import layers, outputs
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.streaming.checkpoint import (
    checkpoint_log,
    facts,
    snapshots,
    state_reader,
    store_files,
)
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.clock import now_ms
from brokertwin.streaming.job.measures import QueryProgress
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import ItemKind
from tests.support.jobs import JobBench, capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MakeBench = Callable[..., JobBench]


@pytest.fixture
def make_bench(kafka: str, tmp_path: Path) -> MakeBench:
    return lambda **flags: JobBench(kafka, tmp_path, **flags)


def request(event_id: str, key: int, version: int, body: dict[str, Any], **event: Any) -> bytes:
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
    given = {"id": event_id, "cluster": "a", "requestHeader": header, "request": body, **event}
    return msgspec.json.encode(given)


def api_versions(event_id: str, **event: Any) -> bytes:
    return request(event_id, 18, 0, {}, **event)


def create_topic(event_id: str, name: str, partitions: int, **event: Any) -> bytes:
    topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1}
    return request(event_id, 19, 7, {"topics": [topic], "timeoutMs": 1000}, **event)


def test_captures_of_two_clusters_stopped_and_restarted_in_the_middle(
    spark: "SparkSession", make_bench: MakeBench, tmp_path: Path
) -> None:
    """Captures in, responses out, as one process gives them for each cluster alone."""
    bench = make_bench(clusters=("a", "b"), max_offsets_per_trigger=300)
    first = capture("fetch_session_assign", bench.edge("a"))
    second = capture("idempotent_producer_ck", bench.edge("b"))
    bench.send("a", first)
    bench.send("b", second)
    stop = runner.StopReason(60)
    stopped = bench.run(spark, stop, observe=lambda _: stop.wanted.set())
    assert stopped.is_clean
    assert 0 < len(bench.rows(outputs.RESPONSES)) < len(first) + len(second)
    first_loads = loads_of(bench)
    assert sum(first_loads.values()) > 0

    seen: list[QueryProgress] = []
    ended = bench.run(spark, observe=seen.append)
    assert ended.is_clean
    assert ended.committed > stopped.committed
    assert seen[-1].lag == 0
    assert seen[-1].counts[outputs.RESPONSES] > 0
    assert seen[-1].state_bytes > 0
    second_loads = loads_of(bench)
    assert all(0 <= first_loads.get(name, 0) < second_loads[name] for name in ("a", "b"))

    sent = {event.id for event in (*first, *second)}
    responses = [row.id for row in bench.all_rows(outputs.RESPONSES)]
    assert set(responses) == sent
    assert len(responses) == len(sent), "a stop in order repeats nothing"
    assert bench.rows(outputs.DEAD_LETTERS) == []
    bench.assert_live_run_equals_replay("a", "b")
    clusters = {document["cluster"] for document in bench.documents(outputs.RESPONSES)}
    assert clusters == {"a", "b"}

    cells = state_reader.read_cells(bench.checkpoint)
    for name in ("a", "b"):
        alone = Cell(bench.cell_settings(name))
        replay(bench, alone)
        assert cells[name] == alone.columns()
    logs = state_rows.rows(ItemKind.LOGS, cells)
    assert {row["cell"] for row in logs} == {"a", "b"}
    assert {row["topic"] for row in logs if row["cell"] == "a"}.isdisjoint(
        row["topic"] for row in logs if row["cell"] == "b"
    )
    assert [row["cell"] for row in state_rows.counts(cells)] == ["a", "b"]


def loads_of(bench: JobBench) -> dict[str, int]:
    """Return processor times of the cells' events from the checkpoint."""
    known = facts.read(bench.checkpoint)
    assert known is not None
    return known.loads


def replay(bench: JobBench, cell: Cell) -> None:
    for row in bench.all_rows("requests"):
        if row.key == cell.settings.name.encode() and row.value is not None:
            cell.handle(row.value, row.position)


def test_each_poison_row_is_a_dead_letter_and_the_query_continues(
    spark: "SparkSession", make_bench: MakeBench
) -> None:
    bench = make_bench()
    good = [api_versions("before"), create_topic("topic", "orders", 1)]
    wrong_types = request("types", 3, 12, {"topics": "many"})
    poison = {
        "not JSON": b"{",
        "not UTF-8": b'{"id": "\xff\xfe"}',
        "too deeply nested": request("deep", 3, 12, {}).replace(b"{}", b"[" * 200_000),
        "too large": api_versions("large", principal="x" * (8 * 1024 * 1024)),
        "number out of range": api_versions("range", broker=2**40),
        "wrong type": wrong_types,
        "missing field": msgspec.json.encode({"id": "header", "cluster": "a"}),
        "unknown API": request("api", 999, 0, {}),
        "unsupported version": request("version", 3, 99, {}),
        "not built yet": request("built", 80, 0, {}),
        "unknown cluster": api_versions("cluster", cluster="elsewhere"),
        "unknown broker": api_versions("broker", broker=9),
        "internal kind from outside": msgspec.json.encode(
            {"id": "kind", "cluster": "a", "kind": "complete", "of": "x"}
        ),
        "no such partition of responses": api_versions("reply", replyTo=7),
    }
    bench.produce([good[0], *poison.values(), None, good[1]], b"a")
    cell_partition = next(row.partition for row in bench.all_rows("requests"))
    bench.produce([api_versions("misplaced")], b"a", (cell_partition + 1) % 3)
    bench.produce([api_versions("keyless")], None, 0)
    bench.produce([api_versions("foreign")], b"nobody", 2)
    assert bench.run(spark).is_clean

    letters = bench.documents(outputs.DEAD_LETTERS)
    reasons = [letter["reason"] for letter in letters]
    expected = [*poison, "not JSON", "not in the partition of its key"]
    assert sorted(reasons) == sorted([*expected, "key of another cell", "key of another cell"])
    assert all(letter["detail"] for letter in letters)
    assert max(len(row.value or b"") for row in bench.all_rows(outputs.DEAD_LETTERS)) < 200_000
    responses = {response["id"]: response for response in bench.documents(outputs.RESPONSES)}
    assert responses["before"]["response"]["errorCode"] == 0
    assert responses["topic"]["response"]["topics"][0]["errorCode"] == 0
    legible = {"types", "api", "version", "built", "cluster", "broker", "misplaced", "keyless"}
    assert {event_id for event_id, response in responses.items() if "error" in response} >= legible


def test_the_clock_ends_a_long_poll(spark: "SparkSession", make_bench: MakeBench) -> None:
    bench = make_bench()
    wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    fetch = {
        "maxWaitMs": 2500,
        "minBytes": 1,
        "maxBytes": 1000,
        "topics": [{"topic": "orders", "partitions": [wanted]}],
    }
    now = now_ms()
    bench.produce(
        [create_topic("create", "orders", 1, time=now), request("poll", 1, 12, fetch, time=now)],
        b"a",
    )
    assert bench.run(spark).is_clean
    responses = {response["id"]: response for response in bench.documents(outputs.RESPONSES)}
    assert responses["poll"]["response"]["errorCode"] == 0
    ticks = [row for row in bench.all_rows("requests") if b'"tick"' in (row.value or b"")]
    assert ticks
    waited = responses["poll"]["responseTime"] - responses["create"]["responseTime"]
    assert waited == 2500
    bench.assert_live_run_equals_replay("a")


def commit(event_id: str, partitions: range, metadata: str) -> bytes:
    """OffsetCommit of a group without members."""
    entries = [
        {"partitionIndex": number, "committedOffset": 5, "committedMetadata": metadata}
        for number in partitions
    ]
    body = {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "wide", "partitions": entries}],
    }
    return request(event_id, 8, 8, body)


def test_a_state_row_of_20_mb(spark: "SparkSession", make_bench: MakeBench, tmp_path: Path) -> None:
    """Store 5200 committed offsets with 4 KiB of metadata each; a snapshot of them is consistent.

    A further commit keeps the base of the others.
    """
    bench = make_bench()
    size, chunk, random = 5200, 400, Random(20)
    commits = [
        commit(f"commit-{start}", range(start, start + chunk), random.randbytes(2048).hex())
        for start in range(0, size, chunk)
    ]
    coordinator = request("coordinator", 10, 4, {"keyType": 0, "coordinatorKeys": ["g"]})
    bench.produce([create_topic("create", "wide", size), coordinator, *commits], b"a")
    assert bench.run(spark).is_clean
    cells = state_reader.read_cells(bench.checkpoint)
    assert sum(map(len, cells["a"].values())) > 20_000_000

    bench.produce([commit("again", range(1), "changed"), api_versions("after")], b"a")
    ended = bench.run(spark)
    assert ended.is_clean
    responses = {response["id"] for response in bench.documents(outputs.RESPONSES)}
    assert {"create", "again", "after"} <= responses
    assert bench.rows(outputs.DEAD_LETTERS) == []
    offsets = state_rows.rows(ItemKind.OFFSETS, state_reader.read_cells(bench.checkpoint))
    assert len(offsets) == size
    assert offsets[0]["metadata"] == "changed"
    assert len({base_of_offsets(bench.checkpoint, batch) for batch in (0, ended.committed)}) == 1

    taken = snapshots.take(bench.checkpoint, tmp_path / "snapshots")
    assert (taken.snapshot.batch, taken.snapshot.offsets) == (ended.committed, size)
    assert snapshot_store.read_cells(taken.path) == state_reader.read_cells(bench.checkpoint)
    ends = taken.snapshot.source_offsets[f"{bench.prefix}.requests"]
    assert sum(ends.values()) == len(commits) + 4
    earlier = state_reader.read_cells(bench.checkpoint, 0)
    first = state_rows.rows(ItemKind.OFFSETS, earlier)
    assert all(offset["metadata"] != "changed" for offset in first)
    compacted = bench.rows("offsets.a")
    assert len({row.key for row in compacted}) == size


def base_of_offsets(checkpoint: Path, batch: int) -> bytes:
    known = facts.read(checkpoint)
    assert known is not None
    state = store_files.read_states(checkpoint, batch, [known.groups["a"]])[known.groups["a"]]
    _, columns = state_reader.of_row(state)
    return msgspec.msgpack.decode(columns["groups"], type=layers.LayeredColumn).base


def test_missing_state_is_rejected(
    spark: "SparkSession", make_bench: MakeBench, tmp_path: Path
) -> None:
    bench = make_bench(event_time="recorded")
    for expected, read in ((bench.checkpoint, 0), (tmp_path / "nowhere", None)):
        with pytest.raises(UserError, match=f"{expected} is not a checkpoint"):
            state_reader.read_cells(expected, read)
    bench.produce([api_versions("one")], b"a")
    assert bench.run(spark).is_clean
    assert state_reader.read_cells(bench.checkpoint).keys() == {"a"}
    with pytest.raises(UserError, match="no state of micro-batch 1") as refused:
        state_reader.read_cells(bench.checkpoint, 1)
    assert "0 to 0" in refused.value.hint
    for changelog in bench.checkpoint.rglob("*.changelog"):
        changelog.unlink()
    with pytest.raises(UserError, match="state of micro-batch 0") as refused:
        state_reader.read_cells(bench.checkpoint, 0)
    assert "changelog does not exist" in refused.value.hint


def test_the_logs_of_a_checkpoint(spark: "SparkSession", make_bench: MakeBench) -> None:
    bench = make_bench(event_time="recorded")
    assert checkpoint_log.planned(bench.checkpoint) == checkpoint_log.NONE
    bench.produce([api_versions("one")], b"a")
    ended = bench.run(spark)
    assert ended == runner.Ended(planned=0, committed=0)
    ends = checkpoint_log.end_offsets(bench.checkpoint, 0)[f"{bench.prefix}.requests"]
    assert sum(ends.values()) == 1


def test_keys_map_to_the_java_producers_partitions(
    spark: "SparkSession", make_bench: MakeBench
) -> None:
    """Spark's own sink, without a partition, against `partition_of`."""
    bench = make_bench(requests_partitions=7)
    keys = [f"cluster-{number}" * (number % 4) for number in range(40)]
    rows = spark.createDataFrame([(key, "x") for key in keys], "key STRING, value STRING")
    writer = rows.write.format("kafka").options(**bench.client.for_spark())
    writer.option("topic", f"{bench.prefix}.requests").save()
    found = {(row.key, row.partition) for row in bench.all_rows("requests")}
    assert found == {(key.encode(), partition_of(key.encode(), 7)) for key in keys}
