"""Lines of topics through the functions of the live audit: every form, both key modes."""

import gc
import gzip
import itertools
import re
from collections.abc import Sequence
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.recordings.history.replication import REPLICATION
from brokertwin.streaming.live import operator
from brokertwin.streaming.live.entity import LATE_MS
from brokertwin.streaming.live.reading import TopicLine
from brokertwin.streaming.live.tables import CLIENTS
from tests.support import audits
from tests.support.live import CLUSTER, START_MS, FactsInMemory, LiveTopics, cut
from tests.support.requestlogs import SINGLE, logs_of
from tests.support.sources import ROOT

KROXYLICIOUS = ROOT / "tests" / "requestlogs" / "kroxylicious"
CAPTURE = ROOT / "tests" / "captures" / "txn_fencing_ck.jsonl.gz"


@cache
def lines_of(path: Path, broker: int | None, first: int = 0) -> tuple[TopicLine, ...]:
    texts = gzip.decompress(path.read_bytes()).splitlines()
    return tuple(
        TopicLine("requests/0", first + number, text, CLUSTER, broker)
        for number, text in enumerate(texts)
    )


def audited(lines: Sequence[TopicLine], seed: int, is_bucket: bool = False) -> LiveTopics:
    topics = LiveTopics(is_bucket)
    for part in cut(lines, seed):
        topics.batch(part)
    topics.end()
    return topics


def kinds(topics: LiveTopics) -> set[tuple[str, str, str | None]]:
    newest = {each["id"]: each for each in topics.findings}
    return {
        (each["kind"], topics.with_names(each["subject"]), each["error"])
        for each in newest.values()
        if not each["withdrawn"]
    }


def wanted(recording: str) -> set[tuple[str, str, str | None]]:
    documents = [each.document(1) for each in audits.unfolded(recording)]
    return {(each["kind"], each["subject"], each["error"]) for each in documents}


def request_log() -> list[TopicLine]:
    """The logs of three brokers as agents ship them: in turn, with headers."""
    found: list[TopicLine] = []
    for path in logs_of("leader_kill"):
        found += lines_of(path, int(path.name.split(".")[0].rpartition("-")[2]), len(found))
    return found


KILLED = sorted((ROOT / "tests/score/goldens/broker_killed").glob("*.kafka-request.log.gz"))
AT_CONTROLLERS = re.compile(rb'"requestApiKeyName":"(BROKER_|ALTER_PARTITION)|"listener":"CONT')


def shipped(paths: Sequence[Path], share: float) -> list[TopicLine]:
    """The lines of brokers, each log with a partition, and a last share of the controllers'."""
    every = []
    for path in paths:
        broker = int(path.name.split(".")[0].rpartition("-")[2])
        texts = gzip.decompress(path.read_bytes()).splitlines()
        lines = (TopicLine(f"logs/{broker}", n, t, CLUSTER, broker) for n, t in enumerate(texts))
        every += [line for line in lines if line.value.startswith(b"[")]
    every.sort(key=lambda line: line.value[:25])
    since = int(len(every) * (1 - share))
    of_brokers = (e for e in every[:since] if not AT_CONTROLLERS.search(e.value))
    return [*of_brokers, *every[since:]]


@pytest.mark.parametrize(
    ("paths", "share"),
    [(logs_of("leader_kill"), 0.5), (logs_of("busy_fencing"), 0.5), (KILLED, 0.0)],
    ids=["leader_kill", "busy_fencing", "killed"],
)
def test_parts_that_are_left_out_for_replicas_change_no_finding(
    paths: Sequence[Path], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shipped(paths, share)
    found = audited(lines, 4)
    monkeypatch.setattr(operator, "parts_for_replicas", lambda *_: REPLICATION.parts_of)
    whole = audited(lines, 4)
    assert kinds(found) == kinds(whole)
    assert found.counts == whole.counts


def in_an_agents_json(lines: Sequence[TopicLine]) -> list[TopicLine]:
    """The lines as a log agent ships them, with the host's name in place of a header."""
    return [
        line._replace(
            broker=None,
            value=msgspec.json.encode(
                {
                    "@timestamp": 1_800_000_000.5,
                    "host": {"name": f"kafka-{line.broker}"},
                    "message": line.value.decode(),
                }
            ),
        )
        for line in lines
    ]


@pytest.mark.parametrize("is_bucket", [False, True])
def test_captured_documents_give_the_findings_of_audit(is_bucket: bool) -> None:
    for seed in range(2):
        found = audited(lines_of(CAPTURE, None), seed, is_bucket)
        assert kinds(found) == wanted("txn_fencing_ck")


def test_a_rebalance_is_one_finding_however_many_members_it_has() -> None:
    recording = "classic_rebalance_range"
    texts = audits.lines(*audits.RECORDINGS[recording])
    lines = [TopicLine("requests/0", n, text, CLUSTER) for n, text in enumerate(texts)]
    (one,) = (each for each in audits.whole(recording).findings if each.kind == "rebalances")
    assert len(one.evidence) > one.often
    for most in (1, len(lines)):
        topics = LiveTopics()
        for part in cut(lines, 1, most):
            topics.batch(part)
        topics.end()
        newest = {e["id"]: e for e in topics.findings if e["kind"] == "rebalances"}
        assert len(newest) == one.often
        found = {e["evidence"][-1]["said"].partition(":")[0] for e in newest.values()}
        assert len(found) == one.often, "each is about another generation"


def test_request_logs_give_the_findings_of_audit() -> None:
    assert kinds(audited(request_log(), 3)) == wanted("leader_kill")


def test_request_logs_in_an_agents_json_give_the_findings_of_audit() -> None:
    assert kinds(audited(in_an_agents_json(request_log()), 3)) == wanted("leader_kill")


def test_addresses_in_a_micro_batch_name_the_broker_of_later_ones() -> None:
    """Only Metadata responses show which broker wrote a request log without a header."""
    log, facts = lines_of(SINGLE, None), FactsInMemory()
    later = [line for line in log if b'"FETCH"' in line.value]
    for lines in (log, later):
        assert list(operator.read(lines, START_MS, facts, UTC, lambda _: None))
    assert facts.read()[CLUSTER].spans.keys() == {1}


def test_kroxylicious_halves_are_paired_over_micro_batches() -> None:
    lines = lines_of(KROXYLICIOUS / "json.log.gz", 1)
    one_by_one = LiveTopics()
    for part in cut(lines, 1, most=3):
        one_by_one.batch(part)
    one_by_one.end()
    assert one_by_one.rows["exchanges"], "no exchange was cut"
    assert kinds(one_by_one) == wanted("kroxylicious")


def test_both_key_modes_write_the_same_rows() -> None:
    lines = lines_of(ROOT / "tests" / "captures" / "group_kp.jsonl.gz", None)
    entities, buckets = (audited(lines, 5, is_bucket) for is_bucket in (False, True))
    assert entities.rows == buckets.rows
    assert {"sessions", "producers", "groups", "offsets"} <= entities.rows.keys()


def test_rows_show_the_last_state_of_each_entity() -> None:
    found = audited(lines_of(ROOT / "tests" / "captures" / "group_kp.jsonl.gz", None), 5)
    (group,) = found.table("groups")
    assert (group["generation"], group["members"]) == (6, 0)  # the last member has left
    assert {each["partition"]: each["offset"] for each in found.table("offsets")} == {
        0: 94,
        1: 87,
        2: 96,
        3: 115,
    }
    for producer in found.table("producers"):
        batches = [producer[f"batch_{number}"] for number in range(1, 6)]
        kept = [each for each in batches if each is not None]
        assert kept and producer["last_sequence"] == kept[-1]["last_sequence"]
        for former, later in itertools.pairwise(kept):
            assert later["first_sequence"] == former["last_sequence"] + 1
    assert all(each["epoch"] >= 1 for each in found.table("sessions"))


def test_repeated_and_late_exchanges_are_counted_apart() -> None:
    lines = lines_of(CAPTURE, None)
    late = msgspec.json.decode(lines[0].value)
    late |= {"id": "late", "connection": "late"}
    later = {**late, "time": late["time"] + 2 * LATE_MS}
    topics = LiveTopics()
    for batch in (lines, lines[:7], [later], [late]):
        values = [each if isinstance(each, TopicLine) else row_of(each) for each in batch]
        topics.batch(values)
        topics.batch([])
    topics.end()
    counts = topics.counts
    assert (counts["lines"], counts["repeated"], counts["late"]) == (len(lines) + 9, 7, 1)
    taken = sum(each["requests"] for each in topics.rows_in_state(CLIENTS))
    assert counts["exchanges"] == taken + counts["repeated"] + counts["late"]


def test_exchanges_between_brokers_and_controllers_alone_are_of_no_entity() -> None:
    beats = [each for each in request_log() if b'"BROKER_HEARTBEAT"' in each.value]
    topics = LiveTopics()
    topics.batch(beats)
    assert topics.counts["internal"] == topics.counts["without_entity"] == len(beats) > 0


def row_of(document: dict[str, Any]) -> TopicLine:
    return TopicLine("requests/0", 0, msgspec.json.encode(document), CLUSTER)


@pytest.mark.parametrize("most", [1, 200])
def test_refusals_of_a_client_within_a_minute_are_one_finding(most: int) -> None:
    lines = request_log()
    topics = LiveTopics()
    for part in cut(lines, 1, most):
        topics.batch(part)
    topics.end()
    newest = {e["id"]: e for e in topics.findings if e["kind"] == "refused"}
    of = [(each["subject"], each["evidence"][0]["client"]) for each in newest.values()]
    of_clients = [(subject, client) for subject, client in of if client]
    assert len(of_clients) == len({*of_clients})
    responses = sum(len(e.evidence) for e in audits.unfolded("leader_kill") if e.kind == "refused")
    assert sum(len(each["evidence"]) for each in newest.values()) == responses > len(newest)


def test_no_stage_leaves_a_cycle_for_the_garbage_collector() -> None:
    """The stages pause the collector, so cycles would stay until the end of a task."""
    lines = [*request_log(), *lines_of(ROOT / "tests" / "captures" / "group_kp.jsonl.gz", None)]
    for is_bucket in (True, False):
        audited(lines, 1, is_bucket)  # imports and caches
        gc.collect()
        before = sum(each["collected"] for each in gc.get_stats())
        audited(lines, 1, is_bucket)
        gc.collect()
        assert sum(each["collected"] for each in gc.get_stats()) == before
