"""Isolation level of share groups: records of transactions."""

from typing import Any

import pytest

from brokertwin.state.cell import check
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from tests.support.transactions import TransactionBench


class Isolated(TransactionBench):
    """A share group `g` and records of a committed and an aborted transaction."""

    def __init__(self, level: str) -> None:
        super().__init__()
        logs = self.cell.tables.logs.items("1/log/", Log)
        self.topic_id = next(log.topic_id for _, log in logs if log.topic == "a")
        config = {"name": "share.isolation.level", "configOperation": 0, "value": level}
        group = {"resourceType": 32, "resourceName": "g", "configs": [config]}
        self.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [group]})
        at = {"partitionIndex": 0, "startOffset": 0}
        body = {"groupId": "g", "topics": [{"topicName": "a", "partitions": [at]}]}
        for _ in range(2):
            self.request("ALTER_SHARE_GROUP_OFFSETS", 0, body)
        for is_commit in (True, False):
            holder = self.init("t1")
            self.add("t1", holder, a=[0])
            self.produce("t1", holder, 0)
            self.end("t1", holder, is_commit=is_commit)
        self.epoch = 0

    def fetch(self) -> Any:
        """Return acquired records as first and last offset."""
        place = {"partitionIndex": 0, "acknowledgementBatches": []}
        body = {
            "groupId": "g",
            "memberId": "m",
            "shareSessionEpoch": self.epoch,
            "maxWaitMs": 0,
            "minBytes": 1,
            "maxRecords": 500,
            "batchSize": 500,
            "topics": [{"topicId": self.topic_id, "partitions": [place]}],
            "forgottenTopicsData": [],
        }
        response = self.request("SHARE_FETCH", 2, body)
        self.epoch += 1
        assert check.check(self.cell) == []
        return [
            (each["firstOffset"], each["lastOffset"])
            for topic in response["responses"]
            for partition in topic["partitions"]
            for each in partition["acquiredRecords"]
        ]


def test_aborted_records_are_delivered_with_read_uncommitted() -> None:
    """Offsets [1, 3] are markers; members acknowledge them as gaps."""
    assert Isolated("read_uncommitted").fetch() == [(0, 3)]


def test_aborted_records_are_archived_with_read_committed() -> None:
    bench = Isolated("read_committed")
    assert bench.fetch() == [(0, 1), (3, 3)]
    assert bench.fetch() == []


def test_records_of_open_transactions_are_delivered_after_their_end() -> None:
    bench = Isolated("read_committed")
    bench.fetch()
    holder = bench.init("t1")
    bench.add("t1", holder, a=[0])
    bench.produce("t1", holder, 0)
    assert bench.fetch() == []
    bench.end("t1", holder, is_commit=True)
    assert bench.fetch() == [(4, 5)]


@pytest.fixture
def short_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep only four batches of a log in state; earlier ones are sealed."""
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)


@pytest.mark.usefixtures("short_index")
@pytest.mark.parametrize(
    ("level", "records"), [("read_committed", set()), ("read_uncommitted", {2, 4, 5})]
)
def test_aborted_records_of_sealed_segments_are_archived(level: str, records: set[int]) -> None:
    bench = Isolated(level)
    late = bench.init("t2")
    bench.add("t2", late, a=[0])
    for sequence in range(2):
        bench.produce("t2", late, sequence)
    for _ in range(3):
        holder = bench.init("t1")
        bench.add("t1", holder, a=[0])
        bench.produce("t1", holder, 0)
        bench.end("t1", holder)
    bench.end("t2", late, is_commit=False)
    log = bench.cell.tables.logs.get(logs.log_key(1, bench.topic_id, 0), logs.Log)
    assert log is not None
    sealed = list(logs.sealed_segments(bench.cell.tables.of(1), log))
    assert [each.base_offset for each in sealed] == [0, 2, 4, 6, 8]
    uncommitted = [(w.first_offset, w.last_offset) for each in sealed for w in each.uncommitted]
    assert uncommitted == [(2, 2), (4, 5)]
    found = [each for _ in range(8) for each in bench.fetch()]
    got = {offset for first, last in found for offset in range(first, last + 1)}
    markers = {1, 3, 7, 9, 11, 12}
    assert got - markers == {0, 6, 8, 10} | records
