"""The recorder: order, bounded delay of traffic, reported losses."""

import asyncio
import gzip
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.errors import UserError
from brokertwin.gateway.capture.recorder import Recorder
from brokertwin.gateway.capture.sinks import FileSink, SinkError
from brokertwin.recordings.formats.lines import lines_of


class SlowSink:
    """A sink that blocks until released, and keeps its documents."""

    name = "slow sink"

    def __init__(self, is_open: bool = False) -> None:
        self.gate = threading.Event()
        self.written: list[bytes] = []
        if is_open:
            self.gate.set()

    def open(self) -> None:
        pass

    def write(self, documents: Sequence[bytes]) -> None:
        self.gate.wait(20)
        self.written += documents

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class FullDisk(SlowSink):
    def write(self, documents: Sequence[bytes]) -> None:
        super().write(documents)
        if len(self.written) > 1:
            raise SinkError("No space left on device")


@given(documents=st.lists(st.binary(min_size=1, max_size=30)), waiting=st.integers(1, 60))
def test_documents_are_written_in_order(documents: list[bytes], waiting: int) -> None:
    sink = SlowSink(is_open=True)

    async def record() -> Recorder:
        recorder = Recorder(sink, waiting_bytes=waiting)
        recorder.start()
        for document in documents:
            await recorder.put(document)
        await recorder.close()
        return recorder

    recorder = asyncio.run(record())
    assert sink.written == documents
    assert (recorder.taken, recorder.lost.total()) == (len(documents), 0)


def test_traffic_waits_for_a_slow_sink() -> None:
    sink = SlowSink()

    async def record() -> Recorder:
        recorder = Recorder(sink, waiting_bytes=10)
        recorder.start()
        await recorder.put(b"x" * 10)
        second = asyncio.create_task(recorder.put(b"second"))
        done, _ = await asyncio.wait([second], timeout=0.05)
        assert not done
        sink.gate.set()
        await second
        await recorder.close()
        return recorder

    assert asyncio.run(record()).lost.total() == 0
    assert sink.written == [b"x" * 10, b"second"]


def test_wait_for_a_slow_sink_is_bounded() -> None:
    sink = SlowSink()
    reported: list[bool] = []

    async def record() -> Recorder:
        recorder = Recorder(sink, lambda: reported.append(True), waiting_bytes=10, patience_s=0.02)
        recorder.start()
        await recorder.put(b"x" * 10)
        for _ in range(3):
            await recorder.put(b"lost")
        sink.gate.set()
        while not recorder._room.is_set():
            await asyncio.sleep(0.001)
        await recorder.put(b"kept again")
        await recorder.close()
        return recorder

    recorder = asyncio.run(record())
    assert sink.written == [b"x" * 10, b"kept again"]
    assert dict(recorder.lost) == {"slow sink is too slow": 3}
    assert reported == [True], "the first is said, and no other"


def test_full_disk_ends_the_recording_and_not_the_traffic() -> None:
    sink = FullDisk(is_open=True)
    reported = asyncio.Event()

    async def record() -> Recorder:
        recorder = Recorder(sink, reported.set)
        recorder.start()
        await recorder.put(b"kept")
        while not sink.written:
            await asyncio.sleep(0.001)
        await recorder.put(b"too much")
        await asyncio.wait_for(reported.wait(), 10)
        await recorder.put(b"later")
        await recorder.close()
        return recorder

    lost = asyncio.run(record()).lost
    assert lost == {"No space left on device": 1, "nothing can be written any more": 1}


@pytest.mark.parametrize("name", ["plain.jsonl", "zipped.jsonl.gz"])
def test_file_has_a_line_for_each_document(name: str, tmp_path: Path) -> None:
    sink = FileSink(tmp_path / name)
    sink.open()
    sink.write([b"1", b"2"])
    cut: list[str] = []
    texts = [line.text for line in lines_of(tmp_path / name, name, on_cut=lambda: cut.append(name))]
    assert texts == [b"1\n", b"2\n"], "it is read while it is written"
    assert cut == ([name] if name.endswith(".gz") else [])
    sink.write([b"3"])
    sink.close()
    open_file = gzip.open if name.endswith(".gz") else open
    with open_file(tmp_path / name, "rb") as file:
        assert file.read() == b"1\n2\n3\n"


def test_unwritable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot write to .*: No such file or directory"):
        FileSink(tmp_path / "nowhere" / "file.jsonl").open()
    full = FileSink(Path("/dev/full"))
    full.open()
    with pytest.raises(SinkError, match="No space left on device"):
        full.write([b"x" * 100_000])
