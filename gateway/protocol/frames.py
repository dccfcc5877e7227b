"""Frames: header and body of a request or a response, without the four bytes of their length.

The header of a request is version 2 where the body is flexible, else 1 (KIP-482); that of a
response 1 or 0. An ApiVersions response always has header 0, so that a client of any version can
read it (KIP-511).
"""

from typing import Any, NamedTuple

from brokerstream.gateway.protocol.codec import Body, message_codec
from brokerstream.gateway.protocol.primitives import NUMBERS, MalformedError, Reader
from brokerstream.gateway.protocol.schema import API_NAMES, MESSAGES
from brokerstream.state.core.kafka_apis import API_VERSIONS, KAFKA_APIS

MINIMAL_HEADER_BYTES = 8
"""API key, version and correlation id."""


class Request(NamedTuple):
    """A request: `header` as the request log has it, and the body."""

    header: dict[str, Any]
    body: Body

    @property
    def api_key(self) -> int:
        """The API's key."""
        return int(self.header["requestApiKey"])

    @property
    def version(self) -> int:
        """The version of the API."""
        return int(self.header["requestApiVersion"])


class UnsupportedError(MalformedError):
    """A request whose API or version is unknown; the header was legible.

    Attributes:
        api_key, version, correlation_id: from the header.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        name = KAFKA_APIS[api_key].name if api_key in KAFKA_APIS else f"API key {api_key}"
        super().__init__(f"{name} version {version} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


def api_key_of(frame: bytes) -> int:
    """The API key that a frame begins with; -1 where it is too short for one."""
    return int.from_bytes(frame[:2], "big", signed=True) if len(frame) > 1 else -1


def decode_request(frame: bytes) -> Request:
    """The request in a frame.

    Raises:
        UnsupportedError: no such API or version.
        MalformedError: the bytes are no request.
    """
    reader = Reader(frame)
    if len(frame) < MINIMAL_HEADER_BYTES:
        raise reader.truncated(MINIMAL_HEADER_BYTES)
    api_key = reader.number(NUMBERS["int16"])
    version = reader.number(NUMBERS["int16"])
    name = API_NAMES.get(api_key)
    if name is None or version not in MESSAGES[f"{name}Request"].versions:
        raise UnsupportedError(api_key, version, reader.number(NUMBERS["int32"]))
    reader.position = 0
    header = message_codec("RequestHeader", _request_header(name, version)).read(reader)
    header["requestApiKeyName"] = KAFKA_APIS[api_key].name
    return Request(header, message_codec(f"{name}Request", version).read(reader))


def encode_request(request: Request) -> bytes:
    """The frame of a request. Raises NotEncodableError, KeyError for an unknown API or version."""
    name = API_NAMES[request.api_key]
    out = bytearray()
    header_version = _request_header(name, request.version)
    message_codec("RequestHeader", header_version).write(out, request.header)
    message_codec(f"{name}Request", request.version).write(out, request.body)
    return bytes(out)


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """Correlation id and body of a response. Raises MalformedError."""
    name = API_NAMES[api_key]
    reader = Reader(frame)
    header_codec = message_codec("ResponseHeader", _response_header(name, api_key, version))
    header = header_codec.read(reader)
    return header["correlationId"], message_codec(f"{name}Response", version).read(reader)


def encode_response(api_key: int, version: int, correlation_id: int, body: Body) -> bytearray:
    """The frame of a response. Raises NotEncodableError."""
    name = API_NAMES[api_key]
    out = bytearray()
    header_codec = message_codec("ResponseHeader", _response_header(name, api_key, version))
    header_codec.write(out, {"correlationId": correlation_id})
    message_codec(f"{name}Response", version).write(out, body)
    return out


def _request_header(name: str, version: int) -> int:
    return 2 if version in MESSAGES[f"{name}Request"].flexible else 1


def _response_header(name: str, api_key: int, version: int) -> int:
    if api_key == API_VERSIONS:
        return 0
    return 1 if version in MESSAGES[f"{name}Response"].flexible else 0
