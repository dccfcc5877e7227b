"""Faults. A fault returns when it is over; the runner then waits for the recovery."""

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log
from tests.faults.overload import (
    BATCH_BYTES,
    BATCH_EVENTS,
    OVERLOAD_S,
    overload,
    send_requests,
    wait_until_done,
)
from tests.faults.processes import Server, break_connections, kill_all, stopped
from tests.faults.stand import JAVA, RESPONSE_TIMEOUT_S, WORKERS, Stand
from tests.support.patience import PATIENCE_S, wait_until

Fault = Callable[[Stand], None]
STOPPED_S = RESPONSE_TIMEOUT_S + 4
"""SIGSTOP of job and gateway: longer than the gateway waits for a response."""

KAFKA_STOPPED_S = 130
"""Longer than Spark's producer waits to deliver a row (`delivery.timeout.ms`), the longest of all
the time-outs towards Kafka."""

SLOW_S = 20
OTHERS_BYTES, OTHERS_AT_ONCE = 4 << 30, 256
DELAY_S, DELAYED_BATCHES = 0.05, 3
SLOWLY_S = int(PATIENCE_S)
"""Response timeout of a gateway if a fault is shorter and everything is slow: an executor's first
task takes more than a minute on a busy machine.
"""

CUT_S, CUT_EVERY_S = STOPPED_S, 0.1
ONE_OF, OTHERS, GROUPS, DEATHS = 100, 9, 600, 3
"""One worker dies in each `ONE_OF` groups, until this number of groups and deaths."""

POISON = 200


class Case(NamedTuple):
    """A fault.

    Attributes:
        name: its name for `--only`.
        what: description of the fault.
        home: a separate file system of this size in MiB, for `kafka` or `checkpoint`.
        has_faked_time: whether the gateway runs under libfaketime.
        max_offsets: `max_offsets_per_trigger` of the job; 0 for its default.
        max_bytes: the same of `max_bytes_per_trigger`.
        delay_s: how much later each packet to the broker, and from it, comes, all the time.
        on_cluster: whether the job runs on a standalone cluster of Spark.
        response_timeout_s: how long the gateway waits for a response.
        is_borne: whether job and gateway have to go on without a new start.
        others: how many further clusters the job holds, each a group of its micro-batches.
        dies_in_one_of: a Python worker dies in one of this number of groups; 0 for none.
    """

    name: str
    what: str
    fault: Fault
    home: str = ""
    has_faked_time: bool = False
    max_offsets: int = 0
    max_bytes: int = 0
    delay_s: float = 0
    on_cluster: bool = False
    response_timeout_s: int = RESPONSE_TIMEOUT_S
    is_borne: bool = False
    others: int = 0
    dies_in_one_of: int = 0

    @property
    def is_apart(self) -> bool:
        """Return whether it needs a separate stand."""
        own = (self.home, self.has_faked_time, self.max_offsets, self.delay_s, self.on_cluster)
        return any(own) or bool(self.others)


# -- kill -9


def kill_driver(stand: Stand) -> None:
    """The driver alone: Spark's JVM has to notice by itself."""
    stand.job.kill()


def kill_jvm(stand: Stand) -> None:
    """Spark's JVM alone: the driver has to notice."""
    kill_all(stand.job.below(JAVA))


def kill_all_of_job(stand: Stand) -> None:
    """Driver, JVM and workers at once, as when a machine ends."""
    kill_all([*stand.job.below(""), stand.job.process])


def kill_workers(stand: Stand) -> None:
    """Every Python worker, in the middle of a micro-batch; Spark tries the tasks again."""
    starts = stand.job.starts
    wait_for_a_batch(stand)
    kill_all(stand.job.below(WORKERS)[1:])
    wait_for_a_batch(stand)
    assert (stand.job.code, stand.job.starts) == (None, starts), "the job has ended"


def kill_workers_by_chance(stand: Stand) -> None:
    """Workers die by themselves (`chance.py`); groups are decided until enough of them have."""
    calls, kills = (stand.directory / name for name in ("calls", "kills"))
    before = calls.stat().st_size, kills.stat().st_size
    sent: list[str] = []
    starts = stand.job.starts

    def count() -> int:
        return calls.stat().st_size - before[0]

    def dead() -> int:
        return kills.stat().st_size - before[1]

    def goes_on() -> bool:
        for cluster in stand.clusters[1:]:
            sent.extend(send_requests(stand, 1, 2, cluster))
        wait_for_a_batch(stand)
        return count() >= GROUPS and dead() >= DEATHS

    wait_until(goes_on, "too few groups", 2 * PATIENCE_S)
    died = dead()
    wait_until_done(stand)
    found = {row.id for row in stand.bench.all_rows(outputs.RESPONSES)}
    assert not set(sent) - found, f"{len(set(sent) - found)} of {len(sent)} are not answered"
    stand.report(
        f"{died} workers died in {count()} groups, the job was started {stand.job.starts - starts}"
        " times more"
    )


def kill_daemon(stand: Stand) -> None:
    kill_all(stand.job.below(WORKERS))


def kill_executor(stand: Stand) -> None:
    """One executor of the cluster, in the middle of a micro-batch; a worker starts another one."""
    assert stand.cluster is not None
    wait_for_a_batch(stand)
    executors = stand.cluster.executors()
    assert len(executors) > 1, "there is nobody who could go on"
    kill_all(executors[:1])
    wait_until(lambda: executors[0] not in stand.cluster.executors(), "it is still there")


def kill_gateway(stand: Stand) -> None:
    stand.gateway.kill()


def kill_kafka(stand: Stand) -> None:
    """The broker; its page cache stays."""
    stand.kafka_process.kill()
    wait_until(lambda: not stand.kafka.status().running)


# -- SIGSTOP


def stop_job(stand: Stand) -> None:
    with stopped([stand.job.process, *stand.job.below("")]):
        time.sleep(STOPPED_S)


def stop_workers(stand: Stand) -> None:
    with stopped(stand.job.below(WORKERS)):
        time.sleep(STOPPED_S)


def stop_gateway(stand: Stand) -> None:
    """The gateway; longer than its own time-out."""
    with stopped([stand.gateway.process]):
        time.sleep(STOPPED_S)


def stop_kafka(stand: Stand) -> None:
    with stopped([stand.kafka_process]):
        time.sleep(KAFKA_STOPPED_S)


def slow_kafka(stand: Stand) -> None:
    until = time.monotonic() + SLOW_S
    while time.monotonic() < until:
        with stopped([stand.kafka_process]):
            time.sleep(0.9)
        time.sleep(0.1)


def delayed_kafka(stand: Stand) -> None:
    """The broker is slow from the beginning, and stays so: micro-batches commit all the same."""
    for _ in range(DELAYED_BATCHES):
        wait_for_a_batch(stand)


def fill_page_cache(stand: Stand) -> None:
    """Write all the time, and drop the page cache of Kafka's files and ours.

    The system then makes writers wait for the disk, and reads come from the disk.
    """
    file = stand.directory / "others"
    most = dropped = 0
    until = time.monotonic() + SLOW_S
    try:
        with file.open("wb", buffering=0) as out:
            while time.monotonic() < until:
                for _ in range(OTHERS_AT_ONCE):
                    out.write(bytes(1 << 20))
                if out.tell() >= OTHERS_BYTES:
                    out.seek(0)
                dropped += forget(stand.kafka.home / "data") + forget(stand.bench.checkpoint)
                most = max(most, not_written())
    finally:
        file.unlink(missing_ok=True)
    stand.report(f"at most {most >> 20} MiB were not written yet, {dropped} files dropped")


def forget(directory: Path) -> int:
    """Write the cached data of a directory's files and drop it; return the number of files."""
    count = 0
    for each in directory.rglob("*"):
        with contextlib.suppress(OSError):  # it has gone, or is a directory
            fd = os.open(each, os.O_RDWR)
            try:
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                count += 1
            finally:
                os.close(fd)
    return count


def not_written() -> int:
    """How much of files is in memory alone, in bytes: of the whole system."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Dirty:"))


# -- input of the job


def cut_job(stand: Stand) -> None:
    cut(stand, stand.job)


def cut_gateway(stand: Stand) -> None:
    """The gateway's connections to the broker; those of its clients stand."""
    cut(stand, stand.gateway)


def cut(stand: Stand, server: Server) -> None:
    """Nothing that takes longer than a moment gets through between a server and the broker."""
    until = time.monotonic() + CUT_S
    count = 0
    while time.monotonic() < until and server.code is None:
        count += break_connections([server.process, *server.below("")], stand.kafka_port)
        time.sleep(CUT_EVERY_S)
    assert count > 1, "nothing was cut"


def poison(stand: Stand) -> None:
    """Mix invalid events with those of clients: each becomes a dead letter and nothing else."""
    before = len(stand.bench.rows("dead-letters"))
    stand.bench.produce(poisonous(POISON), b"a")
    found = lambda: len(stand.bench.rows("dead-letters"))  # noqa: E731 (asked again and again)
    wait_until(lambda: found() >= before + POISON, "dead letters are missing")
    assert found() == before + POISON


def poisonous(count: int) -> Iterator[bytes]:
    """Invalid events of many kinds, each with a unique id if it can have one."""
    header = {"requestApiKey": 3, "requestApiVersion": 9}
    for number in range(count):
        event = {"id": f"poison-{uuid.uuid4()}", "cluster": "a", "requestHeader": header}
        yield [
            b"nonsense",
            b"[1, 2]",
            b'{"id": ',
            b"\xff\xfe\x00",
            json.dumps({**event, "id": 5}).encode(),
            json.dumps({**event, "cluster": "other"}).encode(),
            json.dumps(event).encode()[:-1],
            json.dumps({**event, "kind": "no such kind"}).encode(),
            b"[" * 100_000,
            b"x" * 1_000_000,
        ][number % 10]


# -- the checkpoint


def tear(log: str) -> Fault:
    """The newest file of a log of Spark's is empty, as after a power failure."""

    def fault(stand: Stand) -> None:
        wait_for_a_batch(stand)
        kill_all_of_job(stand)
        directory = stand.bench.checkpoint / log
        newest = max(int(each.name) for each in directory.iterdir() if each.name.isdigit())
        (directory / str(newest)).write_bytes(b"")
        (directory / f".{newest}.crc").unlink(missing_ok=True)

    return fault


def lose_commit(stand: Stand) -> None:
    """The newest commit is gone: the batch is decided again, with the same rows."""
    wait_for_a_batch(stand)
    kill_all_of_job(stand)
    newest = checkpoint_log.committed(stand.bench.checkpoint)
    for name in (str(newest), f".{newest}.crc"):
        (stand.bench.checkpoint / "commits" / name).unlink(missing_ok=True)


def second_job(stand: Stand) -> None:
    second = Server(stand.job.words, stand.job.environment, stand.directory / "second.log")
    second.start()
    wait_until(lambda: second.code is not None, "the second job is not refused")
    assert second.code == 2
    assert "Another job is running on the checkpoint" in second.output()
    assert stand.job.code is None


# -- the disk


def full(place: str) -> Fault:
    """No byte is left where Kafka or the checkpoint lies, for a while."""

    def fault(stand: Stand) -> None:
        home = stand.kafka.home if place == "kafka" else stand.bench.checkpoint
        with filled(home.parent / "filler"):
            until = time.monotonic() + STOPPED_S
            while time.monotonic() < until and not stand.has_ended():
                time.sleep(0.2)

    return fault


@contextmanager
def filled(file: Path) -> Iterator[None]:
    """Fill the file system with a file until the end."""
    try:
        with contextlib.suppress(OSError), file.open("wb", buffering=0) as out:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        out.write(bytes(size))
        assert psutil.disk_usage(str(file.parent)).free < 1 << 16
        yield
    finally:
        file.unlink(missing_ok=True)


# -- the clock


def step_clock(stand: Stand) -> None:
    """The gateway's clock goes forward by an hour, back by two, and is right again."""
    file = Path(stand.gateway.environment["FAKETIME_TIMESTAMP_FILE"])
    for step in ("+3600s", "-3600s", "+0s"):
        file.write_text(step)
        wait_for_a_batch(stand)
        time.sleep(2)


def wait_for_a_batch(stand: Stand) -> None:
    before = checkpoint_log.committed(stand.bench.checkpoint)
    wait_until(lambda: checkpoint_log.committed(stand.bench.checkpoint) > before, "no micro-batch")


CASES = (
    Case("driver", "kill -9 of the driver", kill_driver),
    Case("jvm", "kill -9 of Spark's JVM", kill_jvm),
    Case("job", "kill -9 of driver, JVM and workers at once", kill_all_of_job),
    Case("workers", "kill -9 of the Python workers in a micro-batch", kill_workers),
    Case(
        "workers-by-chance",
        f"kill -9 of the Python worker in a random one of {ONE_OF} groups, all the time;"
        f" {OTHERS + 1} groups in a micro-batch",
        kill_workers_by_chance,
        response_timeout_s=SLOWLY_S,
        is_borne=True,
        others=OTHERS,
        dies_in_one_of=ONE_OF,
    ),
    Case("daemon", "kill -9 of the workers and of the daemon that forks them", kill_daemon),
    Case(
        "executor",
        "kill -9 of an executor of a standalone cluster in a micro-batch",
        kill_executor,
        on_cluster=True,
        response_timeout_s=SLOWLY_S,
        is_borne=True,
    ),
    Case("gateway", "kill -9 of the gateway", kill_gateway),
    Case("kafka", "kill -9 of the Kafka broker", kill_kafka),
    Case("job-stopped", f"SIGSTOP of driver, JVM and workers for {STOPPED_S} s", stop_job),
    Case("workers-stopped", f"SIGSTOP of the Python workers for {STOPPED_S} s", stop_workers),
    Case("gateway-stopped", f"SIGSTOP of the gateway for {STOPPED_S} s", stop_gateway),
    Case("kafka-stopped", f"SIGSTOP of the broker for {KAFKA_STOPPED_S} s", stop_kafka),
    Case("kafka-slow", f"the broker is stopped for nine tenths of {SLOW_S} s", slow_kafka),
    Case(
        "kafka-delayed",
        f"each packet to and from the broker is delayed by {DELAY_S * 1000:.0f} ms",
        delayed_kafka,
        delay_s=DELAY_S,
        response_timeout_s=SLOWLY_S,
        is_borne=True,
    ),
    Case(
        "page-cache",
        f"other processes write up to {OTHERS_BYTES >> 30} GiB for {SLOW_S} s, so that neither"
        " Kafka's logs nor the checkpoint stay in the page cache",
        fill_page_cache,
        is_borne=True,
    ),
    Case("job-cut", f"the job's connections to the broker are cut for {CUT_S} s", cut_job),
    Case(
        "gateway-cut", f"the gateway's connections to the broker are cut for {CUT_S} s", cut_gateway
    ),
    Case("poison", f"{POISON} invalid events", poison),
    Case(
        "overload",
        f"up to three times as many events as the job can decide, for {OVERLOAD_S} s",
        overload,
        max_offsets=BATCH_EVENTS,
        max_bytes=BATCH_BYTES,
        is_borne=True,
    ),
    Case("torn-commit", "the newest file of `commits` is empty", tear("commits")),
    Case("torn-plan", "the newest file of `offsets` is empty", tear("offsets")),
    Case("lost-commit", "the newest file of `commits` is deleted", lose_commit),
    Case("second-job", "a second job on the checkpoint", second_job),
    Case("disk-checkpoint", "the disk of the checkpoint is full", full("checkpoint"), "checkpoint"),
    Case("disk-kafka", "the disk of Kafka's logs is full", full("kafka"), "kafka"),
    Case(
        "clock",
        "the gateway's clock jumps by hours, forward and back",
        step_clock,
        has_faked_time=True,
    ),
)
