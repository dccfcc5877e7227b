"""Conditions on every state, each with its source.

An invariant receives the requests and responses of clients, and keeps them in a *ghost*: a value
that never changes, that is part of the state, and that should be small. `check` compares the ghost
with the brokers. Records are known by name: the `locator` of their batch.

AcknowledgedRecordsStay     acknowledged records are never lost
NothingTwice                an idempotent producer's record is in a log once
TransactionsAsSaid          a transaction is atomic, and ends as its producer said
NoHangingTransaction        read_committed readers do not stop for ever
FencedWritesNothing         no request of a fenced client is acknowledged, or writes
OneOwner                    a partition has one owner in an epoch of a group
OffsetsGoForward            committed offsets do not go back
ExactlyOnce                 an input record has at most one committed output
LogsAgree                   replicas agree below their high watermarks
HighWatermarkStays          no leader forgets what readers have seen
ReadersSeeOneLog            a reader's records are those of the log that it continues to read
OneOwnerAtATime             the same at any time (KIP-848, KIP-1071)
DeliveredAndCounted         share records are delivered, at most as often as the limit
HeldByOne                   share records are delivered to one member at a time
SessionsHideNothing         a fetch session does not hide a record
CellHolds                   the invariants of `state/` (`check(cell)`)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore.api import Invariant, Model, Send
from brokertwin.simulation.explore.machine import CellState, ForkableCell, response_code
from brokertwin.state.cluster import coordinators, image
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import TransactionMetadata
from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import committed_offsets
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log, StoredBatch, batches_from, log_key
from brokertwin.state.logs.log_transactions import NO_OFFSET
from brokertwin.state.replication import network
from brokertwin.state.share import share_partition, share_partitions
from brokertwin.state.share.share_partition import SharePartition
from brokertwin.state.transactions import transactional_ids

Place = tuple[str, int]
"""A topic and a partition."""


class View:
    def __init__(self, machine: ForkableCell, model: Model) -> None:
        self._machine = machine
        self._places = tuple(
            (topic, number)
            for topic, count in model.cluster.topics.items()
            for number in range(count)
        )
        self._batches: dict[tuple[int, str, int], list[StoredBatch]] = {}
        self._leaders: dict[Place, int] = {}
        self._committed: dict[Place, list[str]] = {}
        self._state: CellState | None = None

    def begin(self, state: CellState) -> None:
        self._state = state
        self._batches = {}
        self._leaders = {}
        self._committed = {}

    @property
    def _tables(self) -> CellTables:
        """The tables in the state, which is loaded if necessary."""
        self._machine.enter(self.state)
        return self._machine.tables

    @property
    def state(self) -> CellState:
        assert self._state is not None, "`begin` has been called"
        return self._state

    @property
    def is_waiting(self) -> bool:
        """True if messages between machines are under way."""
        return bool(self.state.waiting)

    @property
    def brokers(self) -> list[int]:
        table = self._tables.cluster
        brokers = self._machine.settings.brokers
        return [each for each in brokers if not network.is_stopped(table, each)]

    def places(self) -> tuple[Place, ...]:
        """All partitions of the model's topics."""
        return self._places

    def partition(self, topic: str, partition: int, machine: int = CONTROLLER) -> Partition | None:
        """A partition in a machine's image."""
        held = self._topic(topic, machine)
        return held.partitions[partition] if held is not None else None

    def leader(self, topic: str, partition: int) -> int:
        """The leader in the controller's image, -1 for none."""
        part = self.partition(topic, partition)
        return part.leader if part is not None else -1

    def serving_leader(self, topic: str, partition: int) -> int:
        """The leader, if it runs and knows that it leads; else -1."""
        found = self._leaders.get((topic, partition))
        if found is None:
            found = self._leaders[topic, partition] = self._serving_leader(topic, partition)
        return found

    def _serving_leader(self, topic: str, partition: int) -> int:
        leader = self.leader(topic, partition)
        if leader not in self.brokers:
            return -1
        part = self.partition(topic, partition, leader)
        current = self.partition(topic, partition)
        if part is None or current is None or part.leader_epoch != current.leader_epoch:
            return -1
        return leader

    def log(self, broker: int, topic: str, partition: int) -> Log | None:
        found = self._topic(topic, CONTROLLER)
        if found is None:
            return None
        return self._tables.logs.get(log_key(broker, found.topic_id, partition), Log)

    def batches(self, broker: int, topic: str, partition: int) -> list[StoredBatch]:
        """The batches of a broker's log, markers included."""
        key = broker, topic, partition
        found = self._batches.get(key)
        if found is None:
            log = self.log(*key)
            found = self._batches[key] = (
                list(batches_from(self._tables.of(broker), log, log.log_start_offset))
                if log
                else []
            )
        return found

    def aborted(self, broker: int, topic: str, partition: int) -> list[tuple[int, int, int]]:
        """Aborted transactions of a log: producer id, first offset, marker's offset."""
        log = self.log(broker, topic, partition)
        if log is None or not log.aborted:
            return []
        index = logs.aborted_index(self._tables.of(broker), log)
        found = index.between(0, log.log_end_offset)
        return [(each.producer_id, each.first_offset, each.last_offset) for each in found]

    def committed(self, topic: str, partition: int) -> list[str]:
        """Names of the records that read_committed shows at the leader, in order."""
        known = self._committed.get((topic, partition))
        if known is None:
            known = self._committed[topic, partition] = self._read_committed(topic, partition)
        return known

    def _read_committed(self, topic: str, partition: int) -> list[str]:
        leader = self.serving_leader(topic, partition)
        log = self.log(leader, topic, partition) if leader >= 0 else None
        if log is None:
            return []
        aborted = self.aborted(leader, topic, partition)
        return [
            name
            for batch in self.batches(leader, topic, partition)
            if not batch.is_control
            and batch.last_offset < log.last_stable_offset
            and not _is_aborted(batch, aborted)
            for name in names_of(batch.locator)
        ]

    def transactions(self) -> dict[int, TransactionMetadata]:
        leader = self.serving_leader(coordinators.TRANSACTION_TOPIC, 0)
        return {
            known.producer_id: known
            for broker in self.brokers
            if leader in (broker, -1)
            for _, known in transactional_ids.all_ids(self._tables.of(broker))
        }

    def committed_offset(self, group: str, topic: str, partition: int) -> int:
        """A group's committed offset at its coordinator, -1 if there is none."""
        leader = self.serving_leader(coordinators.GROUP_TOPIC, 0)
        if self._machine.settings.broker_settings.brokertwin_offset_storage == "zookeeper":
            leader = CONTROLLER
        offset = committed_offsets.offset(self._tables.of(leader), group, topic, partition)
        return offset.offset if offset is not None else -1

    def share_start(self, group: str, topic: str, partition: int) -> tuple[str, int]:
        """A topic's id, and the first offset that a share group may still deliver."""
        found, leader = self._topic(topic, CONTROLLER), self.serving_leader(topic, partition)
        if found is None or leader < 0:
            return "", 0
        share_key = group, found.topic_id, partition
        share = self._tables.shares.get(
            share_partitions.item_key(leader, share_key), SharePartition
        )
        return found.topic_id, share.start_offset if share is not None else 0

    def _topic(self, topic: str, machine: int) -> Topic | None:
        return image.topic_by_name(self._tables.of(machine), topic)


def _is_aborted(batch: StoredBatch, aborted: list[tuple[int, int, int]]) -> bool:
    return batch.is_transactional and any(
        producer_id == batch.producer_id and first <= batch.base_offset <= last
        for producer_id, first, last in aborted
    )


def names_of(locator: str | None) -> list[str]:
    """Names of a batch's records."""
    return locator.split(",") if locator else []


class Written(NamedTuple):
    """A batch in a Produce request."""

    topic: str
    partition: int
    names: tuple[str, ...]
    is_transactional: bool
    producer_id: int
    epoch: int


def written(send: Send) -> Iterator[Written]:
    if send.api != "PRODUCE":
        return
    for topic in send.body["topicData"]:
        for partition in topic["partitionData"]:
            for batch in partition["batches"]:
                yield Written(
                    topic["name"],
                    partition["index"],
                    tuple(names_of(batch.get("locator"))),
                    batch.get("isTransactional", False),
                    batch.get("producerId", -1),
                    batch.get("producerEpoch", -1),
                )


class AcknowledgedRecordsStay(Invariant):
    source = "KIP-101; Kafka's documentation of acks"

    def received(self, ghost: Any, _client: str, send: Send, response: Any) -> Any:
        if response is None or send.api != "PRODUCE" or send.body.get("acks", -1) == 0:
            return ghost
        results = {
            (topic.name, each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        added = set(ghost)
        for each in written(send):
            result = results.get((each.topic, each.partition))
            if result is not None and result.error_code == Error.NONE:
                place = each.topic, each.partition, result.base_offset
                added.update((*place, name) for name in each.names)
        return tuple(sorted(added))

    def check(self, ghost: Any, view: View) -> str | None:
        """Look for each record in its leader's log; deleted records may be gone."""
        for topic, partition, offset, name in ghost:
            leader = view.serving_leader(topic, partition)
            log = view.log(leader, topic, partition) if leader >= 0 else None
            if log is None or offset < log.log_start_offset:
                continue
            if not any(name in names_of(b.locator) for b in view.batches(leader, topic, partition)):
                return f"{name} was acknowledged; broker {leader}, the leader, does not have it"
        return None


class NothingTwice(Invariant):
    """A record of an idempotent producer is in a leader's log at most once."""

    source = "KIP-98"

    def check(self, _ghost: Any, view: View) -> str | None:
        for topic, partition in view.places():
            leader = view.serving_leader(topic, partition)
            if leader < 0:
                continue
            counts = Counter(
                name
                for batch in view.batches(leader, topic, partition)
                if batch.producer_id >= 0
                for name in names_of(batch.locator)
            )
            twice = [name for name, count in counts.items() if count > 1]
            if twice:
                return f"{', '.join(twice)} is in {topic}-{partition} twice"
        return None


class _Transaction(NamedTuple):
    """A transaction as its producer knows it.

    Attributes:
        is_ended: whether the producer has requested its end.
        acked: "commit" or "abort" once the end was acknowledged.
    """

    client: str
    names: tuple[str, ...] = ()
    may_commit: bool = False
    may_abort: bool = False
    is_ended: bool = False
    acked: str = ""


class TransactionsAsSaid(Invariant):
    """A transaction's records are committed together or not at all, as its producer said.

    A record is committed if read_committed shows it. It may be so only after the producer has
    requested the commit, and must not be aborted after the commit was acknowledged.
    """

    source = "KIP-98, KIP-890"

    def sent(self, ghost: Any, client: str, send: Send) -> Any:
        """Add records to the open transaction, or note how the producer ends it."""
        found = list(ghost)
        last = next((n for n, each in enumerate(found) if each.client == client), None)
        if send.api == "PRODUCE":
            names = tuple(n for each in written(send) if each.is_transactional for n in each.names)
            if not names:
                return ghost
            if last is None or found[last].is_ended:
                found.insert(0, _Transaction(client))
                last = 0
            known = found[last]
            added = tuple(name for name in names if name not in known.names)
            found[last] = known._replace(names=known.names + added)
        elif send.api == "END_TXN" and last is not None:
            is_commit = send.body["committed"]
            known = found[last]
            found[last] = known._replace(
                is_ended=True,
                may_commit=known.may_commit or is_commit,
                may_abort=known.may_abort or not is_commit,
            )
        elif send.api == "INIT_PRODUCER_ID" and last is not None:
            found[last] = found[last]._replace(is_ended=True, may_abort=True)
        return tuple(found)

    def received(self, ghost: Any, client: str, send: Send, response: Any) -> Any:
        """Note an acknowledged end."""
        if send.api != "END_TXN" or response is None or response.error_code != Error.NONE:
            return ghost
        found = list(ghost)
        last = next((n for n, each in enumerate(found) if each.client == client), None)
        if last is not None and not found[last].acked:
            acked = "commit" if send.body["committed"] else "abort"
            found[last] = found[last]._replace(acked=acked)
        return tuple(found)

    def crashed(self, ghost: Any, client: str) -> Any:
        """End the client's transaction: a new instance does not continue it."""
        found = list(ghost)
        last = next((n for n, each in enumerate(found) if each.client == client), None)
        if last is not None:
            found[last] = found[last]._replace(is_ended=True, may_abort=True)
        return tuple(found)

    def check(self, ghost: Any, view: View) -> str | None:
        """Compare each transaction with the logs."""
        if not ghost:
            return None
        shown: set[str] = set()
        aborted: set[str] = set()
        for topic, partition in view.places():
            leader = view.serving_leader(topic, partition)
            if leader < 0:
                continue
            shown.update(view.committed(topic, partition))
            ended = view.aborted(leader, topic, partition)
            if ended:
                for batch in view.batches(leader, topic, partition):
                    if not batch.is_control and _is_aborted(batch, ended):
                        aborted.update(names_of(batch.locator))
        for known in ghost:
            here = [name for name in known.names if name in shown]
            gone = [name for name in known.names if name in aborted]
            if here and gone:
                return (
                    f"a transaction of {known.client} is torn: {', '.join(here)} is committed,"
                    f" {', '.join(gone)} is aborted"
                )
            if here and not known.may_commit:
                said = "aborted it" if known.may_abort else "has not ended it"
                return f"{', '.join(here)} is committed; {known.client} {said}"
            if here and known.acked == "abort":
                return f"{', '.join(here)} is committed; the abort was acknowledged"
            if gone and known.acked == "commit":
                return f"{', '.join(gone)} is aborted; the commit was acknowledged"
        return None


OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class NoHangingTransaction(Invariant):
    """Each transaction that is open in a log is open at its coordinator, which will end it."""

    source = "KIP-664, KIP-890"

    def check(self, _ghost: Any, view: View) -> str | None:
        """Compare open transactions with the coordinators."""
        if view.is_waiting:
            return None
        transactions = None
        for topic, partition in view.places():
            leader = view.serving_leader(topic, partition)
            log = view.log(leader, topic, partition) if leader >= 0 else None
            for each in log.transactions if log is not None else ():
                if each.last_offset != NO_OFFSET:
                    continue
                transactions = view.transactions() if transactions is None else transactions
                metadata = transactions.get(each.producer_id)
                is_open = metadata is not None and metadata.state in OPEN_STATES
                places = metadata.partitions.get(topic, []) if metadata is not None else []
                if not is_open or partition not in places:
                    return (
                        f"{topic}-{partition} has an open transaction of producer"
                        f" {each.producer_id} from offset {each.first_offset} on that its"
                        f" coordinator does not know: read_committed readers stop there"
                    )
        return None


class _Fencing(NamedTuple):
    """What `FencedWritesNothing` remembers.

    Attributes:
        newest: the newest epoch or generation that a client received, by producer or group.
        stale: clients whose request in flight has an older one.
        accepted: a sentence about an acknowledged one.
    """

    newest: tuple[tuple[str, int], ...] = ()
    stale: tuple[str, ...] = ()
    accepted: str = ""


class FencedWritesNothing(Invariant):
    """A request with an older epoch than an assigned one is not acknowledged, and writes nothing.

    The epoch must have been received before the request was sent. The same holds for the
    generation of a commit in a classic group.
    """

    source = "KIP-98, KIP-360; the classic group protocol"
    start = _Fencing()

    def sent(self, ghost: _Fencing, client: str, send: Send) -> _Fencing:
        """Note a client whose request is stale."""
        newest = dict(ghost.newest)
        if not any(epoch < newest.get(who, -1) for who, epoch in _epochs(send)):
            return ghost
        return ghost._replace(stale=tuple(sorted({*ghost.stale, client})))

    def received(self, ghost: _Fencing, client: str, send: Send, response: Any) -> _Fencing:
        """Note assigned epochs, and acknowledged requests of older ones."""
        if client in ghost.stale:
            accepted = ghost.accepted
            if response is not None and response_code(response) == Error.NONE:
                accepted = f"{send.label} of {client} is acknowledged, although it is fenced"
            others = tuple(each for each in ghost.stale if each != client)
            return ghost._replace(stale=others, accepted=accepted)
        if response is None or response_code(response) != Error.NONE:
            return ghost
        if send.api in ("INIT_PRODUCER_ID", "END_TXN"):
            who, epoch = f"producer {response.producer_id}", response.producer_epoch
        elif send.api == "JOIN_GROUP":
            who, epoch = send.body["groupId"], response.generation_id
        else:
            return ghost
        newest = dict(ghost.newest)
        if epoch <= newest.get(who, -1):
            return ghost
        return ghost._replace(newest=tuple(sorted({**newest, who: epoch}.items())))

    def check(self, ghost: _Fencing, view: View) -> str | None:
        """Look for acknowledged requests, and for batches of older epochs after newer ones."""
        if ghost.accepted:
            return ghost.accepted
        for topic, partition in view.places():
            leader = view.serving_leader(topic, partition)
            newest: dict[int, int] = {}
            for batch in view.batches(leader, topic, partition) if leader >= 0 else ():
                if batch.producer_id < 0:
                    continue
                before = newest.get(batch.producer_id, -1)
                if batch.producer_epoch < before:
                    return (
                        f"{topic}-{partition} has {batch.locator} of epoch {batch.producer_epoch}"
                        f" after epoch {before} of producer {batch.producer_id}"
                    )
                newest[batch.producer_id] = max(before, batch.producer_epoch)
        return None


def _epochs(send: Send) -> Iterator[tuple[str, int]]:
    """Producer ids and groups in a request that writes, with their epochs and generations."""
    body = send.body
    if send.api == "PRODUCE":
        for each in written(send):
            yield f"producer {each.producer_id}", each.epoch
    elif send.api == "ADD_PARTITIONS_TO_TXN" and "v3AndBelowProducerId" in body:
        yield f"producer {body['v3AndBelowProducerId']}", body["v3AndBelowProducerEpoch"]
    elif send.api in ("ADD_OFFSETS_TO_TXN", "END_TXN", "TXN_OFFSET_COMMIT"):
        yield f"producer {body['producerId']}", body["producerEpoch"]
    if send.api == "OFFSET_COMMIT":
        yield body["groupId"], body["generationIdOrMemberEpoch"]
    elif body.get("generationId", -1) >= 0 and send.api == "TXN_OFFSET_COMMIT":
        yield body["groupId"], body["generationId"]


class OneOwner(Invariant):
    """A partition is assigned to one client in a generation, or member epoch, of a group.

    Assignments of classic groups are text in base64: the client's own format.
    """

    source = "KIP-848; the classic group protocol"

    def received(self, ghost: Any, client: str, send: Send, response: Any) -> Any:
        """Note assignments."""
        if response is None or send.api not in ("SYNC_GROUP", "CONSUMER_GROUP_HEARTBEAT"):
            return ghost
        if response.error_code != Error.NONE:
            return ghost
        return tuple(sorted({*ghost, *_owned(client, send, response)}))

    def check(self, ghost: Any, _view: View) -> str | None:
        owners: dict[tuple[Any, ...], str] = {}
        for group, epoch, what, client in ghost:
            before = owners.setdefault((group, epoch, what), client)
            if before != client:
                return f"{what} belongs to {before} and {client} in epoch {epoch} of {group}"
        return None


def _owned(client: str, send: Send, response: Any) -> Iterator[tuple[str, int, str, str]]:
    group = send.body["groupId"]
    if send.api == "SYNC_GROUP":
        for what in assigned_text(response.assignment).split():
            yield group, send.body["generationId"], what, client
        return
    for what, partition in assigned(send, response) or ():
        yield group, response.member_epoch, f"{what}-{partition}", client


def assigned(send: Send, response: Any) -> list[tuple[str, int]] | None:
    """Return the partitions or tasks in a response to a heartbeat, None if it has none.

    A partition has the id of its topic, a task that of its subtopology.
    """
    if send.api == "STREAMS_GROUP_HEARTBEAT":
        tasks = response.active_tasks
        return tasks and [(each.subtopology_id, at) for each in tasks for at in each.partitions]
    if response.assignment is None:
        return None
    topics = response.assignment.topic_partitions
    return [(each.topic_id, at) for each in topics for at in each.partitions]


def assigned_text(assignment: Any) -> str:
    """Return a classic assignment of a model's client."""
    import base64

    raw = assignment if isinstance(assignment, bytes) else base64.b64decode(assignment or "")
    return raw.decode()


class OffsetsGoForward(Invariant):
    """A committed offset is not below one that was acknowledged before.

    For models whose clients never seek back. An acknowledged OffsetDelete begins anew.
    """

    source = "the consumer's documentation; KIP-447 for transactions"

    def received(self, ghost: Any, _client: str, send: Send, response: Any) -> Any:
        """Note acknowledged commits and deletions."""
        if response is None or send.api not in ("OFFSET_COMMIT", "OFFSET_DELETE"):
            return ghost
        codes = {
            (topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        highest = {(group, topic, at): offset for group, topic, at, offset in ghost}
        for topic in send.body["topics"]:
            for each in topic["partitions"]:
                place = topic["name"], each["partitionIndex"]
                key = (send.body["groupId"], *place)
                if codes.get(place) != Error.NONE:
                    continue
                if send.api == "OFFSET_DELETE":
                    highest.pop(key, None)
                else:
                    highest[key] = max(highest.get(key, -1), each["committedOffset"])
        return tuple(sorted((*key, offset) for key, offset in highest.items()))

    def check(self, ghost: Any, view: View) -> str | None:
        for group, topic, partition, offset in ghost:
            stored = view.committed_offset(group, topic, partition)
            if 0 <= stored < offset:
                return (
                    f"the committed offset of {group} for {topic}-{partition} goes back from"
                    f" {offset} to {stored}"
                )
        return None


class ExactlyOnce(Invariant):
    """Each input record has at most one committed output.

    Outputs are named INPUT@WORKER: the name of the input record, and the worker.

    Args:
        output: the topic of the outputs.
    """

    source = "KIP-98, KIP-447"

    def __init__(self, output: str) -> None:
        self._output = output

    def check(self, _ghost: Any, view: View) -> str | None:
        counts: Counter[str] = Counter()
        for topic, partition in view.places():
            if topic == self._output:
                names = view.committed(topic, partition)
                counts.update(name.partition("@")[0] for name in names)
        twice = [name for name, count in counts.items() if count > 1]
        return f"{', '.join(twice)} is processed twice" if twice else None


class LogsAgree(Invariant):
    source = "KIP-101, KIP-279; `UnifiedLog`"

    def check(self, _ghost: Any, view: View) -> str | None:
        for topic, partition in view.places():
            held = view.partition(topic, partition)
            seen: dict[int, tuple[int, Any]] = {}
            for broker in held.replicas if held is not None else ():
                log = view.log(broker, topic, partition)
                for batch in view.batches(broker, topic, partition) if log is not None else ():
                    if batch.last_offset >= log.high_watermark:  # type: ignore[union-attr]
                        break
                    what = batch.locator, batch.partition_leader_epoch, batch.is_control
                    other = seen.setdefault(batch.base_offset, (broker, what))
                    if other[1] != what:
                        return (
                            f"{topic}-{partition} at {batch.base_offset} is {other[1][0]} on"
                            f" broker {other[0]} and {batch.locator} on broker {broker}, both"
                            " below the high watermark"
                        )
        return None


class HighWatermarkStays(Invariant):
    """Offsets below a high watermark that a reader received stay in each leader's log.

    Args:
        may_be_behind: a new leader's high watermark may be behind for a moment (KIP-207).
    """

    source = "KIP-207"

    def received(self, ghost: Any, _client: str, send: Send, response: Any) -> Any:
        """Note the high watermarks that readers received."""
        if response is None or send.api != "FETCH":
            return ghost
        highest = {(topic, at): offset for topic, at, offset in ghost}
        for topic in response.responses:
            for each in topic.partitions:
                if each.error_code == Error.NONE:
                    key = topic.topic, each.partition_index
                    highest[key] = max(highest.get(key, 0), each.high_watermark)
        return tuple(sorted((*key, offset) for key, offset in highest.items()))

    def check(self, ghost: Any, view: View) -> str | None:
        """Check that each leader's log reaches the offsets that were seen."""
        for topic, partition, offset in ghost:
            leader = view.serving_leader(topic, partition)
            log = view.log(leader, topic, partition) if leader >= 0 else None
            if log is not None and log.log_end_offset < offset:
                return (
                    f"a reader saw {topic}-{partition} up to {offset}; the log of broker"
                    f" {leader} ends at {log.log_end_offset}"
                )
        return None


class ReadersSeeOneLog(Invariant):
    """A reader that receives records at its position has read the records before them.

    Without leader epochs in its requests, a reader continues in another log without notice.
    """

    source = "KIP-320"

    def received(self, ghost: Any, client: str, send: Send, response: Any) -> Any:
        """Append received records to the earlier ones."""
        if response is None or send.api != "FETCH":
            return ghost
        read = dict(ghost)
        for topic in response.responses:
            for each in topic.partitions:
                key = client, topic.topic, each.partition_index
                diverging = each.diverging_epoch
                if diverging is not msgspec.UNSET:
                    kept = (at for at in read.get(key, ()) if at[0] < diverging.end_offset)
                    read[key] = tuple(kept)
                for batch in each.batches or ():
                    if not batch.is_control and each.error_code == Error.NONE:
                        at = batch.base_offset, batch.locator or ""
                        if at not in read.get(key, ()):
                            read[key] = (*read.get(key, ()), at)
        return tuple(sorted(read.items()))

    def check(self, ghost: Any, view: View) -> str | None:
        """Check that a log with a reader's last record has its earlier ones, too."""
        for (client, topic, partition), names in ghost:
            held = view.partition(topic, partition)
            for broker in held.replicas if held is not None and names else ():
                has = {
                    (batch.base_offset, batch.locator)
                    for batch in view.batches(broker, topic, partition)
                }
                if names[-1] in has and not has.issuperset(names):
                    texts = ", ".join(f"{name} at {offset}" for offset, name in names)
                    return (
                        f"{client} has read {texts} of {topic}-{partition}; broker {broker} has"
                        " the last of these, and others before it"
                    )
        return None


HEARTBEATS = ("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT")


class OneOwnerAtATime(Invariant):
    """No two members of a consumer or streams group have a partition or task at the same time.

    A member has the partitions of its last response with an assignment, until it is fenced. For
    models without the fault `wait`: a member whose session has expired does not know that.
    """

    source = "KIP-848, KIP-1071"

    def sent(self, ghost: Any, client: str, send: Send) -> Any:
        """Drop the partitions of a member that joins or leaves."""
        is_new = send.api in HEARTBEATS and send.body["memberEpoch"] <= 0
        return tuple(each for each in ghost if each[0] != client) if is_new else ghost

    def received(self, ghost: Any, client: str, send: Send, response: Any) -> Any:
        """Note an assignment."""
        if response is None or send.api not in HEARTBEATS:
            return ghost
        others = [each for each in ghost if each[0] != client]
        if response.error_code != Error.NONE:
            return tuple(others)
        given = assigned(send, response)
        if given is None:
            return ghost
        return tuple(sorted([*others, *((client, what) for what in given)]))

    def check(self, ghost: Any, _view: View) -> str | None:
        owners: dict[tuple[str, int], str] = {}
        for client, what in ghost:
            other = owners.setdefault(what, client)
            if other != client:
                return f"partition {what[1]} belongs to {other} and {client}"
        return None


class _Deliveries(NamedTuple):
    """What `DeliveredAndCounted` remembers, by topic id, partition and offset.

    Attributes:
        counts: how often a member received a record.
        ended: records that a member has accepted or rejected.
        unanswered: fetches without a response, which may have had each record.
    """

    counts: tuple[tuple[tuple[str, int, int], int], ...] = ()
    ended: tuple[tuple[str, int, int], ...] = ()
    unanswered: int = 0


class DeliveredAndCounted(Invariant):
    """A share group delivers a record until it is accepted or rejected, at most `most` times.

    A record below the group's start offset was accepted, rejected, deleted, or delivered `most`
    times.

    `most`: its limit of deliveries (`group.share.delivery.count.limit`).
    """

    source = "KIP-932"
    start = _Deliveries()

    def __init__(self, group: str, most: int) -> None:
        self._group = group
        self._most = most

    def sent(self, ghost: _Deliveries, _client: str, send: Send) -> _Deliveries:
        """Note accepted and rejected records."""
        if send.api not in ("SHARE_FETCH", "SHARE_ACKNOWLEDGE"):
            return ghost
        ended = {
            (topic["topicId"], partition["partitionIndex"], offset)
            for topic in send.body["topics"]
            for partition in topic["partitions"]
            for batch in partition["acknowledgementBatches"]
            for offset, kind in _acknowledged(batch)
            if kind in _ENDS
        }
        return ghost._replace(ended=tuple(sorted({*ghost.ended, *ended}))) if ended else ghost

    def received(self, ghost: _Deliveries, _client: str, send: Send, response: Any) -> _Deliveries:
        if send.api != "SHARE_FETCH":
            return ghost
        if response is None:
            return ghost._replace(unanswered=ghost.unanswered + 1)
        counts = Counter(dict(ghost.counts))
        for topic in response.responses:
            for partition in topic.partitions:
                for each in partition.acquired_records:
                    for offset in range(each.first_offset, each.last_offset + 1):
                        counts[topic.topic_id, partition.partition_index, offset] += 1
        return ghost._replace(counts=tuple(sorted(counts.items())))

    def check(self, ghost: _Deliveries, view: View) -> str | None:
        """Compare the counts with the limit, and with the start offset of the group."""
        counts = dict(ghost.counts)
        for (_, partition, offset), count in ghost.counts:
            if count > self._most:
                return f"record {offset} of partition {partition} was delivered {count} times"
        for topic, partition in view.places():
            topic_id, start = view.share_start(self._group, topic, partition)
            log = view.log(view.serving_leader(topic, partition), topic, partition)
            for offset in range(log.log_start_offset if log is not None else start, start):
                where = topic_id, partition, offset
                count = counts.get(where, 0)
                if where not in ghost.ended and count + ghost.unanswered < self._most:
                    return (
                        f"{self._group} does not deliver record {offset} of {topic}-{partition}"
                        f" again: it was delivered {count} times, and not accepted"
                    )
        return None


_ENDS = (share_partition.ACCEPT, share_partition.REJECT)
"""Acknowledgements that end a record: accept and reject."""


def _acknowledged(batch: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Offsets of an acknowledgement, and how each ends; one type stands for all offsets."""
    first, kinds = batch["firstOffset"], batch["acknowledgeTypes"]
    for offset in range(first, batch["lastOffset"] + 1):
        yield offset, kinds[offset - first] if len(kinds) > 1 else kinds[0]


_Record = tuple[str, int, int]
"""A topic id, a partition and an offset."""


class _Held(NamedTuple):
    """What `HeldByOne` remembers: records by their member, ended ones, and a violation."""

    held: tuple[tuple[_Record, str], ...] = ()
    ended: tuple[_Record, ...] = ()
    broken: str = ""


class HeldByOne(Invariant):
    """A share group delivers a record to one member at a time, and not after it has ended.

    A record has ended if its acceptance or rejection was acknowledged. For models without the fault
    `wait`: a member does not know that its lock has expired.
    """

    source = "KIP-932"
    start = _Held()

    def received(self, ghost: _Held, client: str, send: Send, response: Any) -> _Held:
        """Note acquired and acknowledged records."""
        if send.api != "SHARE_FETCH":
            return ghost
        held, ended = dict(ghost.held), set(ghost.ended)
        if response is None or send.body["shareSessionEpoch"] == 0:
            held = {record: member for record, member in held.items() if member != client}
        if response is None:
            return ghost._replace(held=tuple(sorted(held.items())))
        found = {
            (topic.topic_id, each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        for topic in send.body["topics"]:
            for partition in topic["partitions"]:
                place = topic["topicId"], partition["partitionIndex"]
                is_done = place in found and not found[place].acknowledge_error_code
                for batch in partition["acknowledgementBatches"]:
                    for offset, kind in _acknowledged(batch):
                        held.pop((*place, offset), None)
                        if is_done and kind in _ENDS:
                            ended.add((*place, offset))
        broken = ghost.broken
        for place, each in found.items():
            for acquired in each.acquired_records:
                for offset in range(acquired.first_offset, acquired.last_offset + 1):
                    record = *place, offset
                    other = held.setdefault(record, client)
                    if other != client:
                        broken = f"record {offset} is delivered to {other} and {client}"
                    if record in ended:
                        broken = f"record {offset} is delivered to {client} after it has ended"
        return _Held(tuple(sorted(held.items())), tuple(sorted(ended)), broken)

    def check(self, ghost: _Held, _view: View) -> str | None:
        return ghost.broken or None


_Offsets = tuple[tuple[tuple[str, Place], int], ...]


class _Sessions(NamedTuple):
    """What `SessionsHideNothing` remembers.

    Attributes:
        ends: the end of the acknowledged records of each partition.
        positions: of each client in each partition, as its session has them.
        wanted: records that existed when a client sent its request in flight.
        hidden: a sentence about a hidden record.
    """

    ends: tuple[tuple[Place, int], ...] = ()
    positions: _Offsets = ()
    wanted: _Offsets = ()
    hidden: str = ""


class SessionsHideNothing(Invariant):
    """A response to a fetch has records of each partition that had some when it was sent.

    This holds for partitions that the request does not name, too, because the session has them. For
    models with records that fit into one response, acks=all, and readers of uncommitted records.
    """

    source = "KIP-227; `FetchSession`"
    start = _Sessions()

    def sent(self, ghost: _Sessions, client: str, send: Send) -> _Sessions:
        """Note the positions, and the records that the response must have."""
        if send.api != "FETCH":
            return ghost
        positions, ends = dict(ghost.positions), dict(ghost.ends)
        if send.body.get("sessionEpoch", -1) <= 0:
            positions = {key: at for key, at in positions.items() if key[0] != client}
        for topic in send.body["topics"]:
            for each in topic["partitions"]:
                key = client, (topic["topic"], each["partition"])
                positions[key] = each["fetchOffset"]
        wanted = [
            (key, at)
            for key, at in positions.items()
            if key[0] == client and at < ends.get(key[1], 0)
        ]
        return ghost._replace(
            positions=tuple(sorted(positions.items())),
            wanted=tuple(sorted([*_of_others(ghost.wanted, client), *wanted])),
        )

    def received(self, ghost: _Sessions, client: str, send: Send, response: Any) -> _Sessions:
        """Note acknowledged records; compare a response with the wanted ones."""
        if send.api == "PRODUCE" and response is not None:
            ends = dict(ghost.ends)
            for topic in response.responses:
                for each in topic.partition_responses:
                    place = topic.name, each.index
                    if each.error_code == Error.NONE:
                        ends[place] = max(ends.get(place, 0), each.base_offset + 1)
            return ghost._replace(ends=tuple(sorted(ends.items())))
        if send.api != "FETCH":
            return ghost
        wanted = [each for each in ghost.wanted if each[0][0] == client]
        ghost = ghost._replace(wanted=_of_others(ghost.wanted, client))
        if response is None or response.error_code != Error.NONE:
            return ghost
        shown = {
            (topic.topic, each.partition_index)
            for topic in response.responses
            for each in topic.partitions
            if each.batches or each.error_code != Error.NONE
        }
        for (_, place), at in wanted:
            if place not in shown:
                hidden = f"{client} does not receive record {at} of {place[0]}-{place[1]}"
                return ghost._replace(hidden=f"{hidden}, which was acknowledged before the fetch")
        return ghost

    def check(self, ghost: _Sessions, _view: View) -> str | None:
        return ghost.hidden or None


def _of_others(wanted: _Offsets, client: str) -> _Offsets:
    return tuple(each for each in wanted if each[0][0] != client)


class CellHolds(Invariant):
    """The invariants of the state machine itself, while no message is under way."""

    source = "the `check.py` of each room in state/"

    def check(self, _ghost: Any, view: View) -> str | None:
        """Return a violation of the step that led to the state."""
        return next(iter(view.state.broken), None)
