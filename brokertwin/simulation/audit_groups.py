"""Audit of groups: committed offsets, and owners of partitions.

A group's offset of a partition is a register. A commit is in flight from its request to its
response; without a response, or with an ambiguous error, it stays in flight. A fetch may return any
commit that had started, unless another one started after its end and ended before the fetch.

A commit in a transaction counts by the time of its write. It is certain with the response to
EndTxn. While it is pending, a fetch of stable offsets returns an error.
"""

import base64
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from brokertwin.clients.consumer_protocol import decode_assignment
from brokertwin.protocol.errors import Error
from brokertwin.simulation.plan import PASSING

CONNECT = "connect"
"""Groups whose members are assigned tasks, not partitions (`audit_work.py`)."""

NEVER = 2**62
NONE_YET = -1
LEFT_OPEN = frozenset(
    {
        *(Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR, Error.REQUEST_TIMED_OUT),
        *(Error.UNKNOWN_SERVER_ERROR, Error.COORDINATOR_LOAD_IN_PROGRESS),
    }
)
"""After these errors a commit may have been stored."""

Place = tuple[str, str, int]
"""Group, topic and partition."""


class ClientCommit(msgspec.Struct, eq=False):
    """A commit, written from `start` to `end`; it took effect at `certain_at` or before.

    `transaction` is the id and epoch of its producer, if any.
    """

    offset: int
    start: int
    end: int = NEVER
    certain_at: int = NEVER
    transaction: tuple[str, int] | None = None


class GroupAudit:
    """Commits and owners.

    Args:
        violate: called with violations.
        session_ms: session timeout of consumer groups.
        transaction_ms: transaction timeout of all producers.
        has_rivals: True if another producer may have aborted the transactions of an id.
    """

    def __init__(
        self,
        violate: Callable[[str], None],
        session_ms: int,
        transaction_ms: int = 0,
        has_rivals: Callable[[str], bool] = bool,
    ) -> None:
        self._violate = violate
        self._transaction_ms = transaction_ms
        self._has_rivals = has_rivals
        self._session_ms = session_ms
        self._commits: dict[Place, list[ClientCommit]] = defaultdict(list)
        self._under_way: dict[str, dict[Place, ClientCommit]] = {}
        self._fetches: dict[str, int] = {}
        self._given: dict[tuple[str, int, str, int], str] = {}
        self._owners: dict[Place, str] = {}
        self._last_seen: dict[str, int] = {}
        self._left: set[str] = set()
        self._begun: dict[str, int] = {}
        self._open: dict[tuple[str, int], list[tuple[Place, ClientCommit]]] = defaultdict(list)
        self._ending: dict[str, tuple[tuple[str, int], bool]] = {}
        self._generations: dict[str, int] = {}
        self._late: set[str] = set()

    # Committed offsets

    def commits(self, request_id: str, now: int, body: Any) -> None:
        self._begin(request_id, now, body, body.generation_id_or_member_epoch)

    def _begin(
        self,
        request_id: str,
        now: int,
        body: Any,
        generation: int,
        transaction: tuple[str, int] | None = None,
    ) -> None:
        """Put the commits of a request in flight."""
        started = {}
        if 0 <= generation < self._generations.get(body.group_id, 0):
            self._late.add(request_id)
        for topic in body.topics:
            for each in topic.partitions:
                place = (body.group_id, topic.name, each.partition_index)
                commit = ClientCommit(each.committed_offset, now, transaction=transaction)
                started[place] = commit
                self._commits[place].append(commit)
                if transaction is not None:
                    self._open[transaction].append((place, commit))
        self._under_way[request_id] = started

    def committed(self, request_id: str, now: int, body: dict[str, Any]) -> None:
        """Process a response to OffsetCommit or TxnOffsetCommit."""
        found = self._under_way.pop(request_id)
        errors = {
            (topic["name"], each["partitionIndex"]): each["errorCode"]
            for topic in body["topics"]
            for each in topic["partitions"]
        }
        for place, commit in found.items():
            error = errors[place[1:]]
            if error == Error.NONE and request_id in self._late:
                self._violate(f"commit {request_id} of a former generation of {place} is stored")
            if error == Error.NONE:
                commit.end = now
                commit.certain_at = now if commit.transaction is None else NEVER
            elif error not in LEFT_OPEN:
                self._commits[place].remove(commit)

    def in_transaction(self, request_id: str, api: str, now: int, body: Any) -> None:
        """Note a request that may begin, continue or end a transaction."""
        name = getattr(body, "transactional_id", None) or getattr(
            body, "v3_and_below_transactional_id", None
        )
        if not name:
            return
        if api in ("END_TXN", "INIT_PRODUCER_ID"):
            self._begun.pop(name, None)
            if api == "END_TXN":
                self._ending[request_id] = ((name, body.producer_epoch), body.committed)
            return
        self._begun.setdefault(name, now)
        if api == "TXN_OFFSET_COMMIT":
            self._begin(request_id, now, body, body.generation_id, (name, body.producer_epoch))

    def ended(self, request_id: str, now: int, body: dict[str, Any]) -> None:
        """Process a response to EndTxn, which decides about the written commits."""
        transaction, is_committed = self._ending.pop(request_id)
        if body["errorCode"] != Error.NONE:
            return
        for place, commit in self._open.pop(transaction, ()):
            if commit.end == NEVER:
                continue
            if is_committed:
                commit.certain_at = now
            elif commit in self._commits[place]:
                self._commits[place].remove(commit)

    def fetches(self, request_id: str, now: int) -> None:
        self._fetches[request_id] = now

    def fetched(self, request_id: str, now: int, body: dict[str, Any]) -> None:
        start = self._fetches.pop(request_id)
        for group in body["groups"]:
            for topic in group["topics"]:
                for each in topic["partitions"]:
                    if not group["errorCode"] and not each["errorCode"]:
                        place = (group["groupId"], topic["name"], each["partitionIndex"])
                        self._hold_offset(place, each["committedOffset"], start, now)

    def _hold_offset(self, place: Place, offset: int, start: int, end: int) -> None:
        if place[1] == PASSING:
            return
        group, topic, partition = place
        text = f"{topic}-{partition} of group {group} is returned as {offset}"
        commits = self._commits[place]
        before = [each for each in commits if each.certain_at < start]
        last_begin = max((each.start for each in before), default=NONE_YET)
        may_be = {each.offset for each in commits if each.start <= end and each.end >= last_begin}
        if not before:
            may_be.add(NONE_YET)
        if offset not in may_be:
            self._violate(f"the offset of {text}, and can only be {sorted(may_be)}")
        if any(self._is_pending(each, start, end) for each in commits):
            self._violate(f"the offset of {text}, while a transaction with it is open")

    def _is_pending(self, commit: ClientCommit, start: int, end: int) -> bool:
        """True if a commit's transaction was certainly open during a fetch."""
        if commit.transaction is None or commit.end >= start or commit.certain_at != NEVER:
            return False
        name = commit.transaction[0]
        begun = self._begun.get(name, NEVER)
        is_current = begun <= commit.start and end < begun + self._transaction_ms
        return is_current and not self._has_rivals(name)

    # Owners

    def classic(self, body: Any, response: dict[str, Any]) -> None:
        if response["errorCode"] == Error.NONE and body.protocol_type != CONNECT:
            newest = self._generations.get(body.group_id, 0)
            self._generations[body.group_id] = max(newest, body.generation_id)
            for at in decode_assignment(base64.b64decode(response["assignment"])):
                self._give((body.group_id, body.generation_id, *at), body.member_id)

    def beats(self, body: Any) -> None:
        """Process the partitions a consumer group member reports; leaving releases all."""
        if body.member_epoch < 0:
            self._left.add(body.member_id)
        elif body.member_epoch == 0:
            self._left.discard(body.member_id)
        if body.topic_partitions is None and body.member_epoch > 0:
            return
        named = body.topic_partitions or []
        kept = {(each.topic_id, part) for each in named for part in each.partitions}
        for place, owner in list(self._owners.items()):
            if owner == body.member_id and place[1:] not in kept:
                del self._owners[place]

    def heartbeat_responded(self, sent: int, now: int, body: Any, response: dict[str, Any]) -> None:
        """Check the epoch and assignment of a consumer group member that has not left."""
        if response["errorCode"] != Error.NONE or body.member_id in self._left:
            return
        member = response["memberId"]
        self._last_seen[member] = max(self._last_seen.get(member, 0), sent)
        for each in (response["assignment"] or {}).get("topicPartitions", ()):
            for partition in each["partitions"]:
                at = (each["topicId"], partition)
                self._give((body.group_id, response["memberEpoch"], *at), member)
                self._own((body.group_id, *at), member, now)

    def _give(self, part: tuple[str, int, str, int], member: str) -> None:
        before = self._given.setdefault(part, member)
        if before != member:
            group, epoch, topic, partition = part
            both = f"{before} and {member}"
            self._violate(f"{topic}-{partition} is given to {both} in {epoch} of group {group}")

    def _own(self, place: Place, member: str, now: int) -> None:
        before = self._owners.get(place)
        self._owners[place] = member
        if before not in (None, member) and now < self._last_seen[before or ""] + self._session_ms:
            group, topic, partition = place
            self._violate(f"{topic}-{partition} of {group} is given to {member}; {before} has it")
