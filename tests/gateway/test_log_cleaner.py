"""The local engine cleans its logs: their bytes go with them, and a journal tells it again."""

import time
from pathlib import Path
from typing import Any

import pytest

from brokerstream.gateway import log_cleaner
from brokerstream.gateway.batch_store import FileStore, MemoryStore
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


def side_of(running: Running) -> Side:
    address = running.addresses[1]
    return Side(address.host, address.port)


def write(side: Side, wave: int = 0) -> None:
    """Batches of one segment, and one that cuts it: later than that of the wave before."""
    now = int(time.time() * 1000)
    for batch in BATCHES:
        side.write("t", batch, now)
    side.write("t", (["cut"], ["cut"]), now + (wave + 1) * LATER_MS)


def clean(running: Running) -> int:
    async def passes() -> int:
        return int(running.engine.clean_logs())

    return int(running.run(passes()))


def records(side: Side) -> list[str]:
    return [each for batch in side.read("t", 0, 0)["records"] for each in batch["records"]]


def test_a_cleaned_log_outlives_the_gateway(tmp_path: Path) -> None:
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        assert clean(running) == 1
        assert clean(running) == 0  # what is left has no dirty part
        before = side.read("t", 0, 1)
        assert records(side) == LEFT
        side.conn.close()
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side = side_of(running)
        assert side.read("t", 0, 1) == before
        write(side, 1)
        assert clean(running) == 1
        assert records(side) == ["5:cut=cut", "8:a=2", "9:b=null", "10:c=3", "11:cut=cut"]
        side.conn.close()


def test_the_cleaner_comes_by_itself() -> None:
    with running_gateway({"log.cleaner.backoff.ms": "20"}) as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        wait_until(lambda: records(side) == LEFT)
        side.conn.close()


def test_the_cleaner_may_be_off() -> None:
    with running_gateway(NEVER | {"log.cleaner.enable": "false"}) as running:
        side = side_of(running)
        side.create("t", CONFIGS)
        write(side)
        assert clean(running) == 0
        side.conn.close()


def test_bytes_go_with_the_records() -> None:
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        assert isinstance(store, MemoryStore)
        side.create("t", CONFIGS)
        write(side)
        assert len(store) == 4
        clean(running)
        assert len(store) == 3  # one batch went as a whole
        side.conn.close()


def test_a_file_goes_when_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_gateway(NEVER, journal=tmp_path / "journal") as running:
        side, store = side_of(running), running.engine._store
        assert isinstance(store, FileStore)
        monkeypatch.setattr(store, "_file_bytes", 1)  # a file for each batch
        side.create("t", CONFIGS)
        for wave in range(3):
            write(side, wave)
            clean(running)
        held = len(list((tmp_path / "journal.batches").iterdir()))
        found = side.read("t", 0, 0)["records"]
        assert held <= len(found) + 1  # and the one that is written to
        side.conn.close()


def test_a_log_whose_bytes_are_lost_stays_as_it_is() -> None:
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


def test_what_the_machine_does_not_take_leaves_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_gateway(NEVER) as running:
        side, store = side_of(running), running.engine._store
        side.create("t", CONFIGS)
        write(side)
        whole = log_cleaner.OnePass.run

        def beyond(one: log_cleaner.OnePass) -> Any:
            cleaned = whole(one)
            assert cleaned is not None
            cleaned.end_offset = 1000
            return cleaned

        monkeypatch.setattr(log_cleaner.OnePass, "run", beyond)
        assert clean(running) == 0
        assert isinstance(store, MemoryStore)
        assert len(store) == 4
        side.conn.close()


def test_each_replica_cleans_its_own_log() -> None:
    with running_gateway(NEVER | {"default.replication.factor": "2"}, brokers=2) as running:
        side = side_of(running)
        given = [{"name": key, "value": value} for key, value in CONFIGS.items()]
        placed = [{"partitionIndex": 0, "brokerIds": [1, 2]}]
        topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "configs": given}
        body = {"topics": [{**topic, "assignments": placed}], "timeoutMs": 10_000}
        side.call("CreateTopics", 7, {**body, "validateOnly": False})
        write(side)
        assert clean(running) == 2
        assert records(side) == LEFT
        write(side, 1)
        assert clean(running) == 2
        assert records(side)[-1] == "11:cut=cut"
        side.conn.close()
