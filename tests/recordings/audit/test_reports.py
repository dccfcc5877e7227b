"""Request logs of accidents on real brokers, and what audit and explain say about them."""

from collections import Counter
from functools import cache, partial
from pathlib import Path

import msgspec
import pytest

from brokertwin.gateway.capture.documents import CapturedExchange
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.audit.one_pass import pass_over
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.explain.lso import LsoTimeline
from brokertwin.recordings.explain.transactions import TransactionTimeline
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.findings import (
    ClientThrottled,
    CommitRefused,
    DeliveryLimitReached,
    Finding,
    InstanceHeld,
    LsoHeldBack,
    MemberWentAway,
    OffsetAborted,
    OffsetVanished,
    OffsetWentBack,
    OpenTransactionOf,
    ProducerIdReplaced,
    ProducerKey,
    ProducerReplaced,
    RecordsArchived,
    Vanishing,
)
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.lag import LAGS
from brokertwin.recordings.history.producers import PRODUCERS
from brokertwin.recordings.history.shares import SHARE_GROUPS
from brokertwin.recordings.history.stable_offsets import StableOffset, TransactionInPartition
from brokertwin.recordings.replay import recording
from tests.support.sources import ROOT
from tests.support.synthetic_recording import START, SyntheticRecording, exchange

REPORTS = ROOT / "tests" / "recordings" / "reports"
READING = FileReading(broker=1)
BILLING = ROOT / "examples" / "billing.kafka-request.log.gz"


def path_of(name: str) -> Path:
    return REPORTS / f"{name}.log.gz"


@cache
def history(name: str) -> History:
    return read([path_of(name)], READING).history


def line_of(found: Finding) -> int:
    return int(found.line.place.rpartition(":")[2])


KINDS = {
    "static-848-replaced": {"commit-refused": 2, "rebalances": 1},
    "pid-mapping-newer-producer": {"producer-replaced": 1},
    "aborted-offset-commits-and-deleted-group": {},
    "share-records-given-up": {"records-archived": 1, "records-redelivered": 1, "rebalances": 1},
    "lso-held-back": {"lso-held-back": 1, "rebalances": 1},
    "kafka-3.9.1-old-clients": {"deprecated-api-version": 2, "refused": 3, "rebalances": 1},
}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_accident_has_these_findings_and_no_others(name: str) -> None:
    passed = pass_over(partial(read_files, [path_of(name)], READING)).history
    for found in (findings(history(name)), findings(passed)):
        assert Counter(each.kind for each in found) == KINDS[name]


def captured(api: str, version: int, client: bytes) -> bytes:
    """The capture's document of a request whose version cannot be decoded."""
    header = API_KEYS[api].to_bytes(2) + version.to_bytes(2) + bytes(4)
    each = CapturedExchange(START, 0.0, "c1", None)
    each.read_request(header + len(client).to_bytes(2) + client + b"body")
    return each.document(0.0, True, None) + b"\n"


def test_removed_versions_are_found_in_requests_that_a_capture_could_not_decode(
    tmp_path: Path,
) -> None:
    file = tmp_path / "old.jsonl"
    sent = [("PRODUCE", 2, b"old"), ("PRODUCE", 2, b"old"), ("FETCH", 3, b"broker-1-fetcher-0")]
    new = ("METADATA", 99, b"new")
    ordinary = b'{"time":1,"requestHeader":{"requestApiKey":3,"requestApiVersion":0},"request":{}}'
    file.write_bytes(ordinary + b"\n" + b"".join(captured(*each) for each in (*sent, new)))
    for found in (
        read([file], READING).history,
        pass_over(partial(read_files, [file], READING)).history,
    ):
        assert found.undecoded.said == (
            "4 requests could not be decoded: PRODUCE v2 (2), FETCH v3 (1), METADATA v99 (1)."
        )
        (old,) = findings(found)
        assert (old.kind, old.subject, old.total) == ("deprecated-api-version", "client old", 2)
        assert old.what == "Uses 1 API version that Kafka 4 refuses: PRODUCE v2 (2)."
        assert old.evidence[-1].place == "old.jsonl:3"


@pytest.mark.parametrize(
    ("api", "version", "is_found"),
    [("JOIN_GROUP", 0, False), ("LIST_OFFSETS", 0, True), ("LIST_OFFSETS", 1, False)],
)
def test_a_removed_version_is_one_that_the_schemas_of_kafka_4_lack(
    api: str, version: int, is_found: bool
) -> None:
    line = exchange_of(exchange(0, "old", api, {}, {})).line
    assert msgspec.structs.replace(line, version=version).is_removed is is_found


def test_a_static_member_that_is_away_gets_113_and_a_replaced_one_25() -> None:
    away, replaced = history("static-848-replaced").found(GROUPS, CommitRefused)
    (cause,) = away.causes
    assert isinstance(cause, MemberWentAway)
    assert (away.code, cause.by.place[-3:]) == (113, ":11")
    (holder,) = replaced.causes
    assert isinstance(holder, InstanceHeld)
    assert (replaced.code, holder.instance, holder.member) == (25, "i-z", "mem-y")


def test_the_newer_producer_of_a_transactional_id_is_the_cause_of_49() -> None:
    found = list(history("pid-mapping-newer-producer").found(PRODUCERS, ProducerReplaced))
    assert [line_of(each) for each in found] == [7, 8]
    for each in found:
        (cause,) = each.causes
        assert isinstance(cause, ProducerIdReplaced)
        assert (cause.by.client, cause.producer_id) == ("flink-sink-new", 15)


def test_aborted_and_deleted_offsets_are_no_offsets_that_went_back() -> None:
    of = history("aborted-offset-commits-and-deleted-group")
    assert list(of.found(GROUPS, OffsetWentBack)) == []
    aborted = list(of.found(GROUPS, OffsetAborted))
    assert [(line_of(each), each.offset) for each in aborted] == [(9, 10), (23, 12)]
    gone = [(e.group, e.offset, e.why) for e in of.found(GROUPS, OffsetVanished)]
    assert gone == [
        ("eos-readers", 8, Vanishing.GROUP_DELETED),
        ("plain-readers", 40, Vanishing.OFFSET_DELETE),
    ]


def test_records_beyond_the_delivery_limit_are_archived_once() -> None:
    found = list(history("share-records-given-up").found(SHARE_GROUPS, RecordsArchived))
    assert [(each.first_offset, each.last_offset, each.count) for each in found] == [
        (3, 3, 5),
        (9, 9, 5),
    ]
    causes = [why for each in found for why in each.causes]
    assert all(isinstance(why, DeliveryLimitReached) and why.last is not None for why in causes)
    assert {name for each in found for name in each.by} == {"worker-1"}


def test_the_oldest_open_transaction_holds_back_the_last_stable_offset() -> None:
    (found,) = history("lso-held-back").found(LAGS, LsoHeldBack)
    (cause,) = found.causes
    assert isinstance(cause, OpenTransactionOf)
    assert (cause.producer.id, cause.began.client, line_of(found)) == ("settle", "settler", 281)
    assert (found.stable, found.behind, found.readers) == (0, 61, ("ledger-reader",))
    assert found.ended is not None and found.ended.place.endswith(":283")


def test_a_transaction_that_began_after_the_last_stable_offset_does_not_hold_it_back() -> None:
    (found,) = history("lso-held-back").found(LAGS, LsoHeldBack)
    key, line = ProducerKey("later"), found.line
    later = {"later": TransactionInPartition(key, 1, first=7, line=line)}
    assert StableOffset(stable=5, high_watermark=9, since=line, open=later).holder is None
    at_it = {"it": TransactionInPartition(key, 1, first=5, line=line)}
    assert StableOffset(stable=5, high_watermark=9, since=line, open=at_it).holder is at_it["it"]


def test_explain_lso_names_the_transaction_its_client_and_who_waits() -> None:
    exchanges = recording.read([path_of("lso-held-back")], READING).exchanges
    open_then = [each for each in exchanges if int(each.id.rpartition(":")[2]) <= 250]
    lines = LsoTimeline(History(open_then).recording, "payments-0").ending()
    assert lines[0] == "last stable offset 0, high watermark 53: 53 records behind"
    assert lines[1].startswith("it is held back by producer settle: its transaction is open since")
    assert lines[2] == "waiting for it: client ledger-reader (isolation.level=read_committed)"
    (line,) = LsoTimeline(History(exchanges).recording, "payments-0").ending()
    assert line.endswith("no transaction held back consumers of payments-0")


def test_a_produce_that_is_answered_after_its_end_txn_belongs_to_that_transaction() -> None:
    found = TransactionTimeline(recording.read([BILLING], FileReading()).exchanges, "billing")
    assert found.entity.transaction is None
    assert [each.number for each in found.ended] == [1, 2, 3]
    assert found.ended[-1].places == {"invoices-0": 0}


def test_a_deleted_group_begins_again_without_its_offsets() -> None:
    name = "aborted-offset-commits-and-deleted-group"
    exchanges = recording.read([path_of(name)], READING).exchanges
    (line,) = GroupTimeline(exchanges, "eos-readers").ending()
    assert line.startswith("ord-0 at 1, by client ledger-app's OFFSET_COMMIT")


def test_each_throttled_response_is_part_of_one_finding() -> None:
    made = SyntheticRecording()
    for wait_ms in (0, 200, 6_500):
        made.add("bulk", "PRODUCE", {"topicData": []}, {"responses": [], "throttleTimeMs": wait_ms})
    (found,) = History(made.exchanges).found(CLIENTS, ClientThrottled)
    assert (found.count, found.longest_ms, found.total_ms) == (2, 6_500, 6_700)
    assert found.apis == ("PRODUCE",)
