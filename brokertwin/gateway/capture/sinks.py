"""Targets of documents: a file, standard output, a topic."""

import gzip
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from confluent_kafka import KafkaException

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import ROW_BYTES_MAX
from brokertwin.sinks.files import opened_privately
from brokertwin.sinks.topic_writer import NewRow, TopicWriter, reason_of
from brokertwin.wording import counted

STDOUT = Path("-")
COMPRESSION = 6
TOPIC_PARTITION = 0
"""Documents keep their order only within one partition."""

INCARNATION_BYTES = 6


class SinkError(Exception):
    """Nothing more can be written; the message has the reason."""


class CaptureSink(Protocol):
    """Accepts documents: lines of JSON without their end. Used by one thread."""

    name: str

    def open(self) -> None:
        """Create or empty what `write` writes to. Raises UserError."""

    def write(self, documents: Sequence[bytes]) -> None:
        """Write documents. Raises SinkError."""

    def flush(self) -> None:
        """Make documents visible to readers, after a pause. Raises SinkError."""

    def close(self) -> None:
        """Write the rest. Raises SinkError."""


class FileSink:
    """A file, compressed if its name ends in `.gz`; `-` is standard output."""

    _stream: IO[bytes]

    def __init__(self, path: Path) -> None:
        self.name = "standard output" if path == STDOUT else str(path)
        self._path = path
        self._is_zipped = path.suffix == ".gz"
        self._zip: gzip.GzipFile | None = None

    def open(self) -> None:
        """Create or empty the file. Raises UserError if it cannot be written."""
        is_stdout = self._path == STDOUT
        try:
            # A copy, so that a reader that stops reading does not delay the end of the program.
            target = os.dup(sys.stdout.fileno()) if is_stdout else self._path
            opener = None if is_stdout else opened_privately
            self._stream = open(target, "wb", opener=opener)  # noqa: SIM115
        except OSError as error:
            raise UserError(f"Cannot write to {self._path}: {error.strerror or error}.") from None

    def write(self, documents: Sequence[bytes]) -> None:
        """Write lines so that they can be read during the capture and after a kill."""
        data = b"".join(document + b"\n" for document in documents)
        try:
            if self._is_zipped and self._zip is None:
                self._zip = gzip.GzipFile("", "wb", COMPRESSION, self._stream, mtime=0)
            (self._zip or self._stream).write(data)
            if self._zip is not None:
                self._zip.flush()
            self._stream.flush()
        except OSError as error:
            raise SinkError(error.strerror or str(error)) from None

    def flush(self) -> None:
        """Do nothing: `write` flushes."""

    def close(self) -> None:
        try:
            if self._zip is not None:
                self._zip.close()
            self._stream.flush()
        except OSError as error:
            raise SinkError(error.strerror or str(error)) from None
        finally:
            with suppress(OSError):
                self._stream.close()


class TopicSink:
    """A Kafka topic: rows with a header `id`, all in one partition.

    Args:
        on_lost: called with a reason for each document that Kafka did not accept.
    """

    def __init__(
        self, client: ClientProperties, topic: str, on_lost: Callable[[str], None]
    ) -> None:
        self.name = f"topic {topic}"
        self._on_lost = on_lost
        self._incarnation = secrets.token_hex(INCARNATION_BYTES)
        self._count = 0
        self._writer = TopicWriter(client, topic, lambda: None, on_lost)

    def open(self) -> None:
        """Do nothing: the topic exists, and rows are appended."""

    def write(self, documents: Sequence[bytes]) -> None:
        """Send rows; those that Kafka rejects are reported one by one."""
        for document in documents:
            self._count += 1
            if len(document) > ROW_BYTES_MAX:
                self._on_lost(f"a document of more than {ROW_BYTES_MAX} bytes")
                continue
            row_id = f"{self._incarnation}-{self._count}"
            try:
                self._writer.write(NewRow("", document, TOPIC_PARTITION, row_id))
            except KafkaException as error:
                self._on_lost(reason_of(error.args[0]))

    def flush(self) -> None:
        self._writer.poll()

    def close(self) -> None:
        """Wait until Kafka has accepted everything."""
        left = self._writer.flush()
        if left:
            raise SinkError(f"Kafka did not accept {counted(left, 'document')} in time")
