"""Source tasks that crash, and that go on though another has their work: each line once.

On a gateway and on Kafka.
"""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from brokertwin.clients.io.producer import TransactionError
from tests.clients.io.test_consumer_members import make_topic, topic_at
from tests.support.connect_tasks import Copy, Crash
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S, wait_until

NUMBERS = count(1)


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway({"transaction.state.log.num.partitions": "2"}) as running:
        yield running.bootstrap


@pytest.fixture
def copy(bootstrap: str, tmp_path: Path) -> Copy:
    made = Copy(bootstrap, tmp_path, topic_at(bootstrap, f"copied-{next(NUMBERS)}"))
    make_topic(bootstrap, made.offsets)
    return made


def test_example_18_each_line_is_written_once_despite_task_crashes(
    copy: Copy,
) -> None:
    copy.grow(40)
    for crash_at, before in ((1, True), (2, False), (3, True), (1, False)):
        with pytest.raises(Crash):
            copy.run_exact(lambda: False, crash_at=crash_at, before=before)
        copy.grow(5)
    copy.run_exact(copy.until_whole())
    assert sorted(copy.found(is_committed=True)) == sorted(copy.expected)
    assert len(copy.found(is_committed=False)) > len(copy.expected)
    assert copy.position(is_committed=True) == copy.file.stat().st_size


def test_example_19_a_replaced_task_is_fenced(copy: Copy) -> None:
    """The zombie does not know: it reads on when the file grows, and its lines are refused."""
    copy.grow(10)
    ended: list[BaseException] = []
    stop = threading.Event()

    def zombie() -> None:
        try:
            copy.run_exact(stop.is_set)
        except TransactionError as error:
            ended.append(error)

    thread = threading.Thread(target=zombie)
    thread.start()
    size = copy.file.stat().st_size
    wait_until(lambda: copy.position(is_committed=True) == size, "the first task has copied")
    over = iter([False, True])
    copy.run_exact(lambda: next(over))  # it begins, and has nothing to do
    copy.grow(10)
    thread.join(PATIENCE_S)
    stop.set()
    reported = [str(error) for error in ended]
    failed = "The transaction failed, ABORTABLE_ERROR: 47 INVALID_PRODUCER_EPOCH."
    assert reported == [failed], "as of KIP-890, in Java, too"
    assert sorted(copy.found(is_committed=True)) == sorted(copy.expected[:10])
    copy.run_exact(copy.until_whole())
    assert sorted(copy.found(is_committed=True)) == sorted(copy.expected)


def test_without_exactly_once_lines_repeat_but_none_is_lost(copy: Copy) -> None:
    copy.grow(40)
    with pytest.raises(Crash):
        copy.run_plain(lambda: False, crash_at=1)
    copy.run_plain(copy.until_whole())
    found = copy.found(is_committed=False)
    assert set(found) == set(copy.expected)
    assert len(found) > len(copy.expected)
