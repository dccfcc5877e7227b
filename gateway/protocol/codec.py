"""The codec of one message in one version: bytes to a JSON-shaped body and back.

Bodies are as Kafka's request log writes them (`RequestConvertToJson`): camelCase names, the fields
of that version, uuids in base64url, bytes in base64, tagged fields only where they were sent.
Record sets alone stay bytes: they are taken apart or put in by `gateway/records.py`.

What is written may leave fields out; they get their default. Unknown tags are passed over, and so
are bytes behind the message, as Kafka does.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from brokerstream.gateway.protocol.primitives import (
    NUMBERS,
    STRING_BYTES_MAX,
    UUID_BYTES,
    Length,
    MalformedError,
    NotEncodableError,
    Reader,
    WriteLength,
    compact_length,
    long_length,
    string_length,
    uuid_bytes,
    uuid_of,
    write_compact_length,
    write_long_length,
    write_string_length,
    write_uvarint,
)
from brokerstream.gateway.protocol.schema import MESSAGES, Field

Body = dict[str, Any]
Read = Callable[[Reader], Any]
Write = Callable[[bytearray, Any], None]


class Codec(NamedTuple):
    """Reads and writes one type.

    `read` raises MalformedError, `write` NotEncodableError.
    """

    read: Read
    write: Write


class _Part(NamedTuple):
    name: str
    codec: Codec
    default: Any


@lru_cache(maxsize=2048)
def message_codec(name: str, version: int) -> Codec:
    """The codec of a message; the version is one that its schema has.

    Raises:
        KeyError: there is no such message, or not in this version.
    """
    message = MESSAGES[name]
    if version not in message.versions:
        raise KeyError(f"{name} has no version {version}")
    return _struct(message.fields, version, version in message.flexible)


def _struct(fields: tuple[Field, ...], version: int, is_flexible: bool) -> Codec:
    present = [field for field in fields if version in field.versions]
    regular = [_part(field, version, is_flexible) for field in present if field.tag is None]
    tagged = {field.tag: _part(field, version, True) for field in present if field.tag is not None}
    readers = [(part.name, part.codec.read) for part in regular]
    tag_readers = {tag: (part.name, part.codec.read) for tag, part in tagged.items()}

    def read(reader: Reader) -> Body:
        body = {name: read_part(reader) for name, read_part in readers}
        if is_flexible:
            _read_tags(reader, body, tag_readers)
        return body

    def write(out: bytearray, body: Body) -> None:
        for name, codec, default in regular:
            _write_part(out, name, codec, body.get(name, default))
        if is_flexible:
            _write_tags(out, body, tagged)

    return Codec(read, write)


def _part(field: Field, version: int, is_flexible: bool) -> _Part:
    if field.flexible is not None:
        is_flexible = version in field.flexible
    is_nullable = version in field.nullable
    if field.is_array:
        element = _element(field, version, is_flexible, False)
        codec = _array(element, is_flexible, is_nullable)
    else:
        codec = _element(field, version, is_flexible, is_nullable)
    default = field.default
    if default is None and not is_nullable:
        default = [] if field.is_array else ""
    return _Part(field.name, codec, default)


def _element(field: Field, version: int, is_flexible: bool, is_nullable: bool) -> Codec:
    if field.type == "struct":
        codec = _struct(field.fields, version, is_flexible)
        return _nullable_struct(codec) if is_nullable else codec
    if field.type == "float64":
        return _FLOAT
    if field.type in NUMBERS:
        return _number(NUMBERS[field.type])
    if field.type == "bool":
        return _BOOL
    if field.type == "uuid":
        return _UUID
    if field.type == "string":
        return _string(is_flexible, is_nullable)
    return _bytes(is_flexible, is_nullable, is_base64=field.type == "bytes")


def _write_part(out: bytearray, name: str, codec: Codec, value: Any) -> None:
    try:
        codec.write(out, value)
    except NotEncodableError as error:
        raise NotEncodableError(f"{name}: {error}") from None
    except (TypeError, AttributeError, KeyError, struct.error) as error:
        raise NotEncodableError(f"{name}: {value!r:.100} ({error})") from None


def _read_tags(reader: Reader, body: Body, known: dict[int, tuple[str, Read]]) -> None:
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        if size > reader.remaining:
            raise reader.truncated(size)
        end = reader.position + size
        if tag in known:
            name, read = known[tag]
            body[name] = read(reader)
            if reader.position != end:
                raise MalformedError(f"tag {tag} ({name}) has not the size that it tells")
        reader.position = end


def _write_tags(out: bytearray, body: Body, tagged: dict[int, _Part]) -> None:
    if not tagged:
        out.append(0)
        return
    sent = [
        (tag, part)
        for tag, part in tagged.items()
        if part.name in body and body[part.name] != part.default
    ]
    write_uvarint(out, len(sent))
    for tag, part in sent:
        content = bytearray()
        _write_part(content, part.name, part.codec, body[part.name])
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content


def _number(form: struct.Struct) -> Codec:
    unpack, size, pack = form.unpack_from, form.size, form.pack

    def read(reader: Reader) -> Any:
        position = reader.position
        try:
            (value,) = unpack(reader.data, position)
        except struct.error:
            raise reader.truncated(size) from None
        reader.position = position + size
        return value

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return Codec(read, write)


def _double() -> Codec:
    """A double: as a number, or by its name where JSON has no number for it."""
    number = _number(NUMBERS["float64"])

    def read(reader: Reader) -> Any:
        value = number.read(reader)
        return value if math.isfinite(value) else _NAMES.get(value, "NaN")

    def write(out: bytearray, value: Any) -> None:
        number.write(out, _NOT_FINITE.get(value, value))

    return Codec(read, write)


_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_NAMES = {number: name for name, number in _NOT_FINITE.items()}
_FLOAT = _double()


def _read_bool(reader: Reader) -> bool:
    return reader.take(1) != b"\0"


def _write_bool(out: bytearray, value: Any) -> None:
    out.append(1 if value else 0)


_BOOL = Codec(_read_bool, _write_bool)
_UUID = Codec(
    lambda reader: uuid_of(reader.take(UUID_BYTES)),
    lambda out, value: out.extend(uuid_bytes(value)),
)


def _read_length(reader: Reader, length: Length, is_nullable: bool) -> int:
    """A length within the message; -1 only where null is allowed."""
    size = length(reader)
    if size < 0:
        if is_nullable and size == -1:
            return -1
        raise MalformedError(f"length {size} before byte {reader.position}")
    if size > reader.remaining:
        raise reader.truncated(size)
    return size


def _string(is_flexible: bool, is_nullable: bool) -> Codec:
    length = compact_length if is_flexible else string_length
    write_length = write_compact_length if is_flexible else write_string_length

    def read(reader: Reader) -> str | None:
        size = _read_length(reader, length, is_nullable)
        return None if size < 0 else reader.take(size).decode("utf-8", "replace")

    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            _write_null(out, write_length, is_nullable)
            return
        data = value.encode("utf-8")
        if len(data) > STRING_BYTES_MAX:
            raise NotEncodableError(f"a string of {len(data)} bytes; {STRING_BYTES_MAX} at most")
        write_length(out, len(data))
        out += data

    return Codec(read, write)


def _bytes(is_flexible: bool, is_nullable: bool, is_base64: bool) -> Codec:
    length = compact_length if is_flexible else long_length
    write_length = write_compact_length if is_flexible else write_long_length

    def read(reader: Reader) -> str | bytes | None:
        size = _read_length(reader, length, is_nullable)
        if size < 0:
            return None
        data = reader.take(size)
        return base64.b64encode(data).decode("ascii") if is_base64 else data

    def write(out: bytearray, value: str | bytes | None) -> None:
        if value is None:
            _write_null(out, write_length, is_nullable)
            return
        data = _from_base64(value) if isinstance(value, str) else value
        write_length(out, len(data))
        out += data

    return Codec(read, write)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise NotEncodableError(f"{text!r:.50} is not base64") from None


def _write_null(out: bytearray, write_length: WriteLength, is_nullable: bool) -> None:
    if not is_nullable:
        raise NotEncodableError("null, which this version does not have here")
    write_length(out, -1)


def _array(element: Codec, is_flexible: bool, is_nullable: bool) -> Codec:
    length = compact_length if is_flexible else long_length
    write_length = write_compact_length if is_flexible else write_long_length
    read_element, write_element = element

    def read(reader: Reader) -> list[Any] | None:
        count = _read_length(reader, length, is_nullable)
        return None if count < 0 else [read_element(reader) for _ in range(count)]

    def write(out: bytearray, value: list[Any] | None) -> None:
        if value is None:
            _write_null(out, write_length, is_nullable)
            return
        write_length(out, len(value))
        for each in value:
            write_element(out, each)

    return Codec(read, write)


def _nullable_struct(codec: Codec) -> Codec:
    def read(reader: Reader) -> Body | None:
        is_null = reader.number(NUMBERS["int8"]) < 0
        return None if is_null else codec.read(reader)

    def write(out: bytearray, value: Body | None) -> None:
        out.append(0xFF if value is None else 1)
        if value is not None:
            codec.write(out, value)

    return Codec(read, write)
