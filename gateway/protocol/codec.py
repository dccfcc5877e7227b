"""Codec of one message in one version: bytes to a JSON-shaped body and back.

Bodies have the form of Kafka's request log (`RequestConvertToJson`): camelCase names, only fields
of the version, uuids in base64url, bytes in base64, tagged fields only if sent. Record sets stay
bytes, for `gateway/records/records.py`.

When writing, missing fields get their default. As in Kafka, unknown tags and bytes after the
message are ignored. The functions are generated on first use (`reading.py`, `writing.py`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from brokertwin.gateway.protocol.primitives import FrameReader
from brokertwin.gateway.protocol.reading import Read, reader_of
from brokertwin.gateway.protocol.schema import MESSAGES, MessageSchema
from brokertwin.gateway.protocol.writing import Write, writer_of

Body = dict[str, Any]


class Codec(NamedTuple):
    """Reads and writes one type.

    `read` raises MalformedError, `write` NotEncodableError.
    """

    read: Callable[[FrameReader], Body]
    write: Write


def message_codec(name: str, version: int) -> Codec:
    """Return the codec of a message.

    Raises:
        KeyError: unknown message or version.
    """
    function = message_reader(name, version)

    def read(reader: FrameReader) -> Body:
        body: Body
        body, reader.position = function(reader.data, reader.position)
        return body

    return Codec(read, message_writer(name, version))


@lru_cache(maxsize=2048)
def message_reader(name: str, version: int) -> Read:
    """Return a function that reads a message, or raises MalformedError. Raises KeyError."""
    message = _message(name, version)
    title = f"reading {name} version {version}"
    return reader_of(title, message.fields, version, version in message.flexible)


@lru_cache(maxsize=2048)
def message_writer(name: str, version: int) -> Write:
    """Return a function that appends a message, or raises NotEncodableError. Raises KeyError."""
    message = _message(name, version)
    title = f"writing {name} version {version}"
    return writer_of(title, message.fields, version, version in message.flexible)


def _message(name: str, version: int) -> MessageSchema:
    message = MESSAGES[name]
    if version not in message.versions:
        raise KeyError(f"{name} has no version {version}")
    return message
