"""Audit of records: outcomes that clients report, compared with the logs.

The simulator and `testing/auditor` use it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from brokertwin.clients.partitions import TopicPartition

Log = Sequence[tuple[int, str]]
"""Offsets and names of the records of a partition."""


class SendOutcome(StrEnum):
    """Outcome of a record or transaction for its producer."""

    OPEN = "open"
    ACKED = "acknowledged"
    GIVEN_UP = "given up"
    IN_DOUBT = "in doubt"


class SentRecord(msgspec.Struct):
    """A sent record; `transaction` is "" without one.

    `written_at` is its timestamp, in ms since 1970.
    """

    producer: str
    transaction: str
    partition: TopicPartition
    outcome: SendOutcome = SendOutcome.OPEN
    offset: int = -1
    written_at: int = 0


class PossibleLosses(Protocol):
    def is_recreated(self, topic: str) -> bool:
        """True if the topic is deleted and created again, so offsets repeat."""

    def may_be_gone(self, at: TopicPartition, offset: int, written_at: int) -> bool:
        """True if a record may be missing; offset -1 is unknown."""

    def hold(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Check at the end that deleted records are gone."""


class NoLosses:
    """Losses of a cluster that keeps everything."""

    def is_recreated(self, topic: str) -> bool:
        return False

    def may_be_gone(self, at: TopicPartition, offset: int, written_at: int) -> bool:
        return False

    def hold(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Require nothing."""


class RecordAudit:
    """Records by name, transactions by name, and reads.

    Attributes:
        sent: every record, in the order of sending.
        running: transactions that have begun and whose commit is not yet requested.
        read_by: records read by each group.
    """

    def __init__(
        self, violate: Callable[[str], None], losses: PossibleLosses | None = None
    ) -> None:
        self.sent: dict[str, SentRecord] = {}
        self.transactions: dict[str, SendOutcome] = {}
        self.running: set[str] = set()
        self.read_by: dict[str, set[str]] = defaultdict(set)
        self._violate = violate
        self._losses = losses or NoLosses()
        self._at: dict[tuple[TopicPartition, int], str] = {}
        self._read_committed: set[str] = set()

    def acked(self, name: str, offset: int) -> None:
        """Note an acknowledged record; -1 if its offset is unknown."""
        self.sent[name].outcome = SendOutcome.ACKED
        self.sent[name].offset = offset

    def given_up(self, name: str, may_be_written: bool) -> None:
        outcome = SendOutcome.IN_DOUBT if may_be_written else SendOutcome.GIVEN_UP
        self.sent[name].outcome = outcome

    def read(
        self, group: str, at: TopicPartition, offset: int, name: str, is_committed: bool
    ) -> None:
        """Check a record read by a member; `is_committed`: with read_committed."""
        self.read_by[group].add(name)
        if self._losses.is_recreated(at.topic):
            return
        before = self._at.setdefault((at, offset), name)
        if before != name:
            self._violate(f"{at.topic}-{at.partition} has {before} at {offset}, and {name}, too")
        if is_committed:
            self._read_committed.add(name)
            if name in self.sent and self.sent[name].transaction in self.running:
                self._violate(f"{name} was read by read_committed; its transaction is open")

    def acked_offsets(self, topic: str) -> dict[TopicPartition, list[int]]:
        """Return the offsets of a topic's acknowledged records, by partition."""
        offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        for sent in self.sent.values():
            if sent.partition.topic == topic and sent.offset >= 0:
                offsets[sent.partition].append(sent.offset)
        return offsets

    def may_be_gone(self, name: str) -> bool:
        sent = self.sent[name]
        return self._losses.may_be_gone(sent.partition, sent.offset, sent.written_at)

    # At the end

    def read_further(self, logs: Mapping[TopicPartition, Log]) -> list[str]:
        """Return descriptions of reads beyond the ends of these logs.

        A record that its producer has given up may still be in flight and be written later.
        """
        ends = {at: log[-1][0] if log else -1 for at, log in logs.items()}
        return [
            f"{at.topic}-{at.partition} ends before {name}, which was read at {offset}"
            for (at, offset), name in self._at.items()
            if offset > ends.get(at, offset)
            and name in self.sent
            and not self._losses.may_be_gone(at, offset, self.sent[name].written_at)
        ]

    def hold(
        self, logs: Mapping[TopicPartition, Log], committed: Mapping[TopicPartition, Log]
    ) -> None:
        """Compare reads and responses with the final logs, read with both isolation levels."""
        places: dict[str, list[tuple[TopicPartition, int]]] = defaultdict(list)
        for at, log in logs.items():
            for offset, name in log:
                places[name].append((at, offset))
        for name, found in places.items():
            if len(found) > 1:
                self._violate(f"{name} is in the logs {len(found)} times: {_places(found)}")
        for name, sent in self.sent.items():
            self._hold_record(name, sent, places.get(name, []))
        for (at, offset), name in self._at.items():
            read = self.sent.get(name)  # None if its producer crashed before it noted the record
            if (
                read is not None
                and (at, offset) not in places[name]
                and not self._losses.may_be_gone(at, offset, read.written_at)
            ):
                self._violate(f"{name} was read at {_places([(at, offset)])}, where it is not")
        self._losses.hold(logs)
        self._hold_order(logs)
        self._hold_transactions(places, {name for log in committed.values() for _, name in log})

    def _hold_record(
        self, name: str, sent: SentRecord, places: list[tuple[TopicPartition, int]]
    ) -> None:
        if not places and self.may_be_gone(name):
            return
        if sent.outcome is SendOutcome.ACKED and not places:
            at = f" at offset {sent.offset}" if sent.offset >= 0 else ""
            self._violate(f"{name} was acknowledged{at}, but is not in the log")
        elif sent.outcome is SendOutcome.GIVEN_UP and places:
            self._violate(f"{name} was given up for certain, but is in the log: {_places(places)}")
        elif sent.offset >= 0 and places != [(sent.partition, sent.offset)]:
            self._violate(
                f"{name} was acknowledged at {_places([(sent.partition, sent.offset)])}, but is at"
                f" {_places(places)}"
            )

    def _hold_order(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Check that acknowledged records of a producer are in order."""
        order = {name: number for number, name in enumerate(self.sent)}
        for log in logs.values():
            last: dict[str, str] = {}
            for _, name in log:
                sent = self.sent.get(name)
                if sent is None or sent.outcome is not SendOutcome.ACKED:
                    continue
                before = last.get(sent.producer)
                if before is not None and order[name] < order[before]:
                    self._violate(f"{name} of {sent.producer} is after {before}, sent later")
                last[sent.producer] = name

    def _hold_transactions(self, written: Mapping[str, object], committed: set[str]) -> None:
        of: dict[str, list[str]] = defaultdict(list)
        for name, sent in self.sent.items():
            if sent.transaction and written.get(name):
                of[sent.transaction].append(name)
        for transaction, names in of.items():
            seen = [name for name in names if name in committed]
            outcome = self.transactions.get(transaction, SendOutcome.IN_DOUBT)
            if outcome is SendOutcome.ACKED and len(seen) < len(names):
                self._violate(
                    f"transaction {transaction} was committed, but of {names} only {seen} are"
                    " visible"
                )
            elif outcome is SendOutcome.GIVEN_UP and seen:
                self._violate(f"transaction {transaction} was aborted, but {seen} are visible")
            elif seen and len(seen) < len(names):
                self._violate(f"of transaction {transaction} with {names} only {seen} are visible")
            for name in names:
                if name in self._read_committed and name not in seen:
                    self._violate(f"{name} was read by read_committed, but was aborted")


def _places(places: Sequence[tuple[TopicPartition, int]]) -> str:
    """Return places as text, like `offset 5 of orders-0`."""
    return " and ".join(f"offset {offset} of {at.topic}-{at.partition}" for at, offset in places)
