"""Files of recorded exchanges, as a history with all that the observer makes of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from brokerstream.state.observed.exchanges import Exchange
from brokerstream.state.observed.replication import ReplicationObserver
from brokerstream.streaming.audit.history import History
from brokerstream.streaming.ingest.batches import Headers
from brokerstream.streaming.ingest.pipeline import Reading
from brokerstream.streaming.ingest.summary import Summary
from brokerstream.streaming.observed.exchanges import exchanges_of
from brokerstream.streaming.replay import recording

THE_BROKER = 1
"""The broker of a capture, which does not say it (`recording.read` takes it for the same)."""


class Read(NamedTuple):
    """What was read: the history, and the lines that are damaged."""

    history: History
    broken: Sequence[recording.Broken]


def read(
    paths: Sequence[Path],
    reading: Reading,
    batches: Headers | None = None,
    observer: ReplicationObserver | None = None,
) -> Read:
    """Read files twice: for clients' exchanges, and for all that brokers said to each other.

    Those are observed from where the last of the brokers' logs begins: before, a part is missing.

    Args:
        paths: captures, Kafka's request logs and Kroxylicious' protocol logs, also mixed.
        reading: how logs are read.
        batches: batch headers for Produce requests that have none.
        observer: one that has the brokers' settings.

    Raises:
        UserError: a file cannot be read, or none of the lines is an exchange.
    """
    found = recording.read(paths, reading, batches)
    observer = observer or ReplicationObserver()
    exchanges = list(exchanges_of(paths, reading, Summary()))
    begin, end = common(exchanges)
    observer.observe(
        each if each.broker >= 0 else each._replace(broker=THE_BROKER)
        for each in exchanges
        if each.broker < 0 or each.taken >= begin
    )
    return Read(History(found.exchanges, observer, end), found.broken)


def common(exchanges: Sequence[Exchange]) -> tuple[float, float]:
    """From when to when all brokers have logs, in ms since 1970; captures are of one broker."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for each in exchanges:
        if each.broker >= 0:
            first.setdefault(each.broker, each.taken)
            last[each.broker] = max(last.get(each.broker, 0), each.made)
    return max(first.values(), default=0), min(last.values(), default=math.inf)
