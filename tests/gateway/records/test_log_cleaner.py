"""The local engine cleans its logs, and a journal repeats it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.gateway.engine.engine import EdgeRequest, internal_header
from brokertwin.gateway.records import log_cleaner
from brokertwin.gateway.records.batch_store import FileBatchStore, MemoryStore
from brokertwin.state.cell.check import check
from brokertwin.state.logs import log as logs
from tests.gateway.test_cleaner_like_kafka import CONFIGS, LATER_MS, Batch, Side
from tests.support.gateways import Running, running_gateway
from tests.support.patience import wait_until

NEVER = {"log.cleaner.backoff.ms": "86400000"}
BATCHES: list[Batch] = [
    (["a", "b"], ["1", "1"]),
    (["a"], ["2"]),
    (["b", "c"], [None, "3"]),
]
LEFT = ["2:a=2", "3:b=null", "4:c=3", "5:cut=cut"]
LEFT_OF_TWO = ["5:cut=cut", "8:a=2", "9:b=null", "10:c=3", "11:cut=cut"]


def side_of(running: Running) -> Side:
    address = running.addresses[1]
    return Side(address.host, address.port)


def write(side: Side, wave: int = 0, topic: str = "t") -> None:
    now = int(time.time() * 1000)
    for batch in BATCHES:
        side.write(topic, batch, now)
    side.write(topic, (["cut"], ["cut"]), now + (wave + 1) * LATER_MS)


def clean(running: Running) -> int:
    async def passes() -> int:
        return int(await running.engine.clean_logs())

    return int(running.run(passes()))


def records(side: Side, topic: str = "t") -> list[str]:
    return [each for batch in side.read(topic, 0, 0)["records"] for each in batch["records"]]


def test_cleaned_log_survives_a_restart(tmp_path: Path) -> None:
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        assert clean(running) == 1
        assert clean(running) == 0  # no dirty part remains
        before = side.read("t", 0, 1)
        assert records(side) == LEFT
        side.conn.close()
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side = side_of(running)
        assert side.read("t", 0, 1) == before
        write(side, 1)
        assert clean(running) == 1
        assert records(side) == LEFT_OF_TWO
        side.conn.close()


def test_cleaner_runs_periodically() -> None:
    with running_gateway({"log.cleaner.backoff.ms": "20"}) as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        wait_until(lambda: records(side) == LEFT)
        side.conn.close()


def test_cleaner_can_be_disabled() -> None:
    with running_gateway(NEVER | {"log.cleaner.enable": "false"}) as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        assert clean(running) == 0
        side.conn.close()


def test_bytes_are_deleted_with_their_records() -> None:
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        assert isinstance(store, MemoryStore)
        side.create("t", CONFIGS)
        write(side)
        assert len(store) == 4
        clean(running)
        assert len(store) == 3  # one whole batch was deleted
        side.conn.close()


def test_file_is_deleted_with_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side, store = side_of(running), running.engine._store
        assert isinstance(store, FileBatchStore)
        monkeypatch.setattr(store, "_file_bytes", 1)  # a file for each batch
        side.create("t", CONFIGS)
        for wave in range(3):
            write(side, wave)
            clean(running)
        held = len(list((tmp_path / "journal.batches").iterdir()))
        found = side.read("t", 0, 0)["records"]
        assert held <= len(found) + 1  # and the active file
        side.conn.close()


def test_log_with_lost_bytes_is_not_cleaned() -> None:
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        side.create("t", CONFIGS)
        write(side)
        assert isinstance(store, MemoryStore)
        lost = store._batches.pop("1")
        assert clean(running) == 0
        store._batches["1"] = lost
        assert records(side)[:3] == ["0:a=1", "1:b=1", "2:a=2"]
        assert clean(running) == 1
        side.conn.close()


def test_refused_cleaning_event_leaves_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        side.create("t", CONFIGS)
        write(side)
        whole = log_cleaner.OnePass.steps

        def beyond(one: log_cleaner.OnePass) -> Iterator[None]:
            yield from whole(one)
            assert one.cleaned is not None
            one.cleaned.end_offset = 1000

        monkeypatch.setattr(log_cleaner.OnePass, "steps", beyond)
        assert clean(running) == 0
        assert isinstance(store, MemoryStore)
        assert len(store) == 4
        side.conn.close()


def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)


def create_on(side: Side, brokers: list[int], configs: dict[str, str]) -> None:
    """Create the topic with a replica on each broker; the first one leads."""
    given = [{"name": key, "value": value} for key, value in configs.items()]
    placed = [{"partitionIndex": 0, "brokerIds": brokers}]
    topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "configs": given}
    body = {"topics": [{**topic, "assignments": placed}], "timeoutMs": 10_000}
    side.call("CreateTopics", 7, {**body, "validateOnly": False})


def alter(side: Side, policy: str) -> None:
    config = {"name": "cleanup.policy", "configOperation": 0, "value": policy}
    resource = {"resourceType": 2, "resourceName": "t", "configs": [config]}
    body = {"resources": [resource], "validateOnly": False}
    response = side.call("IncrementalAlterConfigs", 1, body)
    assert response["responses"][0]["errorCode"] == 0


@pytest.mark.parametrize("brokers", [1, 2])
def test_parts_sealed_before_a_topic_became_compacted_are_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: int
) -> None:
    small_index(monkeypatch)
    settings = NEVER | {"default.replication.factor": str(brokers)}
    journal = tmp_path / "journal"
    with running_gateway(settings, brokers, journal=journal) as running:
        side, engine = side_of(running), running.engine
        create_on(side, list(range(1, brokers + 1)), CONFIGS | {"cleanup.policy": "delete"})
        for wave in range(3):
            write(side, wave)
        assert len(engine._segments) == 4
        alter(side, "compact")
        assert clean(running) == brokers
        assert check(engine._cell) == []
        assert not engine._segments, "the rows of sealed parts are gone"
        before = side.read("t", 0, 1)
        assert records(side) == ["11:cut=cut", "14:a=2", "15:b=null", "16:c=3", "17:cut=cut"]
        for wave in range(3, 8):
            write(side, wave)
        assert not engine._segments, "a compacted topic's index is not sealed"
        assert check(engine._cell) == []
        side.conn.close()
    with running_gateway(settings, brokers, journal=journal) as running:
        side = side_of(running)
        assert side.read("t", 0, 1)["records"][: len(before["records"])] == before["records"]
        assert clean(running) == brokers
        assert records(side)[-5:] == ["41:cut=cut", "44:a=2", "45:b=null", "46:c=3", "47:cut=cut"]
        side.conn.close()


def test_pass_too_large_for_one_event_is_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_index(monkeypatch)
    monkeypatch.setattr(log_cleaner, "LISTED_MAX", 2)
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        side.create("t", CONFIGS | {"min.cleanable.dirty.ratio": "0"})
        now, ends = int(time.time() * 1000), []
        for number in range(6):  # each batch keeps some records and loses some
            side.write("t", ([f"only-{number}", "all"], ["1", "1"]), now + number * LATER_MS)
        while clean(running):
            (log,) = (log for _, log in running.engine.tables.logs.items("1/log/", logs.Log))
            ends.append(log.cleaned_to)
        assert ends == [6, 10]
        only = [f"{2 * number}:only-{number}=1" for number in range(6)]
        assert records(side) == [*only[:5], "9:all=1", only[5], "11:all=1"]
        assert isinstance(store, MemoryStore)
        assert len(store) == len(side.read("t", 0, 0)["records"])
        side.conn.close()


def test_record_deletion_during_a_pass_invalidates_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_cleaner, "SLICE", 1)
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        side.create("t", CONFIGS | {"cleanup.policy": "compact,delete"})
        write(side)
        whole = log_cleaner.OnePass.steps
        topic = {"name": "t", "partitions": [{"partitionIndex": 0, "offset": 1}]}
        header = internal_header(21, 2, None)
        body = {"topics": [topic], "timeoutMs": 1000}
        deletion = EdgeRequest(1, "c", "User:ANONYMOUS", "127.0.0.1", header, body)

        def interrupted(one: log_cleaner.OnePass) -> Iterator[None]:
            for _ in whole(one):
                if not one.written:
                    running.engine.submit(deletion)
                yield

        with monkeypatch.context() as patch:
            patch.setattr(log_cleaner.OnePass, "steps", interrupted)
            assert clean(running) == 0
        assert isinstance(store, MemoryStore)
        assert len(store) == 4, "what the pass has written is gone"
        assert clean(running) == 1
        left = side.read("t", 1, 0)["records"]
        assert [each for batch in left for each in batch["records"]] == LEFT
        side.conn.close()


def test_each_replica_cleans_its_own_log() -> None:
    with running_gateway(NEVER | {"default.replication.factor": "2"}, brokers=2) as running:
        side = side_of(running)
        create_on(side, [1, 2], CONFIGS)
        write(side)
        assert clean(running) == 2
        assert records(side) == LEFT
        write(side, 1)
        assert clean(running) == 2
        assert records(side)[-1] == "11:cut=cut"
        side.conn.close()
