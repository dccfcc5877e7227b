"""`run`, `send`, `state` and `dead-letters` as a user calls them, with a real broker and Spark."""

import json
import re
import signal
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from brokertwin.cli.watching.status import Phase
from brokertwin.kafka_io import placement, topics
from brokertwin.sinks import snapshot_store
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log, state_reader
from brokertwin.streaming.job import job
from tests.support.commands import WAIT_S, Commands, kill_tree, lines_of
from tests.support.jobs import CAPTURES, JobBench
from tests.support.patience import wait_until
from tests.support.typed_commands import free_port
from tests.support.watched import document_at

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CAPTURE = "fetch_session_assign"
EVERY_BATCH = ("--snapshot-every", "1 batch")
CHECKED = ("--snapshot-suite", "default", "--check-every", "1 batch", "--check-policy", "hold")
KINDS = ("snapshot", "requests", "responses", "records")
SMALL_BATCHES = {"BROKERTWIN_MAX_OFFSETS_PER_TRIGGER": "40"}


def assert_progress_is_reported(lines: list[dict[str, Any]], bench: JobBench, first: int) -> None:
    """What `run --json` prints: a line for each micro-batch from the first, to the topic's end."""
    last = checkpoint_log.committed(bench.checkpoint)
    assert [line["batch"] for line in lines] == list(range(first, last + 1))
    assert all(0 < line["seconds"] < WAIT_S for line in lines)
    requests = topics.full_name(bench.prefix, topics.REQUESTS)
    read = [
        sum(checkpoint_log.end_offsets(bench.checkpoint, batch)[requests].values())
        for batch in range(first - 1, last + 1)
    ]
    assert [line["events"] for line in lines] == [end - begin for begin, end in pairwise(read)]
    end = lines[-1]
    assert end["lag"] == 0
    assert end["state_bytes"] > 0
    assert set(end["fetch_sessions"]) == {"sessions", "partitions_cached", "evictions"}


def assert_snapshots_are_whole(bench: JobBench, directory: str) -> int:
    """Check that snapshots equal the checkpoint at their micro-batch; return the newest batch."""
    snapshot_manifests = snapshot_store.list_all(Path(directory))
    for each in snapshot_manifests:
        cells = snapshot_store.read_cells(Path(directory) / each.name)
        assert cells == state_reader.read_cells(bench.checkpoint, each.batch)
    return snapshot_manifests[-1].batch


def assert_all_kinds_are_checked(errors: str, newest: int) -> None:
    made = re.findall(r"check of micro-batch (\d+): (\d+) of (\d+) \w+ met, ([\d,]+) (\w+)", errors)
    assert [each for each in made if each[1] != each[2]] == []
    assert {kind for batch, *_, kind in made if int(batch) == newest} == {"offsets", *KINDS[1:]}
    assert {kind for *_, rows, kind in made if rows != "0"} >= set(KINDS[1:])


def assert_a_check_stops_it(commands: Commands, places: tuple[str, ...]) -> None:
    """A failing suite stops the job with exit code 3; a rejected snapshot is not listed."""
    mine = Path(places[1]).parent / "mine.yaml"
    mine.write_text(
        "expectations: [{type: expect_table_row_count_to_equal, kwargs: {value: 9999}}]"
    )
    before = snapshot_store.list_all(Path(places[1]))
    stops = ("--check-every", "1 batch", "--check-suite", str(mine), "--check-policy", "stop")
    code, _, errors = commands.call("run", "--available-now", *places, *stops)
    assert (code, "A failed check stopped the job: the check of" in errors) == (3, True), errors
    code, out, errors = commands.call("snapshot", "take", *places, "--suite", str(mine), "--json")
    assert code == 3, errors
    assert json.loads(out)["rejected"] == ["expect_table_row_count_to_equal is not met"]
    assert snapshot_store.list_all(Path(places[1])) == before


def test_a_job_that_is_stopped_and_killed_loses_nothing_and_shows_nothing_twice(
    commands: Commands,
) -> None:
    bench = commands.bench
    placement.write(bench.client, bench.prefix, job.placements(bench.settings))
    sending = ("send", str(CAPTURES / f"{CAPTURE}.jsonl.gz"), "--json", "--pack", "3")
    code, out, _ = commands.call(*sending)
    sent = json.loads(out)["sent"]
    assert (code, sent) == (0, 513)

    stopped = commands.start("run", **SMALL_BATCHES)
    commands.wait_for(stopped, planned=1, committed=0)
    stopped.send_signal(signal.SIGTERM)
    _, errors = stopped.communicate(timeout=WAIT_S)
    assert stopped.returncode == 0, errors
    assert "SIGTERM: waiting for the running micro-batch" in errors
    planned = checkpoint_log.planned(bench.checkpoint)
    assert planned == checkpoint_log.committed(bench.checkpoint)

    places = ("--snapshots", str(bench.checkpoint.parent / "snapshots"))
    killed = commands.start("run", *EVERY_BATCH, *places, **SMALL_BATCHES)
    commands.wait_for(killed, planned=planned + 1, committed=planned)
    kill_tree(killed)
    assert killed.returncode == -signal.SIGKILL
    responded = {row.id for row in bench.rows(outputs.RESPONSES)}
    assert 0 < len(responded) < sent
    next_batch = checkpoint_log.committed(bench.checkpoint) + 1

    code, out, errors = commands.call("snapshot", "take", *places, "--json")
    assert (code, json.loads(out)["batch"]) == (0, next_batch - 1), errors
    assert_snapshots_are_whole(bench, places[1])

    ends = (
        "--available-now",
        "--json",
        *EVERY_BATCH,
        *places,
        *CHECKED,
        "--check-on",
        ",".join(KINDS),
    )
    code, out, errors = commands.call("run", *ends, **SMALL_BATCHES)
    assert code == 0, errors
    newest = assert_snapshots_are_whole(bench, places[1])
    assert newest == checkpoint_log.committed(bench.checkpoint)
    assert f"snapshot of micro-batch {newest} (" in errors
    assert "all committed" in errors
    assert_all_kinds_are_checked(errors, newest)
    assert_a_check_stops_it(commands, places)
    reported = lines_of(out)
    assert_progress_is_reported(reported, bench, next_batch)
    responses = bench.rows(outputs.RESPONSES)
    assert len(responses) - len(responded) <= reported[-1]["counts"][outputs.RESPONSES] <= sent
    assert {row.id for row in responses} == {
        f"{CAPTURE}.jsonl:{number}" for number in range(1, sent + 1)
    }
    assert len(responses) == sent
    bench.assert_live_run_equals_replay("a")
    assert_its_topics_are_read(commands, sent)


def assert_its_topics_are_read(commands: Commands, sent: int) -> None:
    """What Spark has written, killed once, is a recording: replayed, explained and audited."""
    code, out, errors = commands.call("replay", "--job", "--compare", "--json")
    compared = json.loads(out)
    assert (code, compared["agree"], compared["of"]) == (0, sent, sent), errors
    assert "using the job's own order" in errors
    code, out, errors = commands.call("replay", "records", "-")
    written = commands.bench.rows(outputs.RECORDS)
    assert code == 0, errors
    assert out.splitlines() == [(row.value or b"").decode() for row in written]
    session = next(
        each["response"]["sessionId"]
        for row in commands.bench.rows(outputs.RESPONSES)
        if (each := json.loads(row.value or b"{}")) and (each["response"] or {}).get("sessionId")
    )
    code, out, errors = commands.call("explain", "session", str(session), "--job")
    assert (code, "FETCH" in out) == (0, True), errors
    code, out, errors = commands.call("audit", "--job", "--json")
    assert code in (0, 1), errors
    places = {one["place"] for each in lines_of(out) for one in each["evidence"]}
    assert places
    assert all(place.startswith(f"{CAPTURE}.jsonl:") for place in places), places


def assert_it_is_watched(port: int) -> None:
    wait_until(lambda: document_at(port).state is not None)
    status = document_at(port)
    assert status.job is not None
    assert (status.phase, status.job.batch, status.job.dead_letters) == (
        Phase.RUNNING, 0, {"not JSON": 1},
    )  # fmt: skip
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_S) as response:
        assert response.read() == b"ok\n"


def test_requests_refused_at_the_edge_and_in_the_job(commands: Commands) -> None:
    bench = commands.bench
    code, _, errors = commands.call("send", "-", text="{}")
    assert code == 2
    assert "Start `brokertwin run` first" in errors

    bench.produce([b"nonsense"], b"a")
    port = free_port()
    started = commands.start("run", "--http-listen", str(port), "--spark-ui")
    commands.wait_for(started, planned=0, committed=0)
    assert_it_is_watched(port)
    code, _, errors = commands.call("run", "--available-now")
    assert code == 2
    assert "Another job is running on the checkpoint" in errors

    code, out, _ = commands.call("state", "--json")
    assert code == 0
    assert [row["cell"] for row in lines_of(out)] == ["a"]
    code, _, errors = commands.call("state", "--at", "99")
    assert (code, "no state of micro-batch 99" in errors) == (2, True)

    header = {"requestApiKey": 18, "requestApiVersion": 0}
    good = json.dumps({"requestHeader": header, "request": {}})
    text = f'{good}\nnonsense\n{{"kind": "tick"}}\n{good}\n'
    code, out, _ = commands.call("send", "-", text=text)
    assert code == 1
    assert "sent 2 events" in out
    assert "stdin:2" in out
    assert "internal kind from outside" in out

    wait_until(lambda: document_at(port).responses == {"API_VERSIONS": 2})
    code, out, _ = commands.call("top", f"127.0.0.1:{port}", "--once")
    assert (code, "API_VERSIONS" in out) == (0, True)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=WAIT_S)
    assert started.returncode == 0, errors
    assert f"status page at http://127.0.0.1:{port}/" in errors
    ui = re.search(r"Spark UI at (http://\S+)", errors)
    assert ui is not None, errors

    code, out, _ = commands.call("dead-letters", "list", "--json")
    [letter] = lines_of(out)
    assert (code, letter["reason"], letter["input"]) == (0, "not JSON", "nonsense")
    place = f"{letter['partition']}/{letter['offset']}"
    code, out, _ = commands.call("dead-letters", "show", place)
    assert code == 0
    assert "nonsense" in out
    code, _, errors = commands.call("dead-letters", "show", "9/9")
    assert code == 2
    assert "no dead letter" in errors


def test_a_second_signal_ends_at_once(commands: Commands) -> None:
    """The batch cannot commit: its worker is held."""
    commands.bench.produce([b"{}"] * 10, b"a")
    running = commands.start("run")
    commands.wait_for(running, planned=0, committed=-1)
    frozen = [
        child
        for child in psutil.Process(running.pid).children(recursive=True)
        if "java" in child.name()
    ]
    for java in frozen:
        java.suspend()
    try:
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        assert any("SIGTERM: waiting" in line for line in running.stderr)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        running.wait(WAIT_S)
        assert running.returncode == 1
    finally:
        for java in frozen:
            java.kill()
    assert checkpoint_log.committed(commands.bench.checkpoint) == checkpoint_log.NONE


def test_trace_prints_the_lines_of_the_jobs_brokers(commands: Commands) -> None:
    bench = commands.bench
    placement.write(bench.client, bench.prefix, job.placements(bench.settings))
    assert commands.call("send", str(CAPTURES / f"{CAPTURE}.jsonl.gz"))[0] == 0
    code, _, errors = commands.call("run", "--available-now", "--era", "2.0", "--trace")
    assert code == 0, errors
    created = r"\[\d\d:\d\d:\d\d,\d{3}\] Created fetch session FetchSession\(id=\d+, privileged="
    assert re.search(created, errors), errors
