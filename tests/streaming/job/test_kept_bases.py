"""A worker's cache of bases never returns another one."""

import zlib
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.layers import Base
from brokertwin.streaming.job.kept_bases import KeptBases

ONE, OTHER = (zlib.compress(msgspec.msgpack.encode({"1/a": at, "1/b": "b" * 97})) for at in (1, 2))
SIZE = Base(ONE).size
ROOM = 128


def of_size(size: int) -> bytes:
    """Return a base of `size` bytes, at least 6."""
    return zlib.compress(msgspec.msgpack.encode({"k": b"x" * (size - 5)}))


def read_of(bases: KeptBases, cells: Iterable[str], sizes: dict[str, int]) -> list[str]:
    """The cells, in turn, whose bases were read because they were not kept."""
    read = []
    for cell in cells:
        before = bases._kept.get((cell, "logs"))
        if bases.read(cell, "logs", of_size(sizes[cell])) is not before:
            read.append(cell)
    return read


def test_a_base_is_read_once_and_replaced_by_its_successor() -> None:
    bases = KeptBases()
    first = bases.read("c", "logs", ONE)
    assert bases.read("c", "logs", bytes(bytearray(ONE))) is first
    other = bases.read("c", "logs", OTHER)
    assert other.items != first.items and other.packed == OTHER
    assert bases.read("c", "logs", ONE) is not first
    assert bases.read("d", "logs", ONE) is not bases.read("c", "groups", ONE)


def test_bases_are_kept_up_to_the_limit() -> None:
    sizes = {"a": 40, "b": 40, "c": 48}
    bases = KeptBases(ROOM)
    assert read_of(bases, "abc" * 3, sizes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("sizes", "turns", "read_each_turn"),
    [
        ({"a": 70, "b": 70}, "ab", "b"),
        ({"a": 10, "b": 120}, "ab", "a"),
        ({"a": 50, "b": 50, "c": 50}, "abc", "c"),
        ({"a": 70, "b": 70}, "abbb", "a"),
        ({"a": 70, "b": 70}, "aaab", "b"),
        ({"a": 10, "b": 10, "c": 110}, "abc", "a"),
    ],
)
def test_bases_larger_than_the_cache_do_not_evict_each_other(
    sizes: dict[str, int], turns: str, read_each_turn: str
) -> None:
    """In each turn as few bytes are read as can be: the others are kept."""
    bases = KeptBases(ROOM)
    read_of(bases, turns * 3, sizes)
    assert read_of(bases, turns * 2, sizes) == [*read_each_turn] * 2


def test_an_unused_base_is_evicted() -> None:
    sizes = {"a": 100, "b": 70}
    bases = KeptBases(ROOM)
    assert read_of(bases, "abbb", sizes) == ["a", "b", "b"]


@given(st.lists(st.sampled_from("abcdef"), max_size=40), st.integers(6, 60), st.integers(6, 60))
def test_the_cache_never_exceeds_its_limit(cells: list[str], one: int, two: int) -> None:
    bases = KeptBases(ROOM)
    for at, cell in enumerate(cells):
        bases.read(cell, "logs", of_size(one if at % 3 else two))
        assert sum(each.size for each in bases._kept.values()) <= ROOM


def test_a_too_large_base_is_read_each_time_and_evicts_none() -> None:
    bases = KeptBases(2 * SIZE)
    first = bases.read("a", "logs", ONE)
    large = of_size(9 * SIZE)
    assert bases.read("b", "logs", large) is not bases.read("b", "logs", large)
    assert bases.read("a", "logs", ONE) is first
