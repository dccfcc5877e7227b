"""The journal of events, and the files of batches."""

import errno
import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokertwin.errors import UserError
from brokertwin.gateway.engine import journal_snapshot
from brokertwin.gateway.engine.disk import Disk, sync_all
from brokertwin.gateway.engine.journal import Compaction, Journal
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import AT_ONCE, JournalOptions
from brokertwin.gateway.records.batch_store import BLOCK_BYTES, FileBatchStore
from brokertwin.protocol.errors import Error
from brokertwin.state.core.settings import BrokerSettings
from tests.support.batches import batch
from tests.support.crashing_disks import CrashError, CrashingDisk, FullDisk, Lost
from tests.support.examples import examples
from tests.support.gateways import CLUSTER, Client, Running, running_gateway, serving
from tests.support.patience import wait_until


def written(path: Path, documents: list[bytes]) -> bytes:
    journal = Journal(path)
    for document in documents:
        journal.write(document)
    journal.close()
    return path.read_bytes()


def read(path: Path) -> tuple[list[bytes], int]:
    """Return the documents, and how many bytes of a torn tail were dropped."""
    journal = Journal(path)
    try:
        return list(journal.replay()), journal.dropped_bytes
    finally:
        journal.close()


@given(data=st.data())
@settings(max_examples=examples(20))
def test_only_a_torn_tail_is_dropped(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    texts = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20)
    documents = [text.encode() for text in data.draw(st.lists(texts, min_size=1, max_size=5))]
    whole = written(path, documents)
    end = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:end])
    kept = whole[:end].count(b"\n")
    actual, dropped = read(path)
    assert actual == documents[:kept]
    assert path.stat().st_size == end - dropped
    written(path, [b"later"])
    assert read(path) == ([*documents[:kept], b"later"], 0)


def test_damaged_line_before_others_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = bytearray(written(path, [b"one", b"two", b"three"]))
    whole[whole.index(b"two")] ^= 1
    path.write_bytes(whole)
    with pytest.raises(UserError, match="damaged at line 2"):
        read(path)


def test_journal_has_one_holder(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal")
    with pytest.raises(UserError, match="Another gateway uses the journal"):
        Journal(tmp_path / "journal")
    first.close()
    Journal(tmp_path / "journal").close()


def test_journal_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot open the journal"):
        Journal(tmp_path)


class FileStores(RuleBasedStateMachine):
    """Batches in files: kept ones survive a restart; empty files are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="batches-"))
        self.store = FileBatchStore(self.directory, file_bytes=40)
        self.kept: dict[str, bytes] = {}

    @rule(data=st.binary(min_size=1, max_size=30), is_kept=st.booleans())
    def put(self, data: bytes, is_kept: bool) -> None:
        locator = self.store.put(data)
        assert self.store.get(locator) == data
        if is_kept:
            self.store.keep(locator)
            self.kept[locator] = data
        else:
            self.store.drop(locator, False)

    @rule(place=st.integers(0, 100))
    def drop(self, place: int) -> None:
        if self.kept:
            locator = sorted(self.kept)[place % len(self.kept)]
            del self.kept[locator]
            self.store.drop(locator, True)

    @rule()
    def collect(self) -> None:
        self.store.collect(lambda: self.kept)
        assert not self.store.is_garbage_due()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = FileBatchStore(self.directory, file_bytes=40)
        for locator in self.kept:
            self.store.keep(locator)

    @invariant()
    def everything_kept_is_there(self) -> None:
        for locator, data in self.kept.items():
            assert self.store.get(locator) == data

    def teardown(self) -> None:
        for locator in list(self.kept):
            self.store.drop(locator, True)
        self.store.close()
        for file in self.directory.iterdir():
            file.unlink()
        self.directory.rmdir()


TestFileStores = FileStores.TestCase
TestFileStores.settings = settings(max_examples=examples(10), stateful_step_count=25)


def test_file_is_kept_while_a_request_with_its_bytes_is_pending(tmp_path: Path) -> None:
    store = FileBatchStore(tmp_path, file_bytes=10)
    on_its_way = store.put(b"0123456789")
    gone = store.put(b"0123456789")
    store.put(b"0123456789")
    store.drop(gone, False)
    store.collect(list)
    assert store.get(on_its_way) == b"0123456789"
    assert store.get(gone) is None
    store.close()


SIZE = 2 * BLOCK_BYTES
IN_A_FILE = 6


def thinned(path: Path, disk: Disk) -> dict[str, bytes]:
    """Two full files: two batches of one remain and are returned, of the other none."""
    store = FileBatchStore(path, file_bytes=IN_A_FILE * SIZE, disk=disk)
    put = {}
    for number in range(2 * IN_A_FILE):
        data = bytes([number]) * SIZE
        put[store.put(data)] = data
    store.put(b"in the next file")
    kept = dict(list(put.items())[3:5])
    for locator in put:
        store.keep(locator)
    sync_all(disk, store.unsynced())
    for locator in put.keys() - kept.keys():
        store.drop(locator, True)
    freed = store.collect(lambda: kept)
    assert freed == (len(put) - len(kept)) * SIZE
    for locator, data in kept.items():
        assert store.get(locator) == data
    store.close()
    return kept


def test_file_with_few_batches_left_is_compacted(tmp_path: Path) -> None:
    kept = thinned(tmp_path, Disk())
    blocks = sum(file.stat().st_blocks for file in tmp_path.iterdir())
    assert blocks * 512 == len(kept) * SIZE + BLOCK_BYTES


@pytest.mark.parametrize("lost", Lost)
def test_interrupted_compaction_of_a_file_keeps_its_batches(tmp_path: Path, lost: Lost) -> None:
    whole = CrashingDisk()
    kept = thinned(tmp_path / "whole", whole)
    synced = [at for at, step in enumerate(whole.steps, 1) if step == "sync"][2]
    for at in range(synced + 1, whole.done + 2):  # the last crash point is behind its last step
        path, disk = tmp_path / str(at), CrashingDisk(at)
        with suppress(CrashError):
            thinned(path, disk)
        disk.end(lost)
        again = FileBatchStore(path)
        assert {locator: again.get(locator) for locator in kept} == kept
        again.close()
        assert not list(path.glob("*.thinning"))


def compacting(path: Path, disk: Disk) -> None:
    """Return a compaction with an event during the snapshot, and one after it."""
    journal = Journal(path, disk)
    list(journal.replay())
    for document in (b"1", b"2"):
        journal.write(document)
        sync_all(disk, journal.unsynced())
    compaction: Compaction = journal.compaction()
    journal.write(b"3")
    compaction.write([b"1 and 2", b"settings"])
    sync_all(disk, journal.unsynced())
    compaction.finish()
    with pytest.raises(UserError, match="Another gateway"):
        Journal(path)
    journal.write(b"4")
    sync_all(disk, journal.unsynced())
    journal.close()


@pytest.mark.parametrize("lost", Lost)
def test_compaction_loses_no_concurrent_event(tmp_path: Path, lost: Lost) -> None:
    whole = CrashingDisk()
    compacting(tmp_path / "whole", whole)
    assert read(tmp_path / "whole") == ([b"1 and 2", b"settings", b"3", b"4"], 0)
    written = [at for at, step in enumerate(whole.steps, 1) if step == "sync"]
    for at in range(1, whole.done + 2):
        path, disk = tmp_path / str(at) / "journal", CrashingDisk(at)
        with suppress(CrashError):
            compacting(path, disk)
        disk.end(lost)
        synced = sum(each < at for each in written)
        documents, _ = read(path)
        if documents[:1] == [b"1 and 2"]:
            documents[:2] = [b"1", b"2"]
        reported = [b"1", b"2", b"2", b"3", b"3", b"4"][:synced]
        assert documents[: len({*reported})] == sorted({*reported})


def test_journal_that_was_replaced_before_the_lock_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between open and lock another gateway replaces the file, and exits."""
    path, locks = tmp_path / "journal", 0
    whole = fcntl.flock

    def late(file: int, operation: int) -> None:
        nonlocal locks
        locks += 1
        if locks == 1:
            path.with_name("new").write_bytes(b"")
            path.with_name("new").replace(path)
        whole(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    journal = Journal(path)
    journal.write(b"here")
    assert locks == 2
    assert path.read_bytes().endswith(b"here\n")
    journal.close()


def test_lost_bytes_are_reported_as_missing(tmp_path: Path) -> None:
    store = FileBatchStore(tmp_path)
    locator = store.put(b"12345")
    store.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"123")
    again = FileBatchStore(tmp_path)
    assert again.get(locator) is None
    assert again.get("77:0:5") is None
    again.close()


def test_restarted_gateway_has_its_state(tmp_path: Path) -> None:
    """Topics, records, producers' sequences and committed offsets."""
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        topic_id = client.topic("kept", 2)
        producer = client.producer_id()
        for sequence in range(3):
            data = batch(b"%d" % sequence, producer=(producer, 0, sequence))
            assert client.produce("kept", data, 1)["baseOffset"] == sequence
        before = client.fetch("kept", 0, 1)["records"]
    with running_gateway(journal=journal) as running, running.client() as client:
        (topic,) = client.call("METADATA", 12, name="kept")["topics"]
        assert topic["topicId"] == topic_id
        assert client.fetch("kept", 0, 1)["records"] == before
        repeated = batch(b"2", producer=(producer, 0, 2))
        assert client.produce("kept", repeated, 1)["baseOffset"] == 2
        following = batch(b"3", producer=(producer, 0, 3))
        assert client.produce("kept", following, 1)["baseOffset"] == 3
        other = client.producer_id()
        assert other != producer


def test_file_whose_first_batches_were_deleted_keeps_the_others(tmp_path: Path) -> None:
    """On replay the journal deletes a file's only batch before it reaches the next one."""
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        client.topic("t")
        client.produce("t", batch(b"gone"))
        client.call("DELETE_RECORDS", 2, name="t", partitionIndex=0, offset=1, timeoutMs=1000)
        client.produce("t", batch(b"kept"))
        before = client.fetch("t", 1)["records"]
    with running_gateway(journal=journal) as running, running.client() as client:
        assert client.fetch("t", 1)["records"] == before


@contextmanager
def on_disk(path: Path, disk: Disk, fsync_ms: int | None = None) -> Iterator[Running]:
    """Start a gateway with a journal on disk; small journals are compacted, too."""
    options = JournalOptions(path, fsync_ms, 2_000, disk)
    with serving(LocalEngine(CLUSTER, [1], BrokerSettings(), options)) as running:
        yield running


def commit(client: Client, offset: int) -> int:
    response = client.call(
        "OFFSET_COMMIT", 8, groupId="g", name="t", partitionIndex=0, committedOffset=offset
    )
    return int(response["topics"][0]["partitions"][0]["errorCode"])


def test_full_disk_returns_retriable_errors_and_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    disk = FullDisk()
    with on_disk(tmp_path / "journal", disk) as running, running.client() as client:
        client.topic("t")
        assert client.produce("t", batch(b"0"))["errorCode"] == 0
        client.call("FIND_COORDINATOR", 4, coordinatorKeys=["g"])
        assert commit(client, 1) == 0
        for offset in range(1, 10):
            disk.is_full = True
            assert client.produce("t", batch(b"lost"))["errorCode"] == Error.KAFKA_STORAGE_ERROR
            assert commit(client, 100) == Error.NOT_COORDINATOR
            assert client.fetch("t", 0)["errorCode"] == 0
            disk.is_full = False
            assert client.produce("t", batch(b"%d" % offset))["baseOffset"] == offset
        assert commit(client, 10) == 0
        before = client.fetch("t", 0)["records"]
    with on_disk(tmp_path / "journal", Disk()) as running, running.client() as client:
        assert client.fetch("t", 0)["records"] == before
        response = client.call("OFFSET_FETCH", 7, groupId="g", name="t", partitionIndexes=[0])
        assert response["topics"][0]["partitions"][0]["committedOffset"] == 10


class Unsyncable(Disk):
    """A file whose sync fails once it `is_worn`."""

    is_worn = False
    syncs = 0

    def sync(self, handle: int) -> None:
        self.syncs += 1
        if self.is_worn:
            raise OSError(errno.EIO, "worn")
        super().sync(handle)


@pytest.mark.parametrize("fsync_ms", [AT_ONCE, 1])
def test_nothing_is_acknowledged_after_a_failed_sync(tmp_path: Path, fsync_ms: int) -> None:
    disk = Unsyncable()
    with on_disk(tmp_path / "journal", disk, fsync_ms) as running, running.client() as client:
        client.topic("t")
        assert client.produce("t", batch(b"0"))["errorCode"] == 0
        wait_until(lambda: disk.syncs > 0)
        disk.is_worn = True
        error = Error.KAFKA_STORAGE_ERROR
        wait_until(lambda: client.produce("t", batch(b"1"))["errorCode"] == error)
        disk.is_worn = False
        assert client.produce("t", batch(b"2"))["errorCode"] == error
        assert client.fetch("t", 0)["errorCode"] == 0
    with on_disk(tmp_path / "journal", disk, fsync_ms) as running, running.client() as client:
        assert client.fetch("t", 0)["errorCode"] == 0
        assert client.produce("t", batch(b"3"))["errorCode"] == 0


def test_torn_journal_is_continued_before_the_tear(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        client.topic("whole")
        client.topic("torn")
    journal.write_bytes(journal.read_bytes()[:-9])
    with running_gateway(journal=journal) as running, running.client() as client:
        topics = client.call("METADATA", 9, topics=None)["topics"]
        assert [topic["name"] for topic in topics] == ["whole"]


def test_events_are_replayed_under_the_settings_of_their_time(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for partitions in (2, 5):
        settings_given = {"num.partitions": str(partitions)}
        with (
            running_gateway(settings_given, journal=journal) as running,
            running.client() as client,
        ):
            name = {"name": f"of-{partitions}", "numPartitions": -1, "replicationFactor": -1}
            client.call("CREATE_TOPICS", 7, {"topics": [name], "timeoutMs": 30000})
    with running_gateway(journal=journal) as running, running.client() as client:
        topics = client.call("METADATA", 9, topics=None)["topics"]
        assert {t["name"]: len(t["partitions"]) for t in topics} == {"of-2": 2, "of-5": 5}


def test_journal_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with running_gateway(journal=tmp_path / "journal"):
        pass
    with (
        pytest.raises(UserError, match="with brokers"),
        running_gateway(brokers=2, journal=tmp_path / "journal"),
    ):
        pass


def test_reading_writes_nothing_to_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        client.topic("read")
        size = journal.stat().st_size
        client.fetch("read", 0)
        client.list_offset("read", -1)
        assert journal.stat().st_size == size


@pytest.mark.parametrize("column", ["not base64", "bm8gemxpYg==", "eJw7CAAAwgDC"])
def test_damaged_snapshot_column_is_reported_with_a_hint(column: str) -> None:
    """Invalid base64, invalid zlib, or no map of items."""
    head = journal_snapshot.HEAD + b': {"version": 5, "events": 0, "lines": 1}}'
    table = msgspec.json.encode({"table": ["logs", column]})
    with pytest.raises(UserError, match=r"The snapshot in the journal is damaged") as error:
        journal_snapshot.read(head, lambda: table)
    assert "Restore the journal" in error.value.hint
