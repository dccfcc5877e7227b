"""What really happened in a simulated cluster, as facts with their causes.

The facts are differences between the states of the cell before and after an event, so they depend
on nothing that a broker logs. The cause is the event: a request of a client, or none if the brokers
acted by themselves, for example because a timer fired.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import image
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import (
    BatchAppended,
    LogStartMoved,
    PartitionAltered,
    Record,
    TopicCreated,
    TopicRemoved,
    TransactionMetadata,
)
from brokertwin.state.core.tables import unescape
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.committed_offsets import Offset
from brokertwin.state.groups.groups import StoredClassicGroup

AWAY_EPOCH = -2
LEAVES = frozenset({-1, -2})
"""Member epochs of heartbeats that leave."""

OPEN, ABORTED = "Ongoing", frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="what", rename="camel"):
    """Something that happened.

    Attributes:
        time: ms since 1970.
        request: id of the request that caused it; "" if brokers acted by themselves.
        client: client id of that request.
        is_refused: whether that request got an error nevertheless.
    """

    time: int
    request: str = ""
    client: str = ""
    api: str = ""
    is_refused: bool = False


class MemberChanged(Fact, frozen=True, kw_only=True, tag="member"):
    """A member joined, rejoined, left, was away, expired, was replaced, or forgotten.

    A coordinator that takes over a group, or is restarted, forgets members that were not stored.

    Attributes:
        of: client id of the member.
        instance: group.instance.id; "" for none.
        change: `joined`, `rejoined`, `left`, `away`, `returned`, `expired`, `replaced`,
            `forgotten`.
        generation: generation or group epoch before it.
    """

    group: str
    member: str
    of: str
    instance: str
    change: str
    generation: int


class GenerationBegan(Fact, frozen=True, kw_only=True, tag="generation"):
    """A generation, or a group epoch of KIP-848.

    Attributes:
        group: the group id.
        number: of the generation.
        members: those at its begin.
        broker: the coordinator; -1 if unknown.
    """

    group: str
    number: int
    members: tuple[str, ...]
    broker: int = -1


class OffsetStored(Fact, frozen=True, kw_only=True, tag="offset"):
    group: str
    topic: str
    partition: int
    offset: int
    former: int = -1


class OffsetRemoved(Fact, frozen=True, kw_only=True, tag="offset-removed"):
    """A committed offset that is gone."""

    group: str
    topic: str
    partition: int
    former: int


class TransactionMoved(Fact, frozen=True, kw_only=True, tag="transaction"):
    """A transactional id has a new state, producer id or epoch.

    `is_timeout` is True if the coordinator aborted an open transaction by itself.
    """

    id: str
    producer: int
    epoch: int
    state: str
    former_state: str = ""
    former_producer: int = -1
    former_epoch: int = -1
    partitions: tuple[str, ...] = ()
    is_timeout: bool = False


class BrokerMoved(Fact, frozen=True, kw_only=True, tag="broker"):
    """A broker went away or came back, by an intervention."""

    broker: int
    change: str


class PartitionMoved(Fact, frozen=True, kw_only=True, tag="partition"):
    """A partition has another leader or in-sync set; None is unchanged."""

    topic: str
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None


class TopicMoved(Fact, frozen=True, kw_only=True, tag="topic"):
    """A topic was made or deleted."""

    topic: str
    id: str
    change: str


class RecordsRemoved(Fact, frozen=True, kw_only=True, tag="records-removed"):
    """Records below an offset were deleted."""

    topic: str
    partition: int
    before: int


class _Member(NamedTuple):
    client: str
    instance: str
    epoch: int


class _Group(NamedTuple):
    broker: int
    generation: int
    state: str
    members: Mapping[str, _Member]


class _EventHead(msgspec.Struct, rename="camel"):
    id: str = ""
    kind: str = "request"
    time: int = 0
    broker: int = -1
    request_header: dict[str, Any] = {}
    request: msgspec.Raw = msgspec.Raw(b"null")


_event_decoder = msgspec.json.Decoder(_EventHead)
NO_GROUP = _Group(-1, 0, "", {})


class Truth:
    """Collects the facts of a run with one cell.

    Attributes:
        facts: in their order.
        batches: appended batches by topic and partition, of the last writer of each offset.
    """

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.batches: dict[tuple[str, int], dict[int, Batch]] = {}
        self.topics: dict[str, str] = {}
        self._clients: dict[str, tuple[str, str]] = {}
        self._groups: dict[str, _Group] = {}
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._offset_keys: dict[tuple[str, str, int], str] = {}  # a new coordinator loads them late
        self._transactions: dict[str, TransactionMetadata] = {}
        self._leaving: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        self._records: list[tuple[int, str, Record]] = []
        self._now = 0

    # Input

    def record(self, machine: int, event_id: str, record: Record) -> None:
        self._records.append((machine, event_id, record))

    def requested(self, request_id: str, client: str, api: str) -> None:
        self._clients[request_id] = client, api
        self._taken[request_id] = len(self.facts)

    def begin(self) -> None:
        """Prepare for an event; a repeated event begins again."""
        self._records.clear()

    def refused(self, request_id: str) -> None:
        """Note that a request was refused: a member that it names has not left by it."""
        for name in [each for each, by in self._leaving.items() if by == request_id]:
            del self._leaving[name]
        since = self._taken.get(request_id, len(self.facts))
        for place, fact in enumerate(self.facts[since:], since):
            if fact.request == request_id:
                self.facts[place] = msgspec.structs.replace(fact, is_refused=True)

    def take(self, cell: Cell, document: bytes) -> None:
        """Compare the state of a cell after an event with the state before."""
        event = _event_decoder.decode(document)
        self._now = cell.meta.now
        touched = cell.tables.take_touched()
        self._note_leaving(event)
        self._take_records(cell)
        brokers = cell.settings.brokers
        names = {"groups", "live_groups"}
        keys = None if touched is None else [k for name in names for k in touched[name]]
        self._take_groups(cell, brokers, keys, event)
        self._take_offsets(cell, None if touched is None else touched["groups"], event)
        self._take_transactions(cell, None if touched is None else touched["transactions"], event)
        self._records.clear()

    def broker(self, broker: int, change: str, now: int) -> None:
        self.facts.append(BrokerMoved(time=now, broker=broker, change=change))

    # Causes

    def _cause(self, request_id: str) -> dict[str, Any]:
        client, api = self._clients.get(request_id, ("", ""))
        return {"request": request_id, "client": client, "api": api} if client else {}

    def _note_leaving(self, event: _EventHead) -> None:
        key = event.request_header.get("requestApiKey", -1)
        name = KAFKA_APIS[key].name if key in KAFKA_APIS else ""
        if name == "LEAVE_GROUP":
            body = msgspec.json.decode(event.request)
            for each in body.get("members") or [body]:
                for named in (each.get("memberId"), each.get("groupInstanceId")):
                    if named:
                        self._leaving[named] = event.id
        elif name.endswith("_GROUP_HEARTBEAT"):
            body = msgspec.json.decode(event.request)
            group = self._groups.get(body.get("groupId", ""), NO_GROUP)
            member, epoch = group.members.get(body["memberId"]), body.get("memberEpoch")
            # a member that is away may repeat that; it has not left when it expires
            if epoch in LEAVES and not (member and member.epoch == epoch == AWAY_EPOCH):
                self._leaving[body["memberId"]] = event.id

    # Groups

    def _take_groups(
        self, cell: Cell, brokers: Sequence[int], keys: Iterable[str] | None, event: _EventHead
    ) -> None:
        names = _groups_in(cell, brokers) if keys is None else set(_names_of(keys))
        if keys is None:
            names |= self._groups.keys()
        for name in sorted(names):
            group = _group_at(cell, _coordinator(cell, GROUP_TOPIC, name), name)
            former = self._groups.get(name, NO_GROUP)
            if group is None:
                continue
            self._groups[name] = group
            self._compare_members(name, former, group, event)
            if group.generation not in (0, former.generation):
                self.facts.append(
                    GenerationBegan(
                        time=self._now,
                        group=name,
                        number=group.generation,
                        members=tuple(group.members),
                        broker=group.broker,
                        **self._cause(event.id),
                    )
                )

    def _compare_members(self, name: str, former: _Group, now: _Group, event: _EventHead) -> None:
        joined = {m: v for m, v in now.members.items() if m not in former.members}
        gone = {m: v for m, v in former.members.items() if m not in now.members}
        for member, each in gone.items():
            leaver = self._leaving.pop(member, "") or self._leaving.pop(each.instance or " ", "")
            is_there = now.broker == former.broker and now.generation >= former.generation
            change = "expired" if is_there else "forgotten"
            if leaver:
                change = "left"
            elif each.instance and any(v.instance == each.instance for v in joined.values()):
                change = "replaced"
            self._member(name, member, each, change, former, leaver or _by(event, change))
        for member, each in joined.items():
            self._member(name, member, each, "joined", former, event.id)
        for member, each in now.members.items():
            before = former.members.get(member)
            if before is None or before.epoch == each.epoch:
                continue
            if each.epoch == AWAY_EPOCH:
                leaver = self._leaving.pop(member, "")
                self._member(name, member, each, "away", former, leaver or event.id)
            elif before.epoch == AWAY_EPOCH:
                self._member(name, member, each, "returned", former, event.id)
        was_complete = former.state in (
            ClassicGroupState.STABLE,
            ClassicGroupState.COMPLETING_REBALANCE,
        )
        # the rebalance of a lone member completes at once
        is_new_generation = now.generation != former.generation
        is_preparing = now.state == ClassicGroupState.PREPARING_REBALANCE
        if was_complete and (is_preparing or is_new_generation):
            self._rejoined(name, former, event, {*joined, *gone})

    def _rejoined(self, name: str, former: _Group, event: _EventHead, changed: set[str]) -> None:
        """Note a member that began a rebalance by joining again."""
        _, api = self._clients.get(event.id, ("", ""))
        if api != "JOIN_GROUP" or changed:
            return
        member = msgspec.json.decode(event.request).get("memberId") or ""
        if member in former.members:
            self._member(name, member, former.members[member], "rejoined", former, event.id)

    def _member(
        self, group: str, member: str, each: _Member, change: str, former: _Group, by: str
    ) -> None:
        self.facts.append(
            MemberChanged(
                time=self._now,
                group=group,
                member=member,
                of=each.client,
                instance=each.instance,
                change=change,
                generation=former.generation,
                **self._cause(by),
            )
        )

    # Offsets

    def _take_offsets(self, cell: Cell, keys: Iterable[str] | None, event: _EventHead) -> None:
        table = cell.tables.groups
        is_all = keys is None
        if keys is None:  # with those that are gone
            keys = {**dict.fromkeys(table.keys("")), **dict.fromkeys(self._offset_keys.values())}
        for key in keys:
            machine, kind, *parts = key.split("/")
            if kind != "offset" or machine == "controller":
                continue
            group, topic, partition = unescape(parts[0]), unescape(parts[1]), int(parts[2])
            if int(machine) != _coordinator(cell, GROUP_TOPIC, group):
                continue
            place = group, topic, partition
            former = self._offsets.get(place, -1)
            offset = table.get(key, Offset)
            by = self._cause(event.id)
            if offset is not None:
                self._offset_keys[place] = key
            if offset is not None and offset.offset != former:
                self._offsets[place] = offset.offset
                self.facts.append(
                    OffsetStored(
                        time=self._now,
                        group=group,
                        topic=topic,
                        partition=partition,
                        offset=offset.offset,
                        former=former,
                        **by,
                    )
                )
            elif offset is None and former >= 0 and (not is_all or key == self._offset_keys[place]):
                del self._offsets[place], self._offset_keys[place]
                self.facts.append(
                    OffsetRemoved(
                        time=self._now,
                        group=group,
                        topic=topic,
                        partition=partition,
                        former=former,
                        **by,
                    )
                )

    # Transactions

    def _take_transactions(self, cell: Cell, keys: Iterable[str] | None, event: _EventHead) -> None:
        table = cell.tables.transactions
        for key in table.keys("") if keys is None else keys:
            machine, kind, name = key.split("/", 2)
            transaction = table.get(key, TransactionMetadata) if kind == "id" else None
            if transaction is None or int(machine) != _coordinator(cell, TRANSACTION_TOPIC, name):
                continue
            former = self._transactions.get(name)
            held = {topic: [*partitions] for topic, partitions in transaction.partitions.items()}
            self._transactions[name] = msgspec.structs.replace(transaction, partitions=held)
            if former is not None and _same(former, transaction):
                continue
            by = self._cause(event.id)
            was_open = former is not None and former.state == OPEN
            # the record of a request's abort may be written later, by no request
            is_overdue = (
                former is not None
                and transaction.last_update_timestamp - former.transaction_start_timestamp
                >= former.transaction_timeout_ms
            )
            self.facts.append(
                TransactionMoved(
                    time=self._now,
                    id=name,
                    producer=transaction.producer_id,
                    epoch=transaction.producer_epoch,
                    state=transaction.state,
                    former_state=former.state if former else "",
                    former_producer=former.producer_id if former else -1,
                    former_epoch=former.producer_epoch if former else -1,
                    partitions=tuple(
                        f"{t}-{p}" for t, each in transaction.partitions.items() for p in each
                    ),
                    is_timeout=was_open and transaction.state in ABORTED and not by and is_overdue,
                    **by,
                )
            )

    # Records

    def _take_records(self, cell: Cell) -> None:
        for machine, event_id, record in self._records:
            by = self._cause(event_id)
            if isinstance(record, TopicCreated) and machine == CONTROLLER:
                self.topics[record.topic_id] = record.name
                self.facts.append(
                    TopicMoved(
                        time=self._now, topic=record.name, id=record.topic_id, change="made", **by
                    )
                )
            elif isinstance(record, TopicRemoved) and machine == CONTROLLER:
                name = self.topics.get(record.topic_id, record.topic_id)
                self.facts.append(
                    TopicMoved(time=self._now, topic=name, id=record.topic_id, change="gone", **by)
                )
            elif isinstance(record, PartitionAltered) and machine == CONTROLLER:
                self.facts.append(
                    PartitionMoved(
                        time=self._now,
                        topic=self.topics.get(record.topic_id, record.topic_id),
                        partition=record.partition,
                        leader=record.leader,
                        isr=tuple(record.isr) if record.isr is not None else None,
                        **by,
                    )
                )
            elif isinstance(record, LogStartMoved) and self._leads(cell, machine, record):
                self.facts.append(
                    RecordsRemoved(
                        time=self._now,
                        topic=self.topics.get(record.topic_id, record.topic_id),
                        partition=record.partition,
                        before=record.log_start_offset,
                        **by,
                    )
                )
            elif isinstance(record, BatchAppended):
                place = self.topics.get(record.topic_id, record.topic_id), record.partition
                self.batches.setdefault(place, {})[record.batch.base_offset] = record.batch

    def _leads(self, cell: Cell, machine: int, record: LogStartMoved) -> bool:
        topic = image.topic_by_id(cell.tables.of(CONTROLLER), record.topic_id)
        if topic is None or record.partition >= len(topic.partitions):
            return False
        return topic.partitions[record.partition].leader == machine


def _by(event: _EventHead, change: str) -> str:
    """Return the request that a change of a member is due to; an expiry is due to none."""
    return "" if change in ("expired", "forgotten") else event.id


def _same(one: TransactionMetadata, other: TransactionMetadata) -> bool:
    return (one.producer_id, one.producer_epoch, one.state, one.partitions) == (
        other.producer_id,
        other.producer_epoch,
        other.state,
        other.partitions,
    )


def _names_of(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        machine, kind, *rest = key.split("/")
        if kind in ("group", "live-group") and machine != "controller":
            yield unescape(rest[0])


def _groups_in(cell: Cell, brokers: Sequence[int]) -> set[str]:
    result: set[str] = set()
    for broker in brokers:
        result.update(groups.stored_ids(cell.tables.of(broker)))
        result.update(groups.live_ids(cell.tables.of(broker)))
    return result


def _coordinator(cell: Cell, topic: str, name: str) -> int:
    """Return the leader of the partition of an internal topic that has a name; -1 for none."""
    found = image.topic_by_name(cell.tables.of(CONTROLLER), topic)
    if found is None:
        return -1
    return found.partitions[partition_for(name, len(found.partitions))].leader


def _group_at(cell: Cell, broker: int, name: str) -> _Group | None:
    live = groups.find_live(cell.tables.of(broker), name)
    if live is not None:
        return _of_classic(live, broker)
    stored = groups.find_stored(cell.tables.of(broker), name)
    if stored is None:
        return None
    if isinstance(stored, StoredClassicGroup):
        if stored.metadata is None:
            return NO_GROUP._replace(broker=broker)
        members = {
            each.member_id: _Member(each.client_id, each.group_instance_id or "", 0)
            for each in stored.metadata.members
        }
        return _Group(broker, stored.metadata.generation, "", members)
    modern = {
        each.member_id: _Member(
            each.client_id, getattr(each, "instance_id", None) or "", each.member_epoch
        )
        for each in stored.members.values()
    }
    return _Group(broker, stored.group_epoch, "", modern)


def _of_classic(group: ClassicGroup, broker: int) -> _Group:
    members = {
        each.member_id: _Member(each.client_id, each.group_instance_id or "", 0)
        for each in group.members.values()
    }
    return _Group(broker, group.generation_id, group.state, members)


def write_truth(facts: Iterable[Fact], path: Path) -> None:
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(each) + b"\n" for each in facts))
