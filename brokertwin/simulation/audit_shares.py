"""Audit of share groups: deliveries and acknowledgements.

    always               an accepted or rejected record is not delivered by a fetch sent after the
                         response, nor more often than `group.share.delivery.count.limit`;
                         only delivered records are accepted
    while no broker was  a record has one member at a time; another one gets it, with a higher
    away                 delivery count, after an acknowledgement, or after the end of the session,
                         the connection or the lock; others cannot acknowledge it
    in the end           each acknowledged record is accepted or rejected, or was delivered up to
                         the limit

A new leader does not know the acquired records, as in Kafka, so the second rule requires that no
broker was away. The time of acquisition is unknown: between the request and the response of the
fetch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import RecordAudit, SendOutcome
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.simulation.edge import SimulatedConnection, SimulatedRequest

Key = tuple[str, Uuid, int, int]
"""Group, topic id, partition and offset."""

ShareReport = list[tuple[Key, int]]
"""Records and their acknowledgement types in a request."""

ENDS = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})


class Hold(msgspec.Struct, eq=False):
    """A member's acquired record, with the times of its fetch's request and response."""

    member: str
    connection: SimulatedConnection
    sent: int
    acquired_by: int
    until: int
    count: int

    @property
    def is_connected(self) -> bool:
        return self.connection.is_open and self.connection.is_served


class Shares:
    """Records of share groups.

    Attributes:
        ids: topic ids by name.
        is_steady: whether no broker has been away yet.
    """

    def __init__(self, violate: Callable[[str], None], deliveries_max: int) -> None:
        self.ids: Mapping[str, Uuid] = {}
        self.is_steady = True
        self._violate = violate
        self._deliveries_max = deliveries_max
        self._sent: dict[str, int] = {}
        self._acknowledgements: dict[str, ShareReport] = {}
        self._ends: dict[Key, set[str]] = defaultdict(set)
        self._done: dict[Key, int] = {}
        self._held: dict[Key, Hold] = {}
        self._given: set[Key] = set()
        self._counts: Counter[Key] = Counter()
        self._pending_fetches: Counter[str] = Counter()

    def gives(self, group: str, at: TopicPartition, offset: int) -> None:
        """Note that an application received a record."""
        self._given.add((group, self.ids[at.topic], at.partition, offset))

    def on_request(self, pending: SimulatedRequest, now: int) -> None:
        """Note a ShareFetch or ShareAcknowledge request."""
        body: Any = pending.send.body
        self._sent[pending.id] = now
        self._pending_fetches[body.group_id] += pending.send.api == "SHARE_FETCH"
        self._acknowledgements[pending.id] = acknowledged = list(_acknowledgements(body))
        for key, kind in acknowledged:
            held = self._held.get(key)
            if held is not None and held.member == body.member_id:
                del self._held[key]
            if kind in ENDS:
                self._ends[key].add(pending.id)
            if kind == AcknowledgeType.ACCEPT and key not in self._given:
                self._violate(f"{_what(key)} is accepted, and no application had it")
        if body.share_session_epoch <= 0:
            broker = pending.connection.broker
            self._held = {
                key: held for key, held in self._held.items()
                if (held.member, held.connection.broker) != (body.member_id, broker)
            }  # fmt: skip

    def on_response(self, pending: SimulatedRequest, body: dict[str, Any], now: int) -> None:
        sent, acknowledged = self._sent.pop(pending.id), self._acknowledgements.pop(pending.id)
        request: Any = pending.send.body
        is_fetch = pending.send.api == "SHARE_FETCH"
        self._pending_fetches[request.group_id] -= is_fetch
        if body["errorCode"]:
            if body["errorCode"] in OVER:
                self._refused(pending.id, acknowledged)
            return
        error_of = "acknowledgeErrorCode" if is_fetch else "errorCode"
        errors: dict[tuple[Uuid, int], int] = defaultdict(int)
        for topic in body["responses"]:
            for each in topic["partitions"]:
                place = topic["topicId"], each["partitionIndex"]
                errors[place] = each[error_of]
                for key, count in _acquired(request.group_id, place, each):
                    until = sent + body["acquisitionLockTimeoutMs"]
                    hold = Hold(request.member_id, pending.connection, sent, now, until, count)
                    self._gets(key, hold)
        for key, kind in acknowledged:
            error = errors[key[1:3]]
            if error == Error.INVALID_RECORD_STATE:
                self._refused(pending.id, [(key, kind)])
            elif error == Error.NONE:
                self._takes(key, request.member_id, sent)
                if kind in ENDS:
                    self._done.setdefault(key, now)

    def _takes(self, key: Key, member: str, sent: int) -> None:
        """Check a successful acknowledgement."""
        held = self._held.get(key)
        if held is None or held.member == member or not held.is_connected:
            return
        if self.is_steady and held.acquired_by < sent:
            self._violate(f"{_what(key)} is acknowledged by {member}; {held.member} has it")

    def _refused(self, request: str, acknowledged: ShareReport) -> None:
        for key, _ in acknowledged:
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
        is_both = first.count == second.count or second.acquired_by < first.until
        if self.is_steady and is_both and first.member != second.member:
            both = f"{first.member} and {second.member}"
            self._violate(f"{what} is had by {both}, delivered {first.count} and {second.count}")

    # At the end

    def unsettled(self, group: str, records: RecordAudit) -> set[str]:
        """Return acknowledged records that are neither accepted nor rejected nor exhausted.

        Each fetch without a response may have delivered each of them once more.
        """
        left = self._deliveries_max - self._pending_fetches[group]
        result = set()
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
                result.add(name)
        return result


OVER = (Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH)
"""Errors of a whole request, none of which was processed."""

SHARED = ("orders",)
"""Topics of share groups."""


def _what(key: Key) -> str:
    group, _, partition, offset = key
    return f"record {offset} of partition {partition} of group {group}"


def _acknowledgements(body: Any) -> Iterator[tuple[Key, int]]:
    for topic in body.topics:
        for each in topic.partitions:
            for batch in each.acknowledgement_batches:
                kinds = batch.acknowledge_types
                for at, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                    key = (body.group_id, topic.topic_id, each.partition_index, offset)
                    yield key, kinds[at if len(kinds) > 1 else 0]


def _acquired(
    group: str, place: tuple[Uuid, int], partition: dict[str, Any]
) -> Iterable[tuple[Key, int]]:
    for each in partition.get("acquiredRecords", ()):
        for offset in range(each["firstOffset"], each["lastOffset"] + 1):
            yield (group, *place, offset), each["deliveryCount"]
