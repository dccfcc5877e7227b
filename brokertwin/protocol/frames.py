"""Frames: header and body of a request or a response, after a size field.

A request header has version 2 if the body is flexible, else 1 (KIP-482); a response header 1 or 0.
ApiVersions responses always have header version 0, so that a client of any version can read them
(KIP-511).
"""

import struct
from collections import deque
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.protocol.codec import (
    Body,
    Kind,
    Read,
    Write,
    message_reader,
    message_writer,
    request_type,
)
from brokertwin.protocol.kafka_apis import API_VERSIONS, KAFKA_APIS
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.schemas import API_NAMES, MESSAGES

T = TypeVar("T", bound=msgspec.Struct)

CORRELATION_BYTES = 4
SIZE_BYTES = 4
"""Size of the field before each frame."""

NAME_FIELD = "request_api_key_name"
"""Field of a header's struct with the name of the API in the request log."""

MINIMAL_HEADER = struct.Struct(">hhi")
MINIMAL_HEADER_BYTES = MINIMAL_HEADER.size
"""API key, version and correlation id."""


class RequestFrame(NamedTuple):
    """A request: `header` as in the request log, and the body."""

    header: dict[str, Any]
    body: Body

    @property
    def api_key(self) -> int:
        key: int = self.header["requestApiKey"]
        return key

    @property
    def version(self) -> int:
        version: int = self.header["requestApiVersion"]
        return version


class UnsupportedError(MalformedError):
    """A request with an unknown API or version and a legible header.

    Attributes:
        api_key, version, correlation_id: from the header.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        api = KAFKA_APIS.get(api_key)
        name = api.name if api is not None else f"API key {api_key}"
        why = ": Kafka 4 removed it" if api is not None and version < api.first else ""
        super().__init__(f"{name} version {version} is not supported{why}")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


def api_key_of(frame: bytes) -> int:
    """Return the API key at the beginning of a frame; -1 if it is too short."""
    return int.from_bytes(frame[:2], "big", signed=True) if len(frame) > 1 else -1


def client_id_of(frame: bytes) -> str | None:
    """Return the client id in a request header of version 1; None if it is not legible."""
    try:
        client_id: str | None = message_reader("RequestHeader", 1)(frame, 0)[0]["clientId"]
    except MalformedError:
        return None
    return client_id


class _Form(NamedTuple):
    """Names and header versions of an API's messages in one version."""

    name: str
    request_header: int
    request: str
    response_header: int
    response: str
    version: int


@lru_cache(maxsize=1024)
def _form(api_key: int, version: int) -> _Form:
    """Look up an API's messages. Raises KeyError for an unknown API or version."""
    name = API_NAMES[api_key]
    request, response = f"{name}Request", f"{name}Response"
    if version not in MESSAGES[request].versions:
        raise KeyError(f"{name} has no version {version}")
    return _Form(
        KAFKA_APIS[api_key].name,
        _request_header(name, version),
        request,
        _response_header(name, api_key, version),
        response,
        version,
    )


def decode_request(frame: bytes) -> RequestFrame:
    """Decode the request in a frame.

    Raises:
        UnsupportedError: unknown API or version.
        MalformedError: the bytes are no request.
    """
    if len(frame) < MINIMAL_HEADER_BYTES:
        raise MalformedError(f"a frame of {len(frame)} bytes")
    api_key, version, correlation_id = MINIMAL_HEADER.unpack_from(frame)
    try:
        name, read_header, read_body = _request_readers(api_key, version)
    except KeyError:
        raise UnsupportedError(api_key, version, correlation_id) from None
    header, at = read_header(frame, 0)
    header["requestApiKeyName"] = name
    return RequestFrame(header, read_body(frame, at)[0])


@lru_cache(maxsize=1024)
def _request_readers(api_key: int, version: int) -> tuple[str, Read, Read]:
    """Return an API's name, and the readers of request header and body. Raises KeyError."""
    form = _form(api_key, version)
    header = message_reader("RequestHeader", form.request_header)
    return form.name, header, message_reader(form.request, version)


def read_request(frame: bytes, header_type: type[T]) -> tuple[T, Any]:
    """Decode the header and the body of a request to structs.

    The model must have a struct of the body. Raises errors as `decode_request`.
    """
    if len(frame) < MINIMAL_HEADER_BYTES:
        raise MalformedError(f"a frame of {len(frame)} bytes")
    api_key, version, correlation_id = MINIMAL_HEADER.unpack_from(frame)
    try:
        name, read_header, read_body = _struct_readers(api_key, version, header_type)
    except KeyError:
        raise UnsupportedError(api_key, version, correlation_id) from None
    header, at = read_header(frame, 0)
    setattr(header, NAME_FIELD, name)
    return header, read_body(frame, at)[0]


@lru_cache(maxsize=1024)
def _struct_readers(
    api_key: int, version: int, header_type: type[msgspec.Struct]
) -> tuple[str, Read, Read]:
    form = _form(api_key, version)
    header = message_reader("RequestHeader", form.request_header, header_type)
    return form.name, header, message_reader(form.request, version, request_type(api_key))


def encode_request(request: RequestFrame) -> bytes:
    """Encode a request's frame. Raises NotEncodableError, KeyError as `_form`."""
    form = _form(request.api_key, request.version)
    out = bytearray()
    message_writer("RequestHeader", form.request_header)(out, request.header)
    message_writer(form.request, form.version)(out, request.body)
    return bytes(out)


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """Decode correlation id and body of a response. Raises MalformedError."""
    correlation_id, body, _ = read_response(api_key, version, frame)
    return correlation_id, body


def read_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body, int]:
    """Decode a response, and return where its body ends, too. Raises MalformedError."""
    form = _form(api_key, version)
    header, at = message_reader("ResponseHeader", form.response_header)(frame, 0)
    return header["correlationId"], *message_reader(form.response, version)(frame, at)


def encode_response(
    api_key: int, version: int, correlation_id: int, body: Body | msgspec.Struct
) -> bytearray:
    """Encode a response's frame. Raises NotEncodableError."""
    return encode_sized_response(api_key, version, correlation_id, body)[SIZE_BYTES:]


def encode_sized_response(
    api_key: int, version: int, correlation_id: int, body: Body | msgspec.Struct
) -> bytearray:
    """Encode a response's frame after its size, without copying a large one.

    The body is a struct or a document. Raises NotEncodableError.
    """
    kind = None if isinstance(body, dict) else type(body)
    no_tags, write_body = _response_writer(api_key, version, kind)
    out = bytearray(SIZE_BYTES)
    out += correlation_id.to_bytes(CORRELATION_BYTES, "big", signed=True)
    out += no_tags
    write_body(out, body)
    out[:SIZE_BYTES] = (len(out) - SIZE_BYTES).to_bytes(SIZE_BYTES, "big")
    return out


@lru_cache(maxsize=1024)
def _response_writer(api_key: int, version: int, kind: Kind) -> tuple[bytes, Write]:
    """Return what follows the correlation id in a response header, and the body's writer."""
    form = _form(api_key, version)
    writer = message_writer(form.response, version, kind)
    return b"\0" if form.response_header else b"", writer


def _request_header(name: str, version: int) -> int:
    return 2 if version in MESSAGES[f"{name}Request"].flexible else 1


def _response_header(name: str, api_key: int, version: int) -> int:
    if api_key == API_VERSIONS.key:
        return 0
    return 1 if version in MESSAGES[f"{name}Response"].flexible else 0


class FrameBuffer:
    """Received bytes.

    Attributes:
        frames: complete frames, in order; the caller removes them.
        wrong_size: an invalid size, after which all bytes are dropped.
        received: bytes of frames that are not complete, or not taken yet.
    """

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.wrong_size: int | None = None
        self.received = bytearray()

    @property
    def next_frame(self) -> tuple[int, int]:
        """API key and size of a frame that has begun; -1 and 0 if they are not there yet."""
        received = self.received
        if len(received) < SIZE_BYTES + 2:
            return -1, 0
        size = int.from_bytes(received[:SIZE_BYTES], "big", signed=True)
        key = received[SIZE_BYTES : SIZE_BYTES + 2]
        return int.from_bytes(key, "big", signed=True), size

    def receive(self, data: bytes, count_max: int, bytes_max: int) -> None:
        """Add bytes, and take frames of at most `bytes_max` out until there are `count_max`."""
        frames, received = self.frames, self.received
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
