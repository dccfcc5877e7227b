"""What clients saw of share groups: who has got which record, and what was said of it.

    always               a record that was accepted or rejected, and is known to be, does not come
                         in an answer to a fetch that was sent later; nor is it delivered more
                         often than `group.share.delivery.count.limit`
                         what is accepted an application had
    while no broker was  no two members have a record: one gets it, with a higher delivery count,
    away                 when the other has said what becomes of it, or its session, its
                         connection or its lock has ended; who has it not says nothing of it
    in the end           each acknowledged record is accepted or rejected, or was delivered as
                         often as it may be

A leader that loses its place forgets who has which record: so Kafka says, and so the second rule
needs brokers that stay. When a record was acquired nobody sees: at some time between its fetch was
sent and its answer came.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.simulation.audit_records import RecordAudit, SendOutcome
from brokertwin.simulation.edge import SimulatedConnection, SimulatedRequest
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Uuid

Key = tuple[str, Uuid, int, int]
"""A group, a topic's id, a partition and an offset."""

ShareReport = list[tuple[Key, int]]
"""Records, and what a request says of them."""

ENDS = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})


class Hold(msgspec.Struct, eq=False):
    """A member has a record: its fetch was sent then, and its answer came."""

    member: str
    connection: SimulatedConnection
    sent: int
    heard: int
    until: int
    count: int

    @property
    def is_connected(self) -> bool:
        """Whether the connection still is that it was given on."""
        return self.connection.is_open and self.connection.is_served


class Shares:
    """Records of share groups.

    Attributes:
        ids: the ids of topics by their names.
        is_steady: whether no broker was away until now.
    """

    def __init__(self, violate: Callable[[str], None], deliveries_max: int) -> None:
        self.ids: Mapping[str, Uuid] = {}
        self.is_steady = True
        self._violate = violate
        self._deliveries_max = deliveries_max
        self._sent: dict[str, int] = {}
        self._said: dict[str, ShareReport] = {}
        self._ends: dict[Key, set[str]] = defaultdict(set)
        self._done: dict[Key, int] = {}
        self._held: dict[Key, Hold] = {}
        self._given: set[Key] = set()
        self._counts: Counter[Key] = Counter()
        self._unanswered: Counter[str] = Counter()

    def gives(self, group: str, at: TopicPartition, offset: int) -> None:
        """An application has a record."""
        self._given.add((group, self.ids[at.topic], at.partition, offset))

    def asks(self, asked: SimulatedRequest, now: int) -> None:
        """A member sends a ShareFetch or a ShareAcknowledge."""
        body: Any = asked.send.body
        self._sent[asked.id] = now
        self._unanswered[body.group_id] += asked.send.api == "SHARE_FETCH"
        self._said[asked.id] = said = list(_said(body))
        for key, kind in said:
            held = self._held.get(key)
            if held is not None and held.member == body.member_id:
                del self._held[key]
            if kind in ENDS:
                self._ends[key].add(asked.id)
            if kind == AcknowledgeType.ACCEPT and key not in self._given:
                self._violate(f"{_what(key)} is accepted, and no application had it")
        if body.share_session_epoch <= 0:
            broker = asked.connection.broker
            self._held = {
                key: held for key, held in self._held.items()
                if (held.member, held.connection.broker) != (body.member_id, broker)
            }  # fmt: skip

    def told(self, asked: SimulatedRequest, body: dict[str, Any], now: int) -> None:
        """It has the answer."""
        sent, said = self._sent.pop(asked.id), self._said.pop(asked.id)
        request: Any = asked.send.body
        is_fetch = asked.send.api == "SHARE_FETCH"
        self._unanswered[request.group_id] -= is_fetch
        if body["errorCode"]:
            if body["errorCode"] in OVER:
                self._refused(asked.id, said)
            return
        error_of = "acknowledgeErrorCode" if is_fetch else "errorCode"
        errors: dict[tuple[Uuid, int], int] = defaultdict(int)
        for topic in body["responses"]:
            for each in topic["partitions"]:
                place = topic["topicId"], each["partitionIndex"]
                errors[place] = each[error_of]
                for key, count in _acquired(request.group_id, place, each):
                    until = sent + body["acquisitionLockTimeoutMs"]
                    hold = Hold(request.member_id, asked.connection, sent, now, until, count)
                    self._gets(key, hold)
        for key, kind in said:
            error = errors[key[1:3]]
            if error == Error.INVALID_RECORD_STATE:
                self._refused(asked.id, [(key, kind)])
            elif error == Error.NONE:
                self._takes(key, request.member_id, sent)
                if kind in ENDS:
                    self._done.setdefault(key, now)

    def _takes(self, key: Key, member: str, sent: int) -> None:
        """A leader has taken what a member has said of a record."""
        held = self._held.get(key)
        if held is None or held.member == member or not held.is_connected:
            return
        if self.is_steady and held.heard < sent:
            self._violate(f"{_what(key)} is acknowledged by {member}; {held.member} has it")

    def _refused(self, request: str, said: ShareReport) -> None:
        for key, _ in said:
            self._ends[key].discard(request)

    def _gets(self, key: Key, hold: Hold) -> None:
        what = _what(key)
        if hold.sent > self._done.get(key, hold.sent):
            self._violate(f"{what} comes to {hold.member}; it was accepted or rejected before")
        if not 1 <= hold.count <= self._deliveries_max:
            self._violate(f"{what} is delivered for the {hold.count}th time")
        self._counts[key] = max(self._counts[key], hold.count)
        before = self._held.get(key)
        if before is None or not before.is_connected:
            self._held[key] = hold
            return
        first, second = sorted((before, hold), key=lambda each: (each.count, each.sent))
        self._held[key] = second
        is_both = first.count == second.count or second.heard < first.until
        if self.is_steady and is_both and first.member != second.member:
            both = f"{first.member} and {second.member}"
            self._violate(f"{what} is had by {both}, delivered {first.count} and {second.count}")

    # In the end

    def unsettled(self, group: str, records: RecordAudit) -> set[str]:
        """Acknowledged records that nobody has accepted or rejected, and that still may come.

        A fetch without an answer may have delivered each of them once more.
        """
        left = self._deliveries_max - self._unanswered[group]
        found = set()
        for name, sent in records.sent.items():
            is_written = sent.outcome is SendOutcome.ACKED and sent.offset >= 0
            transaction = records.transactions.get(sent.transaction, SendOutcome.ACKED)
            (topic, partition) = sent.partition
            if (
                records.may_be_gone(name)
                or not is_written
                or transaction is not SendOutcome.ACKED
                or topic not in SHARED
            ):
                continue
            key = (group, self.ids.get(topic, ""), partition, sent.offset)
            if not self._ends[key] and self._counts[key] < left:
                found.add(name)
        return found


OVER = (Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH)
"""Errors of a whole request, of which nothing was taken."""

SHARED = ("orders",)
"""The topics that share groups read."""


def _what(key: Key) -> str:
    group, _, partition, offset = key
    return f"record {offset} of partition {partition} of group {group}"


def _said(body: Any) -> Iterator[tuple[Key, int]]:
    for topic in body.topics:
        for each in topic.partitions:
            for batch in each.acknowledgement_batches:
                kinds = batch.acknowledge_types
                for at, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                    key = (body.group_id, topic.topic_id, each.partition_index, offset)
                    yield key, kinds[at if len(kinds) > 1 else 0]


def _acquired(
    group: str, place: tuple[Uuid, int], answer: dict[str, Any]
) -> Iterable[tuple[Key, int]]:
    for each in answer.get("acquiredRecords", ()):
        for offset in range(each["firstOffset"], each["lastOffset"] + 1):
            yield (group, *place, offset), each["deliveryCount"]
