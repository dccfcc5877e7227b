"""Files of recorded exchanges as a history."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from brokertwin.protocol.batch_headers import Headers
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.formats.pipeline import FileReading, Source, read_files
from brokertwin.recordings.history.exchange import KnownFacts
from brokertwin.recordings.history.holes import Hole
from brokertwin.recordings.history.undecoded import Undecoded
from brokertwin.recordings.observed.watching import watched
from brokertwin.recordings.replay import recording


class ReadHistory(NamedTuple):
    """The history, the lines that are damaged, and those that are missing."""

    history: History
    broken: Sequence[recording.Broken]
    holes: Sequence[Hole]


def read(
    paths: Sequence[Path],
    reading: FileReading,
    batches: Headers | None = None,
    facts: KnownFacts | None = None,
) -> ReadHistory:
    """Read captures, Kafka's request logs and Kroxylicious' protocol logs, also mixed.

    Args:
        paths: the files.
        reading: how logs are read.
        batches: batch headers for Produce requests that have none.
        facts: settings of the brokers.

    Raises:
        UserError: a file cannot be read, or none of the lines is an exchange.
    """
    return read_from(lambda summary: read_files(paths, reading, summary), batches, facts)


def read_from(
    source: Source, batches: Headers | None = None, facts: KnownFacts | None = None
) -> ReadHistory:
    """The same of any source. Raises UserError as `recording.read_from`."""
    whole = recording.read_from(source, batches, with_own=True)
    found = watched(whole, facts, is_whole=True)
    undecoded = Undecoded(found.recording.undecoded)
    history = History(found.recording.exchanges, found.replication, undecoded)
    return ReadHistory(history, found.recording.broken, found.holes)
