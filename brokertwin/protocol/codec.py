"""Codec of one message in one version: bytes to a JSON-shaped body and back.

Bodies have the form of Kafka's request log (`RequestConvertToJson`): camelCase names, only fields
of the version, uuids in base64url, bytes in base64, tagged fields only if sent. Record sets stay
bytes, for `brokertwin/protocol/record_batches.py`.

When writing, missing fields get their default. As in Kafka, unknown tags and bytes after the
message are ignored. The functions are generated on first use (`reading.py`, `writing.py`).
"""

from functools import lru_cache
from typing import Any

from brokertwin.protocol.reading import Read, reader_of
from brokertwin.protocol.schemas import MESSAGES, MessageSchema
from brokertwin.protocol.writing import Write, writer_of

Body = dict[str, Any]


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
