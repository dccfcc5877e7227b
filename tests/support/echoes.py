"""A server that answers each frame with bytes of the test's choice: any protocol, or none."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from brokertwin.gateway.edge_fields import Address
from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"
TIMEOUT_S = PATIENCE_S
_SIZE = struct.Struct(">i")


class Echo:
    """Frames that the server has received, of all connections."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.received: list[bytes] = []


@contextmanager
def echoing(response: Callable[[bytes], bytes | None]) -> Iterator[Echo]:
    """A server; `response` makes of a frame the bytes to send back, None: the connection closes."""
    with closing(socket.create_server((HOST, 0))) as server:
        echo = Echo(Address(*server.getsockname()[:2]))
        threading.Thread(target=_accept, args=(server, echo, response), daemon=True).start()
        yield echo
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, echo: Echo, response: Callable[[bytes], bytes | None]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_serve, args=(connection, echo, response), daemon=True).start()


def _serve(
    connection: socket.socket, echo: Echo, response: Callable[[bytes], bytes | None]
) -> None:
    with closing(connection), suppress(OSError, EOFError):
        while True:
            (size,) = _SIZE.unpack(_exactly(connection, _SIZE.size))
            frame = _exactly(connection, size)
            echo.received.append(frame)
            back = response(frame)
            if back is None:
                return
            connection.sendall(back)


def _exactly(connection: socket.socket, size: int) -> bytes:
    result = b""
    while len(result) < size:
        part = connection.recv(size - len(result))
        if not part:
            raise EOFError
        result += part
    return result


def framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
