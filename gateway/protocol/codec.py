"""The codec of one message in one version: bytes to a JSON-shaped body and back.

Bodies are as Kafka's request log writes them (`RequestConvertToJson`): camelCase names, the fields
of that version, uuids in base64url, bytes in base64, tagged fields only where they were sent.
Record sets alone stay bytes: they are taken apart or put in by `gateway/records/records.py`.

What is written may leave fields out; they get their default. Unknown tags are passed over, and so
are bytes behind the message, as Kafka does. The functions are written when they are first asked for
(`reading.py`, `writing.py`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from brokertwin.gateway.protocol.primitives import Reader
from brokertwin.gateway.protocol.reading import Read, reader_of
from brokertwin.gateway.protocol.schema import MESSAGES, Message
from brokertwin.gateway.protocol.writing import Write, writer_of

Body = dict[str, Any]


class Codec(NamedTuple):
    """Reads and writes one type.

    `read` raises MalformedError, `write` NotEncodableError.
    """

    read: Callable[[Reader], Body]
    write: Write


def message_codec(name: str, version: int) -> Codec:
    """The codec of a message; the version is one that its schema has.

    Raises:
        KeyError: there is no such message, or not in this version.
    """
    function = message_reader(name, version)

    def read(reader: Reader) -> Body:
        body: Body
        body, reader.position = function(reader.data, reader.position)
        return body

    return Codec(read, message_writer(name, version))


@lru_cache(maxsize=2048)
def message_reader(name: str, version: int) -> Read:
    """Reads a message that begins somewhere in bytes; MalformedError. Raises KeyError as above."""
    message = _message(name, version)
    title = f"reading {name} version {version}"
    return reader_of(title, message.fields, version, version in message.flexible)


@lru_cache(maxsize=2048)
def message_writer(name: str, version: int) -> Write:
    """Appends a message to bytes; raises NotEncodableError. KeyError as above."""
    message = _message(name, version)
    title = f"writing {name} version {version}"
    return writer_of(title, message.fields, version, version in message.flexible)


def _message(name: str, version: int) -> Message:
    message = MESSAGES[name]
    if version not in message.versions:
        raise KeyError(f"{name} has no version {version}")
    return message
