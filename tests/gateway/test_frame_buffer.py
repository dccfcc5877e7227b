"""Frames are the same however their bytes arrive."""

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokertwin.protocol.frames import FrameBuffer
from tests.support.examples import examples

FRAMES = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
MOST = 20


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@settings(max_examples=examples(50))
@given(FRAMES, st.lists(st.integers(1, 30), min_size=1), st.integers(1, 4))
@example([sized(b"in")], [4, 6], 1)  # the second part of a frame looks like a frame
def test_frames_do_not_depend_on_how_their_bytes_arrive(
    frames: list[bytes], sizes: list[int], ahead: int
) -> None:
    buffer, data = FrameBuffer(), b"".join(map(sized, frames))
    actual, at, turn = [], 0, 0
    while at < len(data):
        end = at + sizes[turn % len(sizes)]
        buffer.receive(data[at:end], ahead, MOST)
        at, turn = end, turn + 1
        assert len(buffer.frames) <= ahead
        while buffer.frames:
            actual.append(buffer.frames.popleft())
            buffer.receive(b"", ahead, MOST)
    assert actual == frames
    assert buffer.wrong_size is None


@pytest.mark.parametrize("size", [0, -1, MOST + 1])
@pytest.mark.parametrize("before", [b"", b"first"])
def test_wrong_size_ends_the_frames_after_those_before_it(size: int, before: bytes) -> None:
    buffer = FrameBuffer()
    first = sized(before) if before else b""
    buffer.receive(first + struct.pack(">i", size) + bytes(max(size, 0)), 8, MOST)
    assert list(buffer.frames) == ([before] if before else [])
    assert buffer.wrong_size == size


def test_frames_beyond_the_limit_wait_for_those_before_them() -> None:
    buffer = FrameBuffer()
    for frame in (b"first", b"second"):
        buffer.receive(sized(frame), 1, MOST)
    assert buffer.frames.popleft() == b"first"
    assert not buffer.frames
    buffer.receive(b"", 1, MOST)
    assert list(buffer.frames) == [b"second"]
