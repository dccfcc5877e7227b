"""What outlives a gateway: the journal of events, and the files of batches."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokerstream.errors import UserError
from brokerstream.gateway.batch_store import FileStore
from brokerstream.gateway.journal import Journal
from tests.support.batches import batch
from tests.support.examples import examples
from tests.support.gateways import running_gateway


def written(path: Path, documents: list[bytes]) -> bytes:
    journal = Journal(path)
    for document in documents:
        journal.write(document)
    journal.close()
    return path.read_bytes()


def read(path: Path) -> tuple[list[bytes], int]:
    """The documents, and how many bytes of a torn tail were dropped."""
    journal = Journal(path)
    try:
        return list(journal.replay()), journal.dropped_bytes
    finally:
        journal.close()


@given(data=st.data())
@settings(max_examples=examples(20))
def test_a_torn_tail_is_dropped_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    texts = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20)
    documents = [text.encode() for text in data.draw(st.lists(texts, min_size=1, max_size=5))]
    whole = written(path, documents)
    end = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:end])
    kept = whole[:end].count(b"\n")
    found, dropped = read(path)
    assert found == documents[:kept]
    assert path.stat().st_size == end - dropped
    written(path, [b"later"])
    assert read(path) == ([*documents[:kept], b"later"], 0)


def test_a_damaged_line_with_others_behind_it_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = bytearray(written(path, [b"one", b"two", b"three"]))
    whole[whole.index(b"two")] ^= 1
    path.write_bytes(whole)
    with pytest.raises(UserError, match="damaged at line 2"):
        read(path)


def test_a_journal_has_one_holder(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal")
    with pytest.raises(UserError, match="Another gateway has the journal"):
        Journal(tmp_path / "journal")
    first.close()
    Journal(tmp_path / "journal").close()


def test_a_journal_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened"):
        Journal(tmp_path)


class FileStores(RuleBasedStateMachine):
    """Batches in files: what is kept is there, also after a restart; empty files go."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="batches-"))
        self.store = FileStore(self.directory, file_bytes=40)
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
    def restart(self) -> None:
        self.store.close()
        self.store = FileStore(self.directory, file_bytes=40)
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


def test_bytes_that_are_lost_are_none(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    locator = store.put(b"12345")
    store.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"123")
    again = FileStore(tmp_path)
    assert again.get(locator) is None
    assert again.get("77:0:5") is None
    again.close()


def test_a_restarted_gateway_goes_on_where_it_was(tmp_path: Path) -> None:
    """Topics, records, producers' sequences and committed offsets are there again."""
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        topic_id = client.topic("kept", 2)
        producer = client.producer_id()
        for sequence in range(3):
            data = batch(b"%d" % sequence, producer=(producer, 0, sequence))
            assert client.produce("kept", data, 1)["baseOffset"] == sequence
        before = client.fetch("kept", 0, 1)["records"]
    with running_gateway(journal=journal) as running, running.client() as client:
        (topic,) = client.call("METADATA", 12, {"topics": [{"name": "kept"}]})["topics"]
        assert topic["topicId"] == topic_id
        assert client.fetch("kept", 0, 1)["records"] == before
        repeated = batch(b"2", producer=(producer, 0, 2))
        assert client.produce("kept", repeated, 1)["baseOffset"] == 2
        following = batch(b"3", producer=(producer, 0, 3))
        assert client.produce("kept", following, 1)["baseOffset"] == 3
        other = client.producer_id()
        assert other != producer


def test_a_torn_journal_is_taken_up_before_the_tear(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        client.topic("whole")
        client.topic("torn")
    journal.write_bytes(journal.read_bytes()[:-9])
    with running_gateway(journal=journal) as running, running.client() as client:
        topics = client.call("METADATA", 9, {"topics": None})["topics"]
        assert [topic["name"] for topic in topics] == ["whole"]


def test_events_are_decided_again_under_the_settings_of_their_time(tmp_path: Path) -> None:
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
        topics = client.call("METADATA", 9, {"topics": None})["topics"]
        assert {t["name"]: len(t["partitions"]) for t in topics} == {"of-2": 2, "of-5": 5}


def test_the_journal_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with running_gateway(journal=tmp_path / "journal"):
        pass
    with (
        pytest.raises(UserError, match="with brokers"),
        running_gateway(brokers=2, journal=tmp_path / "journal"),
    ):
        pass


def test_reading_leaves_no_trace_in_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as running, running.client() as client:
        client.topic("read")
        size = journal.stat().st_size
        client.fetch("read", 0)
        client.list_offset("read", -1)
        assert journal.stat().st_size == size
