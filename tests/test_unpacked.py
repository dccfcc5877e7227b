"""Files of others in bounded memory: bombs, devices, archives with links."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from brokertwin import unpacked
from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.offsets.sources import OffsetSource
from brokertwin.recordings.formats.lines import lines_of
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.recording import read as read_history
from tests.support.requestlogs import read
from tests.support.sources import ROOT

TEXT = b"".join(b"line %d\n" % number for number in range(50_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "lz4": lz4.frame.compress,
}
PEAK = """
import resource, sys
from pathlib import Path
from brokertwin.errors import UserError
from brokertwin.recordings.formats.lines import lines_of
from brokertwin.recordings.formats.pipeline import FileReading
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
try:
    print(sum(len(line.text) for line in lines_of(Path(sys.argv[1]), "x")))
except UserError as error:
    print(error.message)
"""


def texts(path: Path) -> list[bytes]:
    return [line.text for line in lines_of(path, "x")]


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize("count", [1, 3], ids=["one stream", "several streams"])
def test_compressed_files_are_read(tmp_path: Path, codec: str, count: int) -> None:
    file = tmp_path / "x"
    file.write_bytes(COMPRESS[codec](TEXT) * count)
    assert b"".join(texts(file)) == TEXT * count


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "bzip2"])
def test_a_cut_file_is_read_up_to_its_last_whole_line(tmp_path: Path, codec: str) -> None:
    whole = COMPRESS[codec](TEXT)
    file = tmp_path / "x"
    file.write_bytes(whole[: len(whole) * 2 // 3])
    cuts: list[bool] = []
    found = [line.text for line in lines_of(file, "x", on_cut=lambda: cuts.append(True))]
    assert cuts == [True]
    assert TEXT.startswith(b"".join(found))
    assert all(line.endswith(b"\n") for line in found)


def test_a_cut_request_log_is_reported(tmp_path: Path) -> None:
    log = (ROOT / "examples" / "billing.kafka-request.log.gz").read_bytes()
    warnings: list[str] = []
    for name, content in (("whole.gz", log), ("cut.gz", log[: len(log) // 2])):
        (tmp_path / name).write_bytes(content)
        documents, _ = read(tmp_path / name, reading=FileReading(1, warn=warnings.append))
        assert documents
    assert [each.split(":")[0] for each in warnings] == ["cut"]


def zeros(codec: str) -> Iterator[bytes]:
    piece = bytes(1 << 20)
    if codec == "gzip":
        whole = io.BytesIO()
        with gzip.GzipFile(fileobj=whole, mode="wb", compresslevel=1) as file:
            for _ in range(300):
                file.write(piece)
        yield whole.getvalue()
        return
    made = zstandard.ZstdCompressor(level=1).compressobj()
    for _ in range(1024):
        yield made.compress(piece)
    yield made.flush()


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_is_refused_within_bounded_memory(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(b"".join(zeros(codec)))
    assert file.stat().st_size < 3_000_000
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(file)], capture_output=True, text=True, check=False
    )
    assert "it has a line of more than 128 MiB, so it is no text" in done.stdout, done.stderr


def test_a_device_without_line_ends_is_refused() -> None:
    with pytest.raises(UserError, match="so it is no text"):
        texts(Path("/dev/zero"))


@contextmanager
def short_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    with monkeypatch.context() as patched:
        patched.setattr(unpacked, "LINE_BYTES_MAX", 100)
        yield 100


def test_a_long_line_is_cut_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\n" + b"b" * 150 + b"\nc\n" + b"d" * 100 + b"\n")
    with short_lines(monkeypatch):
        assert texts(file) == [b"a\n", b"b" * 101, b"c\n", b"d" * 100 + b"\n"]


def test_an_archive_is_read_without_its_links_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\n")
    (tmp_path / "latest.log").symlink_to("a.log")
    (tmp_path / "gone.log").symlink_to("/nowhere")
    (tmp_path / "hard.log").hardlink_to(tmp_path / "a.log")
    (tmp_path / "folder").mkdir()
    archive = tmp_path / "logs.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("latest.log", "a.log", "gone.log", "hard.log", "folder"):
            tar.add(tmp_path / name, name)
    assert texts(archive) == [b"one\n"]


def test_a_tar_header_of_any_size_is_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 4_000_000_000
    file = tmp_path / "x.tar"
    file.write_bytes(header.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    with pytest.raises(UserError, match="a header in it has 4000000000 bytes"):
        texts(file)


def test_archives_that_contain_archives_end(tmp_path: Path) -> None:
    data = b"one\n"
    for _ in range(unpacked.NESTED_MAX + 1):
        outer = io.BytesIO()
        with zipfile.ZipFile(outer, "w") as archive:
            archive.writestr("x", data)
        data = outer.getvalue()
    file = tmp_path / "x.zip"
    file.write_bytes(data)
    with pytest.raises(UserError, match="archives are nested more than 4 deep"):
        texts(file)


@pytest.mark.parametrize(("codec", "package"), [("zstd", "zstandard"), ("lz4", "lz4")])
def test_a_missing_codec_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, package: str
) -> None:
    file = tmp_path / "x"
    file.write_bytes(COMPRESS[codec](TEXT))
    for name in ("zstandard", "lz4", "lz4.frame"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=f"the package {package} is not installed"):
        texts(file)


def test_formats_import_no_codec() -> None:
    script = (
        "import sys, brokertwin.recordings.formats.lines;"
        "print({'lz4', 'zstandard', 'snappy', 'crc32c'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_lines_that_are_too_long_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokertwin.recordings.formats import readers

    monkeypatch.setattr(readers, "LINE_BYTES_MAX", 100)
    file = tmp_path / "broker-1.log"
    file.write_bytes(b"b" * 150 + b"\n")
    with short_lines(monkeypatch), pytest.raises(UserError, match="more than 100 bytes in a line"):
        read_history([file])


def test_offsets_are_read_in_pieces_too() -> None:
    def connect(address: str) -> ClientProperties:
        raise AssertionError(address)

    source = OffsetSource("/dev/zero", connect, lambda _: None)
    with pytest.raises(UserError, match="has a line of more than 8 MiB"):
        source.committed(())
