"""Written Spark checkpoints are readable; `test_restore.py`: by Spark, too."""

import struct
import zlib
from functools import partial
from pathlib import Path

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.errors import UserError
from brokertwin.state.core import layers
from brokertwin.state.core.layers import LayeredColumn
from brokertwin.state.core.tables import CellTables
from brokertwin.streaming.checkpoint import checkpoint_log, state_reader, store_files, store_writer
from brokertwin.streaming.checkpoint.store_files import NotReadable
from brokertwin.streaming.job.kept_bases import KeptBases
from tests.support.made_checkpoints import PLAN, bench, made

STATES = st.dictionaries(st.integers(0, 2**31 - 1), st.lists(st.binary(), max_size=4), max_size=5)


@given(STATES, st.integers(1, 5))
def test_every_state_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, states: dict[int, list[bytes]], partitions: int
) -> None:
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    rows = {key: store_writer.state_row(7, columns) for key, columns in states.items()}
    store_writer.write(checkpoint, rows, PLAN._replace(shuffle_partitions=partitions))
    assert store_files.read_states(checkpoint, 0, states) == rows
    for key, columns in states.items():
        count = 1 + len(columns)
        version, *fields = store_files.unsafe_row(rows[key], count, range(1, count))
        assert (version, fields) == (struct.pack("<q", 7), columns)


def test_a_large_incompressible_state_is_read_back(tmp_path: Path) -> None:
    noise = b"".join(xxhash.xxh128_digest(n.to_bytes(4, "big")) for n in range(30_000))
    rows = {1: store_writer.state_row(4, [noise, b"a" * 300_000])}
    store_writer.write(tmp_path, rows, PLAN)
    assert store_files.read_states(tmp_path, 0, [1, 2]) == rows


def test_a_block_has_lz4_javas_checksum() -> None:
    """Of one that Spark 4.0 has written: an empty store's changelog."""
    written = bytes.fromhex(
        "4c5a34426c6f636b 15 04000000 04000000 db804d08 ffffffff"
        "4c5a34426c6f636b 15 00000000 00000000 00000000"
    )
    made_here = store_writer.changelog([])
    checksum = slice(17, 21)
    assert made_here[checksum] == written[checksum]
    assert list(store_files.changes(written)) == list(store_files.changes(made_here)) == []


def test_the_logs_have_one_committed_micro_batch(tmp_path: Path) -> None:
    store_writer.write(tmp_path, {}, PLAN)
    assert checkpoint_log.planned(tmp_path) == checkpoint_log.committed(tmp_path) == 0
    assert checkpoint_log.end_offsets(tmp_path, 0) == {"p.requests": {0: 7, 1: 4}}
    assert checkpoint_log.configuration(tmp_path, 0)["spark.sql.shuffle.partitions"] == "2"
    assert len(checkpoint_log.query_id(tmp_path)) == 36


def test_another_state_store_is_refused(tmp_path: Path) -> None:
    other = {"spark.sql.streaming.stateStore.compression.codec": "zstd"}
    with pytest.raises(NotReadable, match=r"compression\.codec zstd"):
        store_writer.write(tmp_path, {}, PLAN._replace(configuration=other))
    assert list(tmp_path.iterdir()) == []


def test_a_written_checkpoint_is_read_like_a_jobs(tmp_path: Path) -> None:
    columns = made(tmp_path / "checkpoint")
    assert columns["default"]["logs"]


def test_columns_in_layers_are_read_as_one_map_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "LAYERED_BYTES", 0)
    cell = bench().cell
    stored, expected = cell.stored(), cell.columns()
    assert layers.is_layered(stored["logs"]) and not layers.is_layered(expected["logs"])
    assert made(tmp_path / "checkpoint", stored) == {"default": expected}
    assert state_reader.read_stored(tmp_path / "checkpoint") == {"default": stored}


def test_one_table_is_opened_and_its_base_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner looks into a busy job's state every few seconds; what rests costs it nothing."""
    monkeypatch.setattr(layers, "LAYERED_BYTES", 0)
    made(tmp_path / "checkpoint", bench().cell.stored())
    bases, kept = KeptBases(), []
    for _ in range(2):
        (columns,) = state_reader.read_stored(tmp_path / "checkpoint").values()
        tables = CellTables({**columns, "groups": b"\xc1"}, partial(bases.read, "default"))
        assert tables.logs.keys("1/log/")
        kept.append(bases._kept["default", "logs"])
    assert kept[0] is kept[1]


NONE = zlib.compress(b"\x80")
DAMAGED = {
    "base": LayeredColumn(b"no base", NONE, []),
    "changes": LayeredColumn(NONE, NONE[:-1], []),
    "dropped": LayeredColumn(NONE, NONE, ["1/a"]),
    "layers": [NONE],
    "map": {1: "one"},
    "text": msgspec.Raw(b"\x81\xa1\xff\x00"),
    "bytes": msgspec.Raw(b"\xc1"),
}


@pytest.mark.parametrize("part", DAMAGED)
def test_a_damaged_column_is_reported_with_a_remedy(tmp_path: Path, part: str) -> None:
    columns = {**bench().cell.stored(), "logs": msgspec.msgpack.encode(DAMAGED[part])}
    with pytest.raises(UserError, match=r"cell default in the checkpoint .* is damaged") as error:
        made(tmp_path / "checkpoint", columns)
    assert "snapshot restore" in error.value.hint and "empty --checkpoint" in error.value.hint
