"""What an admin asks of a cluster, and whom: each key of a call goes to the broker that can answer.

Source: seed 001; `KafkaAdminClient`, `AdminApiDriver`, `PartitionLeaderStrategy`,
`CoordinatorStrategy`, `AllBrokersStrategy`, `StaticBrokerStrategy` in Kafka; KIP-699.

    call                                      a key is           who answers
    list_offsets, delete_records              a partition        its leader, by the metadata
    describe_groups, delete_groups            a group            its coordinator, by FindCoordinator
    describe_transactions                     a transactional id the same
    list_groups                               a broker           it: each of the cluster is asked

Keys of one broker go in one request. A key whose broker is not known is looked up; what a broker
says of a key decides what comes next:

    no error                                  done
    14 COORDINATOR_LOAD_IN_PROGRESS           the same broker is asked again, after a pause
    3, 5, 6, 9, 72 of a partition, 15, 16     the key is looked up anew, after a pause
    what else is retriable, of a partition    its leader is asked again, after a pause: 78
                                              OFFSET_NOT_AVAILABLE of one that has just begun
    no answer                                 the same; a broker that is a key itself is asked again
    any other error                           done, with that error
    the time is over                          7 REQUEST_TIMED_OUT for whatever is left
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.apis.find_coordinator import KeyType
from brokertwin.state.core.errors import RETRIABLE, Error
from brokertwin.state.core.schema import Body
from brokertwin.state.core.wire.generated.delete_groups import DeleteGroupsRequest
from brokertwin.state.core.wire.generated.delete_records import DeleteRecordsRequest
from brokertwin.state.core.wire.generated.describe_groups import DescribeGroupsRequest
from brokertwin.state.core.wire.generated.describe_transactions import DescribeTransactionsRequest
from brokertwin.state.core.wire.generated.find_coordinator import FindCoordinatorRequest
from brokertwin.state.core.wire.generated.list_groups import ListGroupsRequest
from brokertwin.state.core.wire.generated.list_offsets import ListOffsetsRequest

CLIENT = -1

Key = TopicPartition | str | int


class Scope(Enum):
    """How the broker is found that answers for a key."""

    LEADER = "the leader of the partition"
    GROUP = "the coordinator of the group"
    TRANSACTION = "the coordinator of the transactional id"
    EACH_BROKER = "the broker itself; all of the cluster are keys"


class Outcome(NamedTuple):
    """What became of a key: an error, or NONE and what the broker says of it."""

    error: Error
    value: Any = None


Outcomes = dict[Key, Outcome]


class Call(NamedTuple):
    """A call: of which API, of which keys, what is sent for some of them, and how answers read."""

    api: str
    scope: Scope
    keys: tuple[Key, ...]
    body: Callable[[Sequence[Any]], Body]
    read: Callable[[Any, Sequence[Key]], Outcomes]


class Asked(msgspec.Struct, frozen=True):
    """A request for a broker, or for any one where `node` is None."""

    node: int | None
    api: str
    body: Body
    keys: tuple[Key, ...]

    @property
    def is_lookup(self) -> bool:
        """Whether it asks for coordinators."""
        return self.api == "FIND_COORDINATOR"


_LOOKED_UP_AGAIN = {
    Scope.LEADER: frozenset(
        {
            *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE),
            *(Error.NOT_LEADER_OR_FOLLOWER, Error.REPLICA_NOT_AVAILABLE),
            Error.LISTENER_NOT_FOUND,
        }
    ),
    Scope.GROUP: frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR}),
    Scope.TRANSACTION: frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR}),
    Scope.EACH_BROKER: frozenset(),
}
_OF_COORDINATORS = frozenset(
    {Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.REQUEST_TIMED_OUT}
)
_ASKED_AGAIN = {
    Scope.LEADER: RETRIABLE,
    Scope.GROUP: _OF_COORDINATORS,
    Scope.TRANSACTION: _OF_COORDINATORS,
    Scope.EACH_BROKER: _OF_COORDINATORS,
}
_KEY_TYPES = {Scope.GROUP: KeyType.GROUP, Scope.TRANSACTION: KeyType.TRANSACTION}


class _Key(msgspec.Struct):
    """Where a key stands: its broker, None while not known; since when, and how often, it waits."""

    node: int | None = None
    failures: int = 0
    not_before: int = 0
    is_under_way: bool = False


class AdminCall:
    """One call as it goes on; times in ms.

    Attributes:
        results: what became of keys, those that are done.
        needs_metadata: whether what is known of the cluster is out of date.
    """

    def __init__(
        self, call: Call, deadline: int, draw: Callable[[], float], backoff: ExponentialBackoff
    ) -> None:
        self.call = call
        self.results: Outcomes = {}
        self.needs_metadata = False
        self._deadline = deadline
        self._draw = draw
        self._backoff = backoff
        self._has_begun = call.scope is not Scope.EACH_BROKER
        self._open = {key: _Key() for key in call.keys}

    @classmethod
    def of(cls, call: Call, deadline: int, draw: Callable[[], float]) -> "AdminCall":
        """With the pauses of Kafka's admin."""
        return cls(call, deadline, draw, retry_backoff())

    @property
    def is_done(self) -> bool:
        """Whether each key has its outcome."""
        return self._has_begun and not self._open

    def deadlines(self) -> list[int]:
        """When there is something to do, if nothing is answered before."""
        pauses = [each.not_before for each in self._open.values() if not each.is_under_way]
        return [] if self.is_done else [self._deadline, *pauses]

    def wants(self, now: int, snapshot: MetadataSnapshot) -> list[Asked]:
        """What is to be asked now."""
        if now >= self._deadline:
            self._end(Error.REQUEST_TIMED_OUT)
            return []
        if not self._has_begun and snapshot.nodes:
            self._has_begun = True
            self._open = {node: _Key(node) for node in sorted(snapshot.nodes)}
        due = {
            key: at
            for key, at in self._open.items()
            if not at.is_under_way and at.not_before <= now
        }
        if self.call.scope is Scope.LEADER:
            self._find_leaders(due, snapshot)
        asked = self._fulfilments(due)
        if self.call.scope in _KEY_TYPES:
            asked += self._lookups([key for key, at in due.items() if at.node is None])
        for each in asked:
            for key in each.keys:
                self._open[key].is_under_way = True
        return asked

    def _find_leaders(self, due: Mapping[Key, _Key], snapshot: MetadataSnapshot) -> None:
        for key, at in due.items():
            assert isinstance(key, TopicPartition), key
            known = snapshot.partitions.get(key)
            at.node = None if known is None else known.leader_id
            if at.node not in snapshot.nodes:
                at.node, self.needs_metadata = None, True

    def _fulfilments(self, due: Mapping[Key, _Key]) -> list[Asked]:
        by_node: dict[int, list[Key]] = {}
        for key, at in due.items():
            if at.node is not None:
                by_node.setdefault(at.node, []).append(key)
        call = self.call
        return [
            Asked(node, call.api, call.body(keys), tuple(keys)) for node, keys in by_node.items()
        ]

    def _lookups(self, keys: list[Key]) -> list[Asked]:
        if not keys:
            return []
        kind = _KEY_TYPES[self.call.scope]
        body = FindCoordinatorRequest(key_type=kind, coordinator_keys=[str(each) for each in keys])
        return [Asked(None, "FIND_COORDINATOR", body, tuple(keys))]

    def answered(self, now: int, asked: Asked, response: Any) -> None:
        """A broker has answered; what it says nothing of is asked again."""
        outcomes = (
            _coordinators(response) if asked.is_lookup else self.call.read(response, asked.keys)
        )
        for key in asked.keys:
            at = self._open.get(key)
            if at is None:
                continue
            at.is_under_way = False
            outcome = outcomes.get(key, Outcome(Error.COORDINATOR_NOT_AVAILABLE))
            if asked.is_lookup and outcome.error is Error.NONE:
                at.node, at.failures = outcome.value, 0
            else:
                self._take(now, key, at, outcome)

    def failed(self, now: int, asked: Asked) -> None:
        """No answer comes."""
        for key in asked.keys:
            at = self._open.get(key)
            if at is not None:
                at.is_under_way = False
                self._pause(now, at, forgets=self.call.scope is not Scope.EACH_BROKER)

    def _take(self, now: int, key: Key, at: _Key, outcome: Outcome) -> None:
        is_moved = outcome.error in _LOOKED_UP_AGAIN[self.call.scope]
        if is_moved or outcome.error in _ASKED_AGAIN[self.call.scope]:
            self._pause(now, at, forgets=is_moved)
        else:
            self.results[key] = outcome
            del self._open[key]

    def _pause(self, now: int, at: _Key, *, forgets: bool) -> None:
        at.not_before = now + self._backoff.backoff(at.failures, self._draw())
        at.failures += 1
        if forgets:
            at.node = None
            self.needs_metadata = self.needs_metadata or self.call.scope is Scope.LEADER

    def _end(self, error: Error) -> None:
        self.results |= {key: Outcome(error) for key in self._open}
        self._open, self._has_begun = {}, True


def _coordinators(response: Any) -> Outcomes:
    return {
        each.key: Outcome(Error(each.error_code), each.node_id) for each in response.coordinators
    }


# The calls


def _topics(
    keys: Iterable[TopicPartition], name: str, values: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    """Partitions by their topics, each with a value under a name."""
    found: dict[str, list[dict[str, int]]] = {}
    for key in keys:
        partition = {"partitionIndex": key.partition, name: values[key]}
        found.setdefault(key.topic, []).append(partition)
    return [{"name": topic, "partitions": partitions} for topic, partitions in found.items()]


def _of_partitions(response: Any, _keys: Sequence[Key]) -> Outcomes:
    return {
        TopicPartition(topic.name, each.partition_index): Outcome(Error(each.error_code), each)
        for topic in response.topics
        for each in topic.partitions
    }


def list_offsets(timestamps: Mapping[TopicPartition, int]) -> Call:
    """The offset of each partition for a time in ms, or -1 for its end, -2 for its beginning."""

    def body(keys: Sequence[TopicPartition]) -> Body:
        topics = _topics(keys, "timestamp", timestamps)
        return msgspec.convert({"replicaId": CLIENT, "topics": topics}, ListOffsetsRequest)

    return Call("LIST_OFFSETS", Scope.LEADER, tuple(timestamps), body, _of_partitions)


def delete_records(offsets: Mapping[TopicPartition, int], timeout_ms: int = 30_000) -> Call:
    """Deletes what lies below an offset of each partition; -1 for all."""

    def body(keys: Sequence[TopicPartition]) -> Body:
        topics = _topics(keys, "offset", offsets)
        return msgspec.convert({"topics": topics, "timeoutMs": timeout_ms}, DeleteRecordsRequest)

    return Call("DELETE_RECORDS", Scope.LEADER, tuple(offsets), body, _of_partitions)


def describe_groups(group_ids: Iterable[str]) -> Call:
    """Classic groups as their coordinators have them."""

    def read(response: Any, _keys: Sequence[Key]) -> Outcomes:
        return {each.group_id: Outcome(Error(each.error_code), each) for each in response.groups}

    def body(keys: Sequence[str]) -> Body:
        return DescribeGroupsRequest(groups=list(keys))

    return Call("DESCRIBE_GROUPS", Scope.GROUP, tuple(group_ids), body, read)


def delete_groups(group_ids: Iterable[str]) -> Call:
    """Deletes groups that have no member."""

    def read(response: Any, _keys: Sequence[Key]) -> Outcomes:
        return {each.group_id: Outcome(Error(each.error_code), each) for each in response.results}

    def body(keys: Sequence[str]) -> Body:
        return DeleteGroupsRequest(groups_names=list(keys))

    return Call("DELETE_GROUPS", Scope.GROUP, tuple(group_ids), body, read)


def describe_transactions(transactional_ids: Iterable[str]) -> Call:
    """Transactional ids as their coordinators have them."""

    def read(response: Any, _keys: Sequence[Key]) -> Outcomes:
        states = response.transaction_states
        return {each.transactional_id: Outcome(Error(each.error_code), each) for each in states}

    def body(keys: Sequence[str]) -> Body:
        return DescribeTransactionsRequest(transactional_ids=list(keys))

    ids = tuple(transactional_ids)
    return Call("DESCRIBE_TRANSACTIONS", Scope.TRANSACTION, ids, body, read)


def list_groups() -> Call:
    """The groups that each broker coordinates."""

    def read(response: Any, keys: Sequence[Key]) -> Outcomes:
        return {keys[0]: Outcome(Error(response.error_code), response.groups)}

    def body(_keys: Sequence[int]) -> Body:
        return ListGroupsRequest()

    return Call("LIST_GROUPS", Scope.EACH_BROKER, (), body, read)
