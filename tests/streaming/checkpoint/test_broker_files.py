"""What brokers would have on their disks, as files."""

from pathlib import Path

from brokertwin.state.logs import checkpoint_files
from brokertwin.streaming.checkpoint import broker_files
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas


def test_each_broker_has_its_files(tmp_path: Path) -> None:
    replicas = Replicas(min_insync_replicas="1")
    replicas.produce(count=5)
    replicas.bench.now += 5000
    replicas.produce(count=2)
    cells = {"demo": replicas.bench.cell.columns()}
    assert broker_files.write(tmp_path, cells) == 5 * len(BROKERS)
    for broker in BROKERS:
        place = tmp_path / "demo" / f"broker-{broker}"
        found = {
            name: checkpoint_files.parse((place / f"{name}-offset-checkpoint").read_text())
            for name in ("replication", "recovery-point", "log-start", "cleaner")
        }
        assert found["replication"] == {("orders", 0): 5}, "as of the last write"
        assert found["recovery-point"] == {("orders", 0): 7}
        assert found["log-start"] == found["cleaner"] == {}
        epochs = (place / "orders-0" / "leader-epoch-checkpoint").read_text()
        assert checkpoint_files.parse_epochs(epochs) == {0: 0}


def test_several_log_directories_are_folders(tmp_path: Path) -> None:
    bench = Bench(log_dirs=("/disk-1", "/disk-2"))
    bench.topic("a", 3)
    broker_files.write(tmp_path, {"demo": bench.cell.columns()})
    found = sorted(path.parent.name for path in tmp_path.rglob("replication-offset-checkpoint"))
    assert found == ["disk-1", "disk-2"]
