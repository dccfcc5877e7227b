"""What a worker keeps of bases: never another than the one that is asked for."""

import zlib

import msgspec
import pytest

from brokerstream.state.core.layers import Base
from brokerstream.streaming.kept_bases import KeptBases

ONE, OTHER = (zlib.compress(msgspec.msgpack.encode({"1/a": at, "1/b": "b" * 97})) for at in (1, 2))
SIZE = Base(ONE).size


def test_a_base_is_read_once_and_another_in_its_place_takes_it() -> None:
    bases = KeptBases()
    first = bases.read("c", "logs", ONE)
    assert bases.read("c", "logs", bytes(bytearray(ONE))) is first
    other = bases.read("c", "logs", OTHER)
    assert other.items != first.items and other.packed == OTHER
    assert bases.read("c", "logs", ONE) is not first
    assert bases.read("d", "logs", ONE) is not bases.read("c", "groups", ONE)


@pytest.mark.parametrize(("room", "kept"), [(2 * SIZE, True), (2 * SIZE - 1, False)])
def test_those_read_last_are_kept_as_far_as_there_is_room(room: int, kept: bool) -> None:
    bases = KeptBases(room)
    first, second = bases.read("a", "logs", ONE), bases.read("b", "logs", ONE)
    assert (bases.read("a", "logs", ONE) is first) is kept
    assert bases.read("c", "logs", ONE) is not first
    assert bases.read("b", "logs", ONE) is not second, "it was read before a's"


def test_a_base_without_room_is_read_each_time() -> None:
    bases = KeptBases(SIZE - 1)
    assert bases.read("a", "logs", ONE) is not bases.read("a", "logs", ONE)


def test_a_base_without_room_drives_no_other_out() -> None:
    large = zlib.compress(msgspec.msgpack.encode({"1/a": "a" * 9 * SIZE}))
    bases = KeptBases(2 * SIZE)
    first = bases.read("a", "logs", ONE)
    assert bases.read("b", "logs", large) is not bases.read("b", "logs", large)
    assert bases.read("a", "logs", ONE) is first
