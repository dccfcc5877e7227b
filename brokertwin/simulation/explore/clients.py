"""Clients for models: producers, and members of classic groups."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Send
from brokertwin.simulation.explore.machine import response_code

RETRIABLE = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which a client sends the same request again."""

BEFORE_KIP_890, KIP_890 = 1, 2


class ProducerState(NamedTuple):
    """State of a producer.

    Attributes:
        at: the next request: init, add, produce, end; done, or failed.
        number: the number of the transaction, or of the record without transactions.
        partition: the next partition of the transaction.
        sequences: the next sequence of each partition.
    """

    at: str = "init"
    number: int = 0
    partition: int = 0
    producer_id: int = -1
    epoch: int = -1
    sequences: tuple[int, ...] = ()


class TransactionalProducer(Client):
    """A producer that ends transactions, each with one record for each partition.

    It repeats a request without a response until one comes, like the Java client.

    Args:
        ends: how it ends each transaction: `commit` or `abort`.
        version: `transaction.version` of the client: 2 uses the protocol of KIP-890.
        initialises: after an EndTxn without a response, it initialises again instead.
        gives_up: after a Produce without a response it aborts, like a client after
            delivery.timeout.ms.
        late: the APIs whose requests may be late; empty for all.
    """

    def __init__(
        self,
        name: str,
        transactional_id: str,
        ends: Sequence[str],
        *,
        version: int,
        topic: str = "orders",
        partitions: Sequence[int] = (0,),
        initialises: bool = False,
        gives_up: bool = False,
        late: Sequence[str] = (),
        timeout_ms: int = requests.TRANSACTION_MS,
    ) -> None:
        self.name = name
        self.start = ProducerState(sequences=(0,) * len(partitions))
        self._late = frozenset(late)
        self._id = transactional_id
        self._ends = tuple(ends)
        self._is_new = version >= KIP_890
        self._topic, self._partitions = topic, tuple(partitions)
        self._initialises = initialises
        self._gives_up = gives_up
        self._timeout_ms = timeout_ms

    def sends(self, state: ProducerState) -> Iterable[Send]:
        """Return the next request."""
        for send in self._sends(state):
            is_timely = bool(self._late) and send.api not in self._late
            yield msgspec.structs.replace(send, may_be_late=False) if is_timely else send

    def _sends(self, state: ProducerState) -> list[Send]:
        held = state.producer_id, state.epoch
        if state.at == "init":
            version = 5 if self._is_new else 4
            return [
                requests.init_producer_id(self._id, version=version, timeout_ms=self._timeout_ms)
            ]
        if state.at == "add":
            return [requests.add_partitions(self._id, *held, self._topic, *self._partitions)]
        if state.at == "produce":
            return [
                requests.produce(
                    self._topic,
                    self._partitions[state.partition],
                    f"{self.name}{state.number}{'abcdef'[state.partition]}",
                    producer_id=state.producer_id,
                    epoch=state.epoch,
                    sequence=state.sequences[state.partition],
                    transactional_id=self._id,
                    version=12 if self._is_new else 9,
                )
            ]
        if state.at in ("end", "abort"):
            committed = state.at == "end" and self._ends[state.number] == "commit"
            version = 5 if self._is_new else 3
            return [requests.end_txn(self._id, *held, committed, version=version)]
        return []

    def is_done(self, state: ProducerState) -> bool:
        return state.at == "done"

    def restarts(self, state: ProducerState) -> ProducerState:
        """Go on with the next transaction, whose records have other names."""
        start: ProducerState = self.start
        return start._replace(number=min(state.number + 1, len(self._ends)))

    def receives(self, state: ProducerState, send: Send, response: Any) -> ProducerState:
        """Continue, repeat or fail."""
        if response is None:
            if self._initialises and send.api == "END_TXN":
                return self._next(state._replace(at="init"))
            if self._gives_up and send.api == "PRODUCE":
                return state._replace(at="abort", partition=0)
            return state
        code = response_code(response)
        if code in RETRIABLE:
            return state
        if code != Error.NONE:
            return state._replace(at="failed")
        if send.api == "INIT_PRODUCER_ID":
            return ProducerState(
                self._begin if state.number < len(self._ends) else "done",
                state.number,
                0,
                response.producer_id,
                response.producer_epoch,
                (0,) * len(self._partitions),
            )
        if send.api == "ADD_PARTITIONS_TO_TXN":
            return state._replace(at="produce")
        if send.api == "PRODUCE":
            at = state.partition
            sequences = (*state.sequences[:at], state.sequences[at] + 1, *state.sequences[at + 1 :])
            is_last = at + 1 == len(self._partitions)
            where = ("end", 0) if is_last else ("produce", at + 1)
            return state._replace(at=where[0], partition=where[1], sequences=sequences)
        if self._is_new:
            sequences = (0,) * len(self._partitions)
            ids = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
            state = state._replace(sequences=sequences, **ids)
        return self._next(state._replace(at=self._begin))

    @property
    def _begin(self) -> str:
        return "produce" if self._is_new else "add"

    def _next(self, state: ProducerState) -> ProducerState:
        """Go on with the next transaction, if there is one."""
        number = state.number + 1
        if number == len(self._ends):
            return state._replace(at="done" if state.at != "init" else "init", number=number)
        return state._replace(number=number)


class IdempotentProducer(Client):
    """A producer without transactions that writes records one by one and repeats unanswered ones.

    Args:
        records: how many it writes.
        resets: after 59 UNKNOWN_PRODUCER_ID, it continues with sequence 0 and the same epoch, like
            clients before KIP-360.
        brokers: the brokers that it may send each request to.
    """

    def __init__(
        self,
        name: str,
        records: int,
        *,
        topic: str = "orders",
        resets: bool = False,
        brokers: Sequence[int] = (1,),
        acks: int = -1,
    ) -> None:
        self.name = name
        self.start = ProducerState(sequences=(0,))
        self._records = records
        self._topic = topic
        self._resets = resets
        self._brokers = tuple(brokers)
        self._acks = acks

    def sends(self, state: ProducerState) -> Iterable[Send]:
        """Return the next request, to any of the brokers."""
        if state.at == "init":
            return [requests.init_producer_id(broker=broker) for broker in self._brokers]
        if state.at != "produce":
            return []
        return [
            requests.produce(
                self._topic,
                0,
                f"{self.name}{state.number}",
                producer_id=state.producer_id,
                epoch=state.epoch,
                sequence=state.sequences[0],
                broker=broker,
                acks=self._acks,
            )
            for broker in self._brokers
        ]

    def is_done(self, state: ProducerState) -> bool:
        return state.at == "done"

    def restarts(self, state: ProducerState) -> ProducerState:
        """Go on with the next record: a new producer id does not make the same one idempotent."""
        start: ProducerState = self.start
        return start._replace(number=min(state.number + 1, self._records))

    def receives(self, state: ProducerState, send: Send, response: Any) -> ProducerState:
        """Continue, repeat, reset or fail."""
        if response is None:
            return state
        code = response_code(response)
        if code in RETRIABLE:
            return state
        if code == Error.UNKNOWN_PRODUCER_ID and self._resets and state.sequences != (0,):
            return state._replace(sequences=(0,))
        if code != Error.NONE:
            return state._replace(at="failed")
        if send.api == "INIT_PRODUCER_ID":
            ids = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
            return self._at(state.number, state._replace(**ids))
        sequences = (state.sequences[0] + 1,)
        return self._at(state.number + 1, state._replace(sequences=sequences))

    def _at(self, number: int, state: ProducerState) -> ProducerState:
        at = "produce" if number < self._records else "done"
        return state._replace(at=at, number=number)


class WorkerState(NamedTuple):
    """State of a group's worker.

    Attributes:
        at: the next request: init, join, sync, read, write, offsets, end, commit.
        owned: its partitions of the input.
        offset: position in the input.
        members: of the group, at the leader between JoinGroup and SyncGroup.
        joined: how often it has joined as a new member.
    """

    at: str
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    offset: int = 0
    members: tuple[str, ...] = ()
    joined: int = 0
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0


class GroupWorker(Client):
    """A member of a classic group that reads records and commits its position.

    The group's leader gives partition p to the p-th member. A worker processes record n of its
    first partition, then commits n + 1. It may send a heartbeat, or be slow, at any time.

    Args:
        records: records of each partition of the input `input`.
        partitions: partitions of `input`.
        transactional: `kip-447` sends offsets with the generation, in a transaction of its own
            transactional.id; `before` sends them without; "" commits without transactions.
        instance: `group.instance.id`.
    """

    def __init__(
        self,
        name: str,
        *,
        group: str = "work",
        records: int = 2,
        partitions: int = 1,
        transactional: str = "",
        instance: str | None = None,
        session_ms: int = 10_000,
    ) -> None:
        self.name = name
        self._group = group
        self._records = records
        self._partitions = partitions
        self._transactional = transactional
        self._instance = instance
        self._session_ms = session_ms
        self.start = WorkerState("init" if transactional else "join")

    def sends(self, state: WorkerState) -> Iterable[Send]:
        """Return the next request, and a heartbeat."""
        found = [self._next(state)]
        if state.at in ("read", "write", "offsets", "end", "commit", "idle"):
            found.append(self._heartbeat(state))
        return [each for each in found if each is not None]

    def _next(self, state: WorkerState) -> Send | None:
        transactional_id = f"tx-{self.name}"
        ids = state.producer_id, state.epoch
        if state.at == "init":
            return requests.init_producer_id(transactional_id)
        if state.at == "join":
            return self._join(state)
        if state.at == "sync":
            return self._sync(state)
        if state.at == "read":
            send = requests.offset_fetch(self._group, "input", state.owned[0])
            is_old = self._transactional == "before"
            body = {k: v for k, v in send.body.items() if not is_old or k != "requireStable"}
            return msgspec.structs.replace(send, body=body, version=6 if is_old else 7)
        if state.at == "add":
            return requests.add_partitions(transactional_id, *ids, "output", 0)
        if state.at == "add-offsets":
            return requests.add_offsets(transactional_id, *ids, self._group)
        if state.at == "write":
            return requests.produce(
                "output",
                0,
                f"r{state.offset}@{self.name}{state.sequence}",
                producer_id=state.producer_id,
                epoch=state.epoch,
                sequence=state.sequence,
                transactional_id=transactional_id,
            )
        if state.at == "offsets":
            is_old = self._transactional == "before"
            return requests.txn_offset_commit(
                transactional_id,
                *ids,
                self._group,
                "input",
                state.owned[0],
                state.offset + 1,
                version=2 if is_old else 3,
                generation=state.generation,
                member_id=state.member_id,
            )
        if state.at in ("end", "abort"):
            return requests.end_txn(transactional_id, *ids, state.at == "end")
        if state.at == "commit":
            return requests.offset_commit(
                self._group,
                "input",
                state.owned[0],
                state.offset + 1,
                generation=state.generation,
                member_id=state.member_id,
                version=7 if self._instance else 6,
                instance=self._instance,
            )
        return None

    def _join(self, state: WorkerState) -> Send:
        body: dict[str, Any] = {
            "groupId": self._group,
            "sessionTimeoutMs": self._session_ms,
            "rebalanceTimeoutMs": self._session_ms,
            "memberId": state.member_id,
            "protocolType": "workers",
            "protocols": [{"name": "p", "metadata": ""}],
        }
        if self._instance:
            body["groupInstanceId"] = self._instance
        nonce = f"{self.name}{state.joined}"
        version = 5 if self._instance else 3
        return Send(api="JOIN_GROUP", version=version, body=body, label="JoinGroup", nonce=nonce)

    def _sync(self, state: WorkerState) -> Send:
        assignments = [
            {"memberId": member, "assignment": _assignment(number, state.members, self._partitions)}
            for number, member in enumerate(state.members)
        ]
        body: dict[str, Any] = {
            "groupId": self._group,
            "generationId": state.generation,
            "memberId": state.member_id,
            "assignments": assignments,
        }
        if self._instance:
            body["groupInstanceId"] = self._instance
        version = 3 if self._instance else 2
        return Send(api="SYNC_GROUP", version=version, body=body, label="SyncGroup")

    def _heartbeat(self, state: WorkerState) -> Send:
        body: dict[str, Any] = {
            "groupId": self._group,
            "generationId": state.generation,
            "memberId": state.member_id,
        }
        if self._instance:
            body["groupInstanceId"] = self._instance
        version = 3 if self._instance else 2
        return Send(
            api="HEARTBEAT", version=version, body=body, label="Heartbeat", may_be_late=False
        )

    def is_done(self, state: WorkerState) -> bool:
        return state.at == "idle"

    def restarts(self, state: WorkerState) -> WorkerState:
        """Join as another member."""
        start: WorkerState = self.start
        return start._replace(joined=state.joined + 1)

    def receives(self, state: WorkerState, send: Send, response: Any) -> WorkerState:
        """Continue; join again after a rebalance; fail if fenced."""
        if response is None:
            is_new = send.api == "JOIN_GROUP" and not state.member_id  # a broker draws another id
            return state._replace(joined=state.joined + is_new)
        code = response_code(response)
        if code in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID):
            return self._lost(state)
        if code == Error.REBALANCE_IN_PROGRESS:
            return self._rejoins(state)
        if code in (*RETRIABLE, Error.UNSTABLE_OFFSET_COMMIT):
            return state
        if code != Error.NONE:
            return state._replace(at="failed")
        if send.api == "HEARTBEAT":
            return state
        if send.api == "INIT_PRODUCER_ID":
            ids = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
            return state._replace(at="join", sequence=0, **ids)
        if send.api == "JOIN_GROUP":
            members = tuple(sorted(each.member_id for each in response.members))
            return state._replace(
                at="sync",
                member_id=response.member_id,
                generation=response.generation_id,
                members=members,
            )
        if send.api == "SYNC_GROUP":
            owned = tuple(int(each.partition("-")[2]) for each in _text(response.assignment))
            return state._replace(at="read" if owned else "idle", owned=owned, members=())
        if send.api == "OFFSET_FETCH":
            offset = max(response.topics[0].partitions[0].committed_offset, 0)
            return self._work(state._replace(offset=offset))
        following = {
            "ADD_PARTITIONS_TO_TXN": "write",
            "PRODUCE": "add-offsets",
            "ADD_OFFSETS_TO_TXN": "offsets",
            "TXN_OFFSET_COMMIT": "end",
        }
        if send.api in following:
            sequence = state.sequence + (send.api == "PRODUCE")
            return state._replace(at=following[send.api], sequence=sequence)
        if state.at == "abort":
            return state._replace(at="join")
        return self._work(state._replace(offset=state.offset + 1))

    def _work(self, state: WorkerState) -> WorkerState:
        if state.offset >= self._records:
            return state._replace(at="idle")
        return state._replace(at="add" if self._transactional else "commit")

    def _rejoins(self, state: WorkerState) -> WorkerState:
        """Finish or abort the transaction, then join again."""
        if state.at in ("write", "add-offsets", "offsets", "end"):
            return state._replace(at="abort", owned=())
        return state._replace(at="join", owned=())

    def _lost(self, state: WorkerState) -> WorkerState:
        after = self._rejoins(state)
        return after._replace(member_id="", generation=-1, joined=state.joined + 1)


def _assignment(number: int, members: Sequence[str], partitions: int) -> str:
    """Return a member's partitions as text in base64."""
    own = [at for at in range(partitions) if at % len(members) == number]
    text = " ".join(f"input-{at}" for at in own)
    return base64.b64encode(text.encode()).decode()


def _text(assignment: Any) -> list[str]:
    raw = assignment if isinstance(assignment, bytes) else base64.b64decode(assignment or "")
    return raw.decode().split()
