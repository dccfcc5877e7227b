"""Rules for a thread's commits and standbys that no fault test covers."""

from random import Random

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.applications import word_count
from brokertwin.clients.streams.layout import Names, TaskId
from brokertwin.clients.streams.restorer import Restorer
from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig
from brokertwin.clients.streams.streams_protocol import ACTIVE, decode_subscription_info
from tests.support.streams_world import APPLICATION, StreamsWorld

HOUR_MS = 3_600_000


def counting(**config: object) -> StreamsWorld:
    return StreamsWorld(word_count("text", "counts"), {"text": 1, "counts": 1}, **config)


def committed(made: StreamsWorld, topic: str) -> int:
    """The offset of partition 0 that the group has stored; -1 without one."""
    response = made.world.bench.request(
        "OFFSET_FETCH", 8, groupId=APPLICATION, name=topic, partitionIndexes=[0], requireStable=True
    )
    return int(response["groups"][0]["topics"][0]["partitions"][0]["committedOffset"])


def restorer() -> Restorer:
    subs = {sub.number: sub for sub in word_count("text", "counts").sub_topologies()}
    return Restorer(
        StreamsConfig(application_id="app").fetches(), Random(1).random, subs, Names("app")
    )


def test_offsets_are_committed_after_all_outputs_are_acknowledged() -> None:
    """Meanwhile reads are limited by the buffer."""
    made = counting(buffered_records_per_partition=5, max_poll_records=4)
    name = made.start("a")
    made.run_until(made.all_run)
    thread = made.threads[name]
    made.send("text", b"to be")
    made.run_until(lambda: committed(made, f"{APPLICATION}-words-repartition") == 2)
    network = made.world.networks[thread.producer]
    network.is_mute = True
    for _ in range(60):
        made.send("text", b"to be")
        made.run(50)
    made.run(2_000)
    assert 3 < thread.worked < 60
    assert committed(made, "text") == 1
    first = thread.tasks[TaskId(0, 0)]
    assert 0 < first.queued_of(TopicPartition("text", 0)) <= 5 + 4
    network.is_mute = False
    made.run_until(lambda: made.newest("counts") == {b"to": b"61", b"be": b"61"}, HOUR_MS)
    made.run(1_000)
    assert committed(made, "text") == 61


def test_a_closing_thread_has_committed_its_progress() -> None:
    made = counting(commit_interval_ms=HOUR_MS)
    name = made.start("a")
    made.run_until(made.all_run)
    made.threads[name]._commit_at = made.now + HOUR_MS
    made.send("text", b"to be")
    made.run_until(lambda: made.newest("counts") == {b"to": b"1", b"be": b"1"})
    assert committed(made, "text") == -1
    made.threads[name].close()
    made.run_until(lambda: not made.threads)
    assert committed(made, "text") == 1
    assert committed(made, f"{APPLICATION}-words-repartition") == 2


def test_revoked_tasks_are_committed_at_once() -> None:
    made = counting(commit_interval_ms=HOUR_MS)
    first = made.start("a")
    made.run_until(made.all_run)
    made.threads[first]._commit_at = made.now + HOUR_MS
    made.send("text", b"to be")
    made.run(1_000)
    made.start("b")
    made.run_until(lambda: made.all_run() and all(made.tasks().values()), 10_000)
    assert 1 in (committed(made, "text"), committed(made, f"{APPLICATION}-words-repartition") - 1)


def test_a_failed_record_restarts_its_task() -> None:
    made = counting()
    topic = f"{APPLICATION}-words-repartition"
    made.world.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, limited(topic, 200))
    name = made.start("a")
    made.run_until(made.all_run)
    made.send("text", b"to " + b"x" * 1_000)
    made.run_until(lambda: made.threads[name].restarts > 1)
    assert committed(made, "text") == -1
    made.world.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, limited(topic, 1_000_000))
    made.run_until(lambda: committed(made, "text") == 1, HOUR_MS)
    made.run_until(lambda: b"x" * 1_000 in made.newest("counts"))


def limited(topic: str, size: int) -> dict[str, object]:
    change = {"name": "max.message.bytes", "configOperation": 0, "value": str(size)}
    return {"resources": [{"resourceType": 2, "resourceName": topic, "configs": [change]}]}


def test_a_standby_keeps_its_stores_and_reports_its_lag() -> None:
    made = restorer()
    first, second = TaskId(1, 0), TaskId(1, 1)
    made.copy({first})
    (log,) = made.copies[first].changelogs
    made.copies[first].restore(log, ProducerRecord(b"to", b"7"))
    made.client.subscription.seek(log, 5)
    made.copy({first, second})
    assert made.copies[first].by_name["counts"].range() == [(b"to", b"7")]
    assert made.offset_sums() == {first: 5, second: 0}
    made.copy({first})
    stores = made.promote(first)
    assert stores is not None
    assert stores.by_name["counts"].range() == [(b"to", b"7")]
    made.copy({second})
    assert made.client.position(log) == 5


def test_a_thread_reports_its_tasks_and_standby_lags() -> None:
    made = StreamsWorld(
        word_count("text", "counts"), {"text": 2, "counts": 1}, num_standby_replicas=1
    )
    made.start("a")
    made.start("b")
    made.run_until(made.all_run)
    for _ in range(5):
        made.send("text", b"to be or not")
    made.run(3_000)
    found = {
        name: decode_subscription_info(thread.assignor.user_data("stream")).offset_sums
        for name, thread in made.threads.items()
    }
    for name, thread in made.threads.items():
        assert {t for t, reported in found[name].items() if reported == ACTIVE} == set(
            thread.running
        )
    copies = {
        t: reported for each in found.values() for t, reported in each.items() if reported != ACTIVE
    }
    assert set(copies) == {TaskId(1, 0), TaskId(1, 1)}
    assert sum(copies.values()) == 20


def test_how_often_a_thread_commits() -> None:
    plain = StreamsConfig(application_id="app")
    exact = StreamsConfig(application_id="app", processing_guarantee=Guarantee.EXACTLY_ONCE_V2)
    assert (plain.commit_ms, exact.commit_ms) == (30_000, 100)
