"""One task: which record is next, and how far it may be committed."""

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import Names, TaskId
from brokertwin.clients.streams.task import StreamTask
from tests.support.topologies import copying

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def task() -> StreamTask:
    (sub,) = copying("a", "b").sub_topologies()
    return StreamTask(TaskId(0, 0), [A, B], sub, Names("app"))


def test_the_oldest_record_is_next() -> None:
    made = task()
    for at, offset, timestamp in ((A, 0, 5), (A, 1, 1), (B, 0, 3), (B, 1, 7)):
        made.add(at, offset, ProducerRecord(b"k", b"%d" % timestamp, timestamp))
    values = [made.process()[0].message.value for _ in range(4)]
    assert values == [b"3", b"5", b"1", b"7"]


def test_buffered_records_are_not_committed_but_markers_are() -> None:
    made = task()
    for offset in range(3):
        made.add(A, offset, ProducerRecord(None, b"v", offset))
    made.process()
    positions: dict[TopicPartition, int | None] = {A: 3, B: None}
    assert made.committable(positions) == {A: 1}
    made.process()
    made.process()
    assert made.committable({A: 4, B: 9}) == {A: 4, B: 9}
    assert made.committable({}) == {A: 4, B: 9}


def test_progress_does_not_decrease() -> None:
    made = task()
    made.add(A, 6, ProducerRecord(None, b"v", 1))
    made.process()
    assert made.committable({A: 7, B: 4}) == {A: 7, B: 4}
    assert made.committable({A: 3, B: 2}) == {A: 7, B: 4}
