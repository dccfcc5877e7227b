"""Where documents go: a file, standard output, a topic."""

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
from brokertwin.kafka_io.topic_writer import NewRow, TopicWriter, reason_of
from brokertwin.kafka_io.topics import ROW_BYTES_MAX
from brokertwin.wording import counted

STDOUT = Path("-")
COMPRESSION = 6
TOPIC_PARTITION = 0
"""Documents keep their order only within one partition."""

INCARNATION_BYTES = 6


class SinkError(Exception):
    """Nothing more can be written; the text says why."""


class Sink(Protocol):
    """Takes documents, each one line of JSON without its end; used by one thread."""

    name: str

    def write(self, documents: Sequence[bytes]) -> None:
        """Write some. Raises SinkError."""

    def flush(self) -> None:
        """Nothing came for a while: let others see what was written. Raises SinkError."""

    def close(self) -> None:
        """Write what is left. Raises SinkError."""


class FileSink:
    """A new file, compressed where its name ends in `.gz`; `-` is standard output.

    Raises:
        UserError: there is something in the file already, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.name = "standard output" if path == STDOUT else str(path)
        try:
            if path != STDOUT and path.exists() and path.stat().st_size:
                raise UserError(
                    f"--out {path} already exists and is not empty.",
                    "Pass a new file.",
                )
            # a copy, so that a reader who stops reading does not hold up the end of the program
            target = os.dup(sys.stdout.fileno()) if path == STDOUT else path
            self._stream: IO[bytes] = open(target, "wb")  # noqa: SIM115, PTH123
        except OSError as error:
            raise UserError(f"Cannot write to {path}: {error.strerror or error}.") from None
        self._is_zipped = path.suffix == ".gz"
        self._zip: gzip.GzipFile | None = None

    def write(self, documents: Sequence[bytes]) -> None:
        """Write lines, so that they can be read while the capture runs and after a kill."""
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
        """Do nothing: lines are flushed when they are written."""

    def close(self) -> None:
        """Finish the file; what cannot be written any more is an error, and it is closed."""
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
    """A Kafka topic: rows with a header `id` each, all in one partition.

    Args:
        client: how to reach Kafka.
        topic: its name.
        on_lost: called, with the reason, for each document that Kafka has not taken.
    """

    def __init__(
        self, client: ClientProperties, topic: str, on_lost: Callable[[str], None]
    ) -> None:
        self.name = f"topic {topic}"
        self._on_lost = on_lost
        self._incarnation = secrets.token_hex(INCARNATION_BYTES)
        self._count = 0
        self._writer = TopicWriter(client, topic, lambda: None, on_lost)

    def write(self, documents: Sequence[bytes]) -> None:
        """Hand rows to the producer; those that Kafka does not take are told one by one."""
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
        """Hear what became of the rows."""
        self._writer.poll()

    def close(self) -> None:
        """Wait until Kafka has everything."""
        left = self._writer.flush()
        if left:
            raise SinkError(f"Kafka did not accept {counted(left, 'document')} in time")
