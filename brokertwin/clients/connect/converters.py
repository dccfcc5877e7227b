"""Record values as Connect's converters write them, and lines of a file.

Source: `StringConverter`, `JsonConverter`, `FileStreamSourceTask.extractLine` in Kafka Connect.

    string                       hello
    json, schemas.enable=true    {"schema":{"type":"string","optional":false},"payload":"hello"}
    json, schemas.enable=false   "hello"
"""

from typing import NamedTuple

import msgspec

from brokertwin.clients.connect.file_stream import FileStream

STRING_SCHEMA = {"type": "string", "optional": False}


class ConversionError(ValueError):
    """The converter cannot read a value; the text has the reason."""


class TextLine(NamedTuple):
    """A line without its terminator, and its size in bytes with it."""

    text: bytes
    size: int


def lines_of(data: bytes, limit: int) -> list[TextLine]:
    r"""Return complete lines, at most `limit`; they end with \n, \r\n or \r.

    A \r at the very end waits, because \n may follow.
    """
    lines: list[TextLine] = []
    at = 0
    while len(lines) < limit:
        ends = [end for end in (data.find(b"\n", at), data.find(b"\r", at)) if end >= 0]
        if not ends:
            break
        end = min(ends)
        size = 1
        if data[end : end + 1] == b"\r":
            if end + 1 == len(data):
                break
            size += data[end + 1 : end + 2] == b"\n"
        lines.append(TextLine(data[at:end], end + size - at))
        at = end + size
    return lines


def encode_value(line: bytes, stream: FileStream) -> bytes:
    """Encode a line; invalid UTF-8 is replaced, as in Java."""
    text = line.decode(errors="replace")
    if stream.converter == "string":
        return text.encode()
    payload = {"schema": STRING_SCHEMA, "payload": text} if stream.has_schemas else text
    return msgspec.json.encode(payload)


def decode_value(value: bytes | None, stream: FileStream) -> str:
    """Decode a value for a sink: text as is, other values as JSON. Raises ConversionError."""
    if value is None:
        return "null"
    if stream.converter == "string":
        return value.decode(errors="replace")
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise ConversionError(f"a value is no JSON: {error}") from None
    if stream.has_schemas:
        if not isinstance(read, dict) or read.keys() != {"schema", "payload"}:
            raise ConversionError(
                'a value has no "schema" and "payload";'
                " value.converter.schemas.enable=false reads it without"
            )
        read = read["payload"]
    return read if isinstance(read, str) else msgspec.json.encode(read).decode()
