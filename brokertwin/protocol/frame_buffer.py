"""Splits the bytes of a connection into frames, each after its size."""

from collections import deque

from brokertwin.protocol.frames import SIZE_BYTES


class FrameBuffer:
    """Received bytes.

    Attributes:
        frames: complete frames, in order; the caller removes them.
        wrong_size: an invalid size, after which all bytes are dropped.
    """

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.wrong_size: int | None = None
        self._received = bytearray()

    @property
    def next_frame(self) -> tuple[int, int]:
        """API key and size of a frame that has begun; -1 and 0 if they are not there yet."""
        received = self._received
        if len(received) < SIZE_BYTES + 2:
            return -1, 0
        size = int.from_bytes(received[:SIZE_BYTES], "big", signed=True)
        key = received[SIZE_BYTES : SIZE_BYTES + 2]
        return int.from_bytes(key, "big", signed=True), size

    def receive(self, data: bytes, count_max: int, bytes_max: int) -> None:
        """Add bytes, and take frames of at most `bytes_max` out until there are `count_max`."""
        frames, received = self.frames, self._received
        if not received and not frames:  # mostly, all bytes are one frame
            size = len(data) - SIZE_BYTES
            if 0 < size <= bytes_max and int.from_bytes(data[:SIZE_BYTES], "big") == size:
                frames.append(data[SIZE_BYTES:])
                return
        received += data
        while len(received) >= SIZE_BYTES and len(frames) < count_max:
            size = int.from_bytes(received[:SIZE_BYTES], "big", signed=True)
            if not 0 < size <= bytes_max:
                self.wrong_size = size
                received.clear()
                return
            end = SIZE_BYTES + size
            if len(received) < end:
                return
            with memoryview(received) as view:
                frames.append(bytes(view[SIZE_BYTES:end]))
            del received[:end]
