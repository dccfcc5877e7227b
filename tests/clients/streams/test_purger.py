"""Delete committed records of repartition topics."""

import pytest

from brokertwin.clients.streams.applications import word_count
from brokertwin.clients.streams.stream_thread import StreamThread
from tests.support.bench_network import BenchNetwork
from tests.support.streams_world import APPLICATION, StreamsWorld

WORDS = f"{APPLICATION}-words-repartition"
INTERVAL_MS = 2_000


def counting(**config: object) -> StreamsWorld:
    config = {"repartition_purge_interval_ms": INTERVAL_MS, **config}
    return StreamsWorld(word_count("text", "counts"), {"text": 1, "counts": 1}, **config)


def start(made: StreamsWorld, topic: str) -> int:
    response = made.world.bench.request(
        "LIST_OFFSETS", 1, replicaId=-1, name=topic, partitionIndex=0, timestamp=-2
    )
    return int(response["topics"][0]["partitions"][0]["offset"])


def requesting(made: StreamsWorld, thread: StreamThread) -> BenchNetwork:
    return made.world.networks[thread.clients[-1]]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_example_21_committed_repartition_records_are_deleted(
    exactly_once: bool,
) -> None:
    made = counting(exactly_once=exactly_once)
    made.start("a")
    made.run_until(made.all_run)
    for _ in range(5):
        made.send("text", b"to be")
        made.run(500)
    made.run_until(lambda: start(made, WORDS) >= 10)
    assert [start(made, topic) for topic in ("text", "counts")] == [0, 0]
    made.kill("a-1")
    made.start("b")
    made.send("text", b"to")
    made.run_until(lambda: made.newest("counts") == {b"to": b"6", b"be": b"5"})


def test_one_deletion_at_a_time_at_the_purge_interval() -> None:
    made = counting()
    thread = made.threads[made.start("a")]
    network = requesting(made, thread)

    def work(milliseconds: int) -> None:
        for _ in range(milliseconds // 500):
            made.send("text", b"to be")
            made.run(500)

    made.run_until(made.all_run)
    work(4 * INTERVAL_MS)
    assert 3 <= network.requested["DELETE_RECORDS"] <= 5
    network.is_mute = True
    work(INTERVAL_MS)
    had = network.requested["DELETE_RECORDS"]
    work(4 * INTERVAL_MS)
    assert network.requested["DELETE_RECORDS"] == had, "that one goes on"
    network.is_mute = False
    made.run_until(lambda: network.requested["DELETE_RECORDS"] > had)


def test_uncommitted_records_stay() -> None:
    """A thread was away for longer than its session; its commit is refused."""
    made = counting(commit_interval_ms=60_000)
    name = made.start("a")
    made.run_until(made.all_run)
    made.send("text", b"to be")
    thread = made.threads[name]
    made.run_until(lambda: thread.worked == 3)
    network = requesting(made, thread)
    made.pause(name)
    made.start("b")
    made.run_until(made.all_run)
    made.go_on(name, thread)
    thread._commit_at = 0
    made.run(INTERVAL_MS)
    assert made.errors == {}
    assert network.requested["DELETE_RECORDS"] == 0


def test_words_are_counted_without_delete_permission() -> None:
    """Records of a topic that is compacted only are not deleted: 44 POLICY_VIOLATION."""
    made = counting()
    setting = {"name": "cleanup.policy", "configOperation": 0, "value": "compact"}
    resource = {"resourceType": 2, "resourceName": WORDS, "configs": [setting]}
    made.world.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
    thread = made.threads[made.start("a")]
    made.run_until(made.all_run)
    for _ in range(8):
        made.send("text", b"to be")
        made.run(1_000)
    assert made.newest("counts") == {b"to": b"8", b"be": b"8"}
    assert requesting(made, thread).requested["DELETE_RECORDS"] > 1, "with each commit that is due"
    assert start(made, WORDS) == 0
