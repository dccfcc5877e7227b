"""Stream threads on the client loop."""

from collections import Counter

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams import stream_thread
from brokertwin.clients.streams.applications import table_join, word_count
from brokertwin.clients.streams.layout import TaskId
from brokertwin.clients.streams.stream_thread import ThreadState
from brokertwin.clients.transactions import TransactionManagerState
from brokertwin.protocol.errors import Error
from tests.support.streams_world import SESSION_MS, StreamsWorld
from tests.support.topologies import copying

JOINED = "topics that are joined must have the same number of partitions"
ADVICE = "Create one of them again, or use a repartition topic"


def counting(**config: object) -> StreamsWorld:
    return StreamsWorld(word_count("text", "counts"), {"text": 2, "counts": 1}, **config)


def copier(**config: object) -> StreamsWorld:
    return StreamsWorld(copying("t"), {"t": 6, "out": 1}, **config)


def counts_are(made: StreamsWorld, **wanted: int) -> bool:
    reported = {(word or b"").decode(): int(n or 0) for word, n in made.newest("counts").items()}
    return reported == wanted


def texts(made: StreamsWorld) -> dict[str, list[str]]:
    return {name: [str(task) for task in tasks] for name, tasks in made.tasks().items()}


def test_example_9_one_thread_counts_words() -> None:
    made = counting()
    for line in (b"To be, or not", b"to be"):
        made.send("text", line)
    name = made.start("a")
    assert made.threads[name].state is ThreadState.STARTING
    made.run_until(lambda: counts_are(made, to=2, be=2, **{"or": 1, "not": 1}))
    assert made.threads[name].state is ThreadState.RUNNING
    assert texts(made) == {"a-1": ["0_0", "0_1", "1_0", "1_1"]}


def test_example_10_the_seeds_six_tasks_on_three_threads() -> None:
    made = copier()
    for _ in range(3):
        made.start("a")
    made.run_until(made.all_run)
    assert sorted(map(len, made.tasks().values())) == [2, 2, 2]
    made.run(2_000)
    assert made.timeline.twice() == []
    lines = made.timeline.picture(made.now, 30)
    assert [line.split()[0] for line in lines[1:7]] == ["0_0", "0_1", "0_2", "0_3", "0_4", "0_5"]
    letters = [line[-1] for line in lines[1:7]]
    assert letters[:3] == letters[3:]
    assert sorted(letters[:3]) == ["A", "B", "C"]


def test_example_11_a_killed_threads_tasks_resume_from_committed_offsets() -> None:
    made = copier()
    for _ in range(3):
        made.start("a")
    made.run_until(made.all_run)
    for number in range(60):
        made.send("t", b"%d" % number, b"%d" % number)
    made.run(1_500)
    before = texts(made)
    made.kill("a-2")
    took = made.run_until(made.all_run)
    assert SESSION_MS - 1_500 < took < SESSION_MS + 3_000
    after = texts(made)
    assert sorted(map(len, after.values())) == [3, 3]
    assert all(set(before[name]) < set(after[name]) for name in after)
    for number in range(60, 90):
        made.send("t", b"%d" % number, b"%d" % number)
    made.run(2_000)
    values = sorted(int(message.value or b"") for message in made.read("out"))
    assert values == list(range(90))


def test_example_12_tasks_stay_complete_after_a_thread_dies() -> None:
    """Example 22 of groups and offsets, its second part."""
    made = StreamsWorld(copying("t1", "t2"), {"t1": 2, "t2": 2, "out": 1})
    made.start("a")
    made.start("a")
    made.run_until(made.all_run)
    at = {n: t for thread in made.threads.values() for n, t in thread.tasks.items()}
    assert {n: task.partitions for n, task in at.items()} == {
        TaskId(0, p): [TopicPartition("t1", p), TopicPartition("t2", p)] for p in range(2)
    }
    made.kill("a-2")
    made.run_until(made.all_run)
    (thread,) = made.threads.values()
    assert {n: task.partitions for n, task in thread.tasks.items()} == made.layout.tasks


def test_example_13_a_new_thread_gets_tasks_while_others_continue() -> None:
    made = copier()
    made.start("a")
    made.run_until(made.all_run)
    made.start("b")
    kept: set[str] = set(texts(made)["a-1"])
    while len(made.tasks()["b-1"]) < 3:
        made.turn()
        kept &= set(texts(made)["a-1"])
    assert len(kept) == 3
    assert made.timeline.twice() == []


def test_example_14_stores_are_restored_before_a_task_runs() -> None:
    made = counting(exactly_once=True)
    made.start("a")
    for _ in range(5):
        made.send("text", b"to be")
    made.run_until(lambda: counts_are(made, to=5, be=5))
    made.run(1_000)
    made.kill("a-1")
    name = made.start("b")
    states = set()
    while not made.all_run():
        made.turn()
        states |= {task.state.value for task in made.threads[name].tasks.values()}
    assert {"RESTORING", "RUNNING"} <= states
    assert made.threads[name].restorer.restored == 10
    made.send("text", b"to")
    made.run_until(lambda: counts_are(made, to=6, be=5))


def test_example_15_a_standby_takes_over_without_a_full_restore() -> None:
    made = counting(num_standby_replicas=1)
    made.start("a")
    made.start("b")
    made.run_until(made.all_run)
    for _ in range(5):
        made.send("text", b"to be or not")
    made.run(3_000)
    copied = {name: thread.restorer.copies for name, thread in made.threads.items()}
    assert {name: len(copies) for name, copies in copied.items()} == {"a-1": 1, "b-1": 1}
    left = made.threads["b-1"]
    restored = left.restorer.restored
    assert restored > 0
    made.kill("a-1")
    made.run_until(made.all_run)
    assert left.restorer.restored == restored
    made.send("text", b"to")
    made.run_until(lambda: counts_are(made, to=6, be=5, **{"or": 5, "not": 5}))


def test_example_16_a_fenced_thread_cannot_commit() -> None:
    made = counting(exactly_once=True, commit_interval_ms=60_000)
    name = made.start("a")
    made.run_until(made.all_run)
    made.send("text", b"to be")
    made.run(2_000)
    thread = made.threads[name]
    assert thread.producer.transactions is not None
    assert thread.producer.transactions.state is TransactionManagerState.IN_TRANSACTION
    made.pause(name)
    made.start("b")
    made.run_until(lambda: made.all_run())
    made.go_on(name, thread)
    thread._commit_at = 0
    made.run_until(lambda: thread.restarts > 0)
    made.threads["b-1"].close()
    made.run(2_000)
    thread.close()
    made.run_until(lambda: counts_are(made, to=1, be=1))
    made.run(3_000)
    assert [int(each.value or 0) for each in made.read("counts")] == [1, 1]


def test_example_17_a_closing_thread_commits_and_leaves_at_once() -> None:
    made = copier()
    made.start("a")
    made.start("b")
    made.run_until(made.all_run)
    made.send("t", b"1", b"1")
    made.threads["a-1"].close()
    took = made.run_until(lambda: "a-1" not in made.threads and made.all_run())
    assert took < SESSION_MS / 2
    assert made.errors == {}
    made.run(1_000)
    assert [message.value for message in made.read("out")] == [b"1"]


def test_example_18_mismatched_topics_stop_all_threads() -> None:
    made = StreamsWorld(table_join("l", "r", "out"), {"l": 2, "r": 2, "out": 1})
    made.start("a")
    made.start("b")
    made.run_until(made.all_run)
    made.world.bench.request("CREATE_PARTITIONS", 3, name="l", count=3, timeoutMs=1_000)
    for thread in made.threads.values():
        thread.consumer.metadata.request_update()
    made.run_until(lambda: not made.threads)
    assert sorted(made.errors.values()) == [
        "INCOMPLETE_SOURCE_TOPIC_METADATA",
        f"{JOINED}: l has 3, r has 2. {ADVICE}",
    ]


def test_example_19_two_tables_are_joined_by_key() -> None:
    made = StreamsWorld(table_join("l", "r", "out"), {"l": 2, "r": 2, "out": 1})
    made.start("a")
    for topic, key, value in (
        ("l", b"1", b"apple"),
        ("l", b"2", b"pear"),
        ("r", b"1", b"red"),
        ("l", b"1", b"cherry"),
        ("r", b"2", b"green"),
    ):
        made.send(topic, value, key)
    made.run_until(lambda: made.newest("out") == {b"1": b"cherry,red", b"2": b"pear,green"})
    made.send("r", None, b"2")
    made.run_until(lambda: made.newest("out") == {b"1": b"cherry,red", b"2": None})


def test_threads_do_not_block_each_other() -> None:
    """One thread's network is silent: the others' tasks go on."""
    made = copier()
    for name in ("a", "b"):
        made.start(name)
    made.run_until(made.all_run)
    for network in made.networks("a-1"):
        network.is_mute = True
    for number in range(60):
        made.send("t", b"%d" % number, b"%d" % number)
    made.run(1_000)
    assert made.threads["a-1"].worked == 0
    assert made.threads["b-1"].worked > 20


def test_buffered_records_of_a_revoked_task_are_read_by_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by the simulator: they were worked on after the last commit of their offsets."""
    monkeypatch.setattr(stream_thread, "RECORDS_OF_A_TURN", 6)
    made = copier(exactly_once=True)
    made.start("a")
    made.run_until(made.all_run)
    for number in range(1_000):
        made.send("t", b"%d" % number, b"%d" % number)
    made.start("b")
    made.run_until(lambda: all(map(len, made.tasks().values())) and made.all_run())
    monkeypatch.undo()
    made.run(2_000)
    actual = Counter(int(message.value or b"") for message in made.read("out"))
    assert actual == Counter(range(1_000))


def test_a_thread_with_a_fenced_producer_creates_a_new_one() -> None:
    made = counting(exactly_once=True)
    thread = made.threads[made.start("a")]
    made.run_until(made.all_run)
    assert thread.producer.transactions is not None
    thread.producer.transactions._end(Error.INVALID_PRODUCER_ID_MAPPING)
    made.send("text", b"to be")
    made.run_until(lambda: counts_are(made, to=1, be=1))
    assert (thread.restarts, thread.error) == (1, None)
