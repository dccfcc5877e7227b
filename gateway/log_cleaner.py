"""The log cleaner of the local engine: it looks into the batches, which the machine cannot.

Which logs are due, and what is left of each batch, `state/logs/cleaner.py` says. A pass reads what
a log has below its end twice, as Kafka's does: once for the keys, once for what is left. Its
outcome goes to the machine as an event with the headers that are left, so a journal decided again
needs no bytes. A log whose bytes cannot be read, or part of whose index is sealed, stays as it is.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import structlog

from brokerstream.gateway import cleaned_batches, records
from brokerstream.gateway.batch_store import BatchStore
from brokerstream.gateway.cleaned_batches import RawRecord
from brokerstream.gateway.compression import DecompressionError
from brokerstream.gateway.records import InvalidRecordsError
from brokerstream.state.cluster import broker_configs, image, retention_limits
from brokerstream.state.core.records import Batch, LogCleaned
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.core.tables import Tables
from brokerstream.state.logs import cleaner, control_batches
from brokerstream.state.logs.cleaner import BatchSeen, Outcome, Pass, Range, Rules, Transactions
from brokerstream.state.logs.log import (
    Log,
    StoredBatch,
    aborted_index,
    batches_from,
    log_key,
)
from brokerstream.state.replication import network

_log = structlog.get_logger("brokerstream.gateway")


class Due(NamedTuple):
    """A pass that is due: over which log, on which broker, how far, by which rules."""

    broker: int
    log: Log
    range_: Range
    rules: Rules


class _NotReadableError(Exception):
    """The bytes of a batch are lost, or do not decode."""


def due(tables: Tables, brokers: list[int], given: BrokerSettings, now: int) -> Iterator[Due]:
    """The passes that are due at `now` (ms since 1970); `given` are the brokers' settings."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.metadata, broker, broker, given)
        if not settings.log_cleaner_enable or network.is_stopped(tables.waiting, broker):
            continue
        for topic in image.all_topics(tables.metadata, broker):
            rules = retention_limits.cleaning_of(topic, settings)
            for partition in range(len(topic.partitions)) if rules is not None else ():
                log = tables.logs.get(log_key(broker, topic.topic_id, partition), Log)
                if log is None or log.segments or rules is None:
                    continue
                range_ = cleaner.cleanable(tables.logs, broker, log, rules, now)
                if range_ is not None:
                    yield Due(broker, log, range_, rules)


class OnePass:
    """A pass over one log.

    Args:
        tables: the state, to be read only.
        store: where the bytes are, and where what is left of changed batches goes.
        due: which log, and how far.
        now: the time of the pass, in ms since 1970.

    Attributes:
        written: the locators of what was written; no log has it yet.
    """

    def __init__(self, tables: Tables, store: BatchStore, due: Due, now: int) -> None:
        self._tables = tables
        self._store = store
        self._due = due
        self._now = now
        self.written: list[str] = []

    def run(self) -> LogCleaned | None:
        """What is left; None where the log is not readable. Raises OSError."""
        log, range_ = self._due.log, self._due.range_
        try:
            left, aborted = self._left()
        except (_NotReadableError, DecompressionError, InvalidRecordsError) as error:
            _log.warning(
                "a log cannot be cleaned",
                topic=log.topic,
                partition=log.partition,
                error=str(error) or type(error).__name__,
            )
            return None
        return LogCleaned(log.topic_id, log.partition, range_.end, left, aborted)

    def _left(self) -> tuple[list[Batch], list[int]]:
        broker, log, range_, rules = self._due
        index = aborted_index(self._tables.logs, broker, log)
        dirty = (seen for seen, _, _ in self._seen(range_.first_dirty))
        keys = cleaner.last_offsets(
            dirty, range_.first_dirty, index.between(range_.first_dirty, range_.end)
        )
        headers = batches_from(self._tables.logs, broker, log, log.log_start_offset)
        ids = {header.producer_id for header in headers}
        last = cleaner.last_records(self._tables.producers, broker, log, ids)
        transactions = Transactions(index.between(0, range_.end))
        this = Pass(range_, keys, last, transactions, self._now, rules.delete_retention_ms)
        left = []
        for seen, data, found in self._seen(log.log_start_offset):
            outcome = this.outcome(seen)
            if outcome.places is None:
                continue
            if outcome.is_changed:
                left.append(self._changed(seen, data, found, outcome))
            else:
                left.append(seen.header.header())
        return left, [each.last_offset for each in transactions.kept]

    def _changed(
        self, seen: BatchSeen, data: bytes, found: list[RawRecord], outcome: Outcome
    ) -> Batch:
        changed = cleaned_batches.left_of(data, seen.header, found, outcome)
        first = found[outcome.places[0]].timestamp if outcome.places else records.NO_TIMESTAMP
        header = cleaned_batches.header_of(changed, seen.header, first)
        locator = self._store.put(changed)
        self.written.append(locator)
        return msgspec.convert(header | {"locator": locator}, Batch)

    def _seen(self, offset: int) -> Iterator[tuple[BatchSeen, bytes, list[RawRecord]]]:
        """The batches from `offset` up to the end of the pass, with bytes and records."""
        broker, log, range_, _ = self._due
        for header in batches_from(self._tables.logs, broker, log, offset):
            if header.base_offset >= range_.end:
                return
            data = self._bytes(header)
            seen, found = cleaned_batches.seen(data, header)
            yield seen, data, found

    def _bytes(self, header: StoredBatch) -> bytes:
        """A batch's bytes as a Fetch gives them."""
        if header.locator is None:
            if header.end_marker is None:
                raise _NotReadableError("a batch has no bytes")
            return control_batches.to_bytes(header.header())
        data = self._store.get(header.locator)
        if data is None:
            raise _NotReadableError("the bytes of a batch are lost")
        told = {
            "baseOffset": header.base_offset,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "maxTimestamp": header.max_timestamp,
        }
        return bytes(records.as_stored(data, told))
