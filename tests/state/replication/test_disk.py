"""Log directories and their checkpoint files."""

from collections import Counter
from typing import Any

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.logs import checkpoint_files
from brokertwin.state.replication import disk
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

DISKS = ("/disk-1", "/disk-2", "/disk-3")


def files(bench: Bench, broker: int = 1) -> dict[str, str]:
    return disk.files(Broker(broker, bench.cell.tables, bench.settings, bench.now))


def entries(bench: Bench, name: str, broker: int = 1) -> Any:
    return checkpoint_files.parse(files(bench, broker)[name])


def test_one_directory_has_one_set_of_files() -> None:
    bench = Bench()
    bench.topic("a", 2)
    assert sorted(files(bench)) == [
        "a-0/leader-epoch-checkpoint",
        "a-1/leader-epoch-checkpoint",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert files(bench)["replication-offset-checkpoint"] == "0\n2\na 0 0\na 1 0\n"
    assert files(bench)["a-0/leader-epoch-checkpoint"] == "0\n1\n0 0\n"


def test_high_watermarks_are_those_of_the_last_write_and_recovery_points_log_ends() -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.produce(count=7)
    bench = replicas.bench
    place = ("orders", 0)
    assert entries(bench, "replication-offset-checkpoint")[place] == 0
    assert entries(bench, "recovery-point-offset-checkpoint")[place] == 7
    bench.now += 5000
    assert entries(bench, "replication-offset-checkpoint", 3)[place] == 7
    assert entries(bench, "log-start-offset-checkpoint") == {}
    bench.request("DELETE_RECORDS", 2, name="orders", partitionIndex=0, offset=3, timeoutMs=1000)
    assert entries(bench, "log-start-offset-checkpoint")[place] == 3
    assert files(bench)["cleaner-offset-checkpoint"] == ""


def test_leader_epoch_file_has_epochs_with_records_and_the_leaders_own() -> None:
    replicas = Replicas(min_insync_replicas="1")

    def epochs(broker: int) -> checkpoint_files.Epochs:
        text = files(replicas.bench, broker)["orders-0/leader-epoch-checkpoint"]
        return checkpoint_files.parse_epochs(text)

    assert [epochs(broker) for broker in BROKERS] == [{0: 0}, {}, {}]
    replicas.produce(count=3)
    replicas.stop(1)
    replicas.start(1)
    assert replicas.leader() == (2, 1)
    assert epochs(2) == {0: 0, 1: 3}
    assert epochs(3) == {0: 0}, "no record of the new epoch"
    replicas.produce(count=2)
    assert epochs(3) == {0: 0, 1: 3}


def test_new_log_is_placed_in_the_directory_with_the_fewest() -> None:
    bench = Bench(log_dirs=DISKS)
    bench.topic("a", 2)
    bench.topic("b", 3)
    logs = {path for path in files(bench) if path.endswith("leader-epoch-checkpoint")}
    assert logs == {
        f"/disk-{number}/{log}/leader-epoch-checkpoint"
        for number, log in ((1, "a-0"), (2, "a-1"), (3, "b-0"), (1, "b-1"), (2, "b-2"))
    }
    bench.request("DELETE_TOPICS", 5, topicNames=["a"], timeoutMs=1000)
    bench.topic("c", 4)
    found = Counter(
        path.split("/")[1] for path in files(bench) if path.endswith("leader-epoch-checkpoint")
    )
    assert sorted(found.values()) == [2, 2, 3]


def test_each_directory_has_files_even_if_empty() -> None:
    bench = Bench(log_dirs=DISKS)
    bench.topic("a", 2)
    bench.reload()
    texts = [files(bench)[f"{directory}/replication-offset-checkpoint"] for directory in DISKS]
    assert texts == ["0\n1\na 0 0\n", "0\n1\na 1 0\n", "0\n0\n"]


def test_restarted_log_stays_in_its_directory() -> None:
    replicas = Replicas(bench=Bench(BROKERS, log_dirs=DISKS), min_insync_replicas="1")
    bench = replicas.bench
    replicas.produce()
    replicas.isolate(3)
    replicas.produce(acks=1, count=4)
    bench.tick(100_000)
    bench.request("DELETE_RECORDS", 2, name="orders", partitionIndex=0, offset=3, timeoutMs=1000)
    replicas.rejoin(3)
    kinds = [entry["record"]["type"] for entry in bench.records() if entry["machine"] == 3]
    assert "LogStartedAnew" in kinds
    assert replicas.log(3).directory == "/disk-1"
