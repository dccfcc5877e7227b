"""A transactional producer over the network that loses, repeats, delays and reorders.

The application begins a transaction with its first record, and commits or aborts it by the
schedule. It aborts a transaction that can only be aborted. Its results are compared with the
records read by read_committed consumers, and with a group's offset.

    net = TransactionalNetwork(ProducerConfig(transactional_id="t"), level=2)
    net.play([(Step.SEND, 0), (Step.COMMIT, 0), (Step.CUT, 1), (Step.LATE, 0)])
    net.settle()
    assert net.violations() == []
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.client_loop import RESPONSES, SUPPORTED_VERSIONS
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.sender import SenderRequest
from brokertwin.clients.transaction_rules import FEATURE, NEWEST, rules_of
from brokertwin.clients.transactions import ProducerTransactions, TransactionManagerState
from brokertwin.protocol.bodies import render
from tests.support.bench_network import records_of
from tests.support.network import (
    BROKERS,
    INIT,
    PARTITIONS,
    PRODUCE,
    TOPIC,
    Network,
    Response,
    Sent,
    Step,
    Wire,
)

State = TransactionManagerState
GROUP = "billing"
TICK_MS = 10
FENCED_AFTER_MS = 30_000
"""After its time-out, and an interval of the coordinator's checks, nothing is open any more."""


class Ended(NamedTuple):
    """A finished transaction; `is_commit` is None if its result is unknown."""

    is_commit: bool | None
    records: list[int]
    offset: int | None


class UnderWay(NamedTuple):
    request_id: int
    node: int
    sent: int


class TransactionalNetwork(Network):
    """The same with coordinators.

    `level`: the finalized `transaction.version`. `is_late`: whether requests to coordinators can
        arrive late from closed connections; versions before KIP-890 do not tolerate it. `is_hasty`:
    whether transactions end without waiting for their records, which is wrong.
    """

    def __init__(
        self,
        config: ProducerConfig,
        level: int,
        *,
        is_late: bool = True,
        is_hasty: bool = False,
        broker: dict[str, Any] | None = None,
        **network: Any,
    ) -> None:
        self.level = level
        self.is_late = is_late
        self.is_hasty = is_hasty
        self.ended: list[Ended] = []
        self._pending: list[int] = []
        self._offset: int | None = None
        self._last_offset = 0
        self._is_commit: bool | None = None
        self._under_way: UnderWay | None = None
        self._apis: dict[int, tuple[str, int]] = {}
        settings = {
            "brokertwin_transaction_version": level,
            "transaction_state_log_num_partitions": 1,
            "offsets_topic_num_partitions": 1,
            **(broker or {}),
        }
        super().__init__(config, broker=settings, **network)
        self.transactions.init()
        self._run_dry()

    @property
    def transactions(self) -> ProducerTransactions:
        transactions = self.producer.transactions
        assert transactions is not None, "a transactional producer"
        return transactions

    # The application

    def _steps(self) -> dict[Step, Callable[[int], object]]:
        return {
            **super()._steps(),
            Step.SEND: self._send_one,
            Step.COMMIT: lambda _: self._end(is_commit=True),
            Step.ABORT: lambda _: self._end(is_commit=False),
            Step.OFFSETS: lambda _: self._commit_offset(),
            Step.LEVEL: lambda _: self._change_level(),
        }

    def _begin(self) -> bool:
        if self.transactions.state is State.READY:
            self.transactions.begin()
        return self.transactions.state is State.IN_TRANSACTION

    def _send_one(self, number: int) -> None:
        if self._begin():
            self._pending.append(self.send(number))

    def _commit_offset(self) -> None:
        if self._begin():
            self._last_offset += 1
            self._offset = self._last_offset
            offsets = {TopicPartition(TOPIC, 0): self._offset}
            self.transactions.send_offsets(GROUP, offsets, Generation())

    def _end(self, *, is_commit: bool) -> None:
        state = self.transactions.state
        if state is State.ABORTABLE_ERROR or (state is State.IN_TRANSACTION and not is_commit):
            self.transactions.abort()
            self._is_commit = False
        elif state is State.IN_TRANSACTION:
            self.transactions.commit()
            self._is_commit = True

    def _change_level(self) -> None:
        self.level = 3 - self.level
        kind = 1 if self.level == 2 else 2
        update = {"feature": FEATURE, "maxVersionLevel": self.level, "upgradeType": kind}
        self.bench.request("UPDATE_FEATURES", 2, {"featureUpdates": [update]})
        self.injected["levels"] += 1

    def _note(self) -> None:
        """Callbacks of the application about its transaction."""
        state = self.transactions.state
        if state is State.ABORTABLE_ERROR:
            self._is_commit = None
        is_over = state is State.FATAL_ERROR
        if (state is State.READY and self._is_commit is not None) or is_over:
            if self._pending or self._offset is not None:
                is_commit = self._is_commit if not is_over else (None if self._is_commit else False)
                self.ended.append(Ended(is_commit, self._pending, self._offset))
                self.injected["commits" if is_commit else "aborts"] += 1
            self._pending, self._offset, self._is_commit = [], None, None

    # The coordinators' requests

    def _poll(self) -> None:
        self.transactions.offer(rules_of({FEATURE: self.level}))
        if self._under_way is not None:
            age = self.now - self._under_way.sent
            if age >= self.producer.config.request_timeout_ms:
                node = self._under_way.node
                self._close(node)
                self.producer.disconnected(self.now, node)
        super()._poll()
        self._call_coordinator()
        self._note()

    def _call_coordinator(self) -> None:
        is_flushed = self.producer.is_idle or self.is_hasty
        request = self.transactions.next_request(self.now, is_flushed=is_flushed)
        if request is None:
            return
        _, allowed = self.transactions.rules.versions.get(request.api, (0, NEWEST))
        version = min(SUPPORTED_VERSIONS[request.api][1], allowed)
        node = request.to.id if request.to is not None else BROKERS[0]
        request_id = self.producer._requests.next_id()
        self._apis[request_id] = request.api, version
        self._under_way = UnderWay(request_id, node, self.now)
        outgoing = SenderRequest(request_id, node, request.body, [])  # type: ignore[arg-type]
        sent = Sent(outgoing, render(request.body, version), self.now)
        self._wires[node].requests.append(sent)

    def _api_of(self, outgoing: SenderRequest) -> tuple[str, int]:
        if outgoing.request_id in self._apis:
            return self._apis[outgoing.request_id]
        _, newest = self.transactions.rules.versions[PRODUCE]
        api = PRODUCE, min(SUPPORTED_VERSIONS[PRODUCE][1], newest)
        return self._apis.setdefault(outgoing.request_id, api)

    def _response_of(self, wire: Wire, request: Sent) -> dict[str, Any]:
        """Return the broker's response, after requests to others, which can take some time."""
        api, version = self._api_of(request.outgoing)
        event_id = self.bench.send(api, version, request.body, broker=wire.node)
        while event_id not in self.bench.responses:
            self.bench.tick(TICK_MS)
        response: dict[str, Any] = self.bench.responses[event_id]["response"]
        return response

    def _may_repeat(self, request: Sent) -> bool:
        """Return whether a request may be repeated: a second InitProducerId fences the producer."""
        return self._api_of(request.outgoing)[0] != INIT

    def _close(self, node: int) -> None:
        if not self.is_late:
            wire = self._wires[node]
            kept = [each for each in wire.requests if self._api_of(each.outgoing)[0] == PRODUCE]
            wire.requests.clear()
            wire.requests.extend(kept)
        super()._close(node)
        if self._under_way is not None and self._under_way.node == node:
            self._under_way = None
            self.transactions.failed(self.now)

    def _take(self, response: Response) -> None:
        api, _ = self._api_of(response.outgoing)
        if api == PRODUCE:
            super()._take(response)
        elif (
            self._under_way is not None
            and self._under_way.request_id == response.outgoing.request_id
        ):
            self._under_way = None
            self.transactions.on_response(self.now, msgspec.convert(response.body, RESPONSES[api]))

    # The end

    def settle(self) -> None:
        """Run without losses: end open transactions and deliver late requests.

        Then one more transaction writes a record to each partition, which must arrive unless the
        producer is fenced. Before KIP-890 the transaction is aborted and repeated if the leader has
        taken a late batch for its first one (45 OUT_OF_ORDER_SEQUENCE_NUMBER).
        """
        self.producer.flush()
        self._end_all()
        while self._closed:
            self._late(0)
        for _ in range(2):
            for partition in range(PARTITIONS):
                self._send_one(partition)
            last = list(self._pending)
            self._end_all()
            if self.level == 2 or not last or self.ended[-1].is_commit:
                break
        self.reported_twice += [record for record in last if record not in self.acked]
        if self.transactions.state is State.FATAL_ERROR:
            self.injected["fenced"] += 1
            wait = self.producer.config.transaction_timeout_ms + FENCED_AFTER_MS
            self.bench.tick(wait)
        self.bench.tick(FENCED_AFTER_MS)

    def _end_all(self) -> None:
        for _ in range(10):
            self._run_dry()
            if self.transactions.state in (State.READY, State.FATAL_ERROR):
                return
            self._end(is_commit=True)
            self._poll()
        raise AssertionError("the transaction does not come to an end")

    def _is_done(self) -> bool:
        match self.transactions.state:
            case State.READY | State.IN_TRANSACTION:
                return self.producer.is_idle
            case State.ABORTABLE_ERROR | State.FATAL_ERROR:
                return True
        return False

    def _may_fail(self) -> bool:
        return True

    def violations(self) -> list[str]:
        """Return violations; a transaction with an unknown result has all or no records."""
        certain = [each for each in self.ended if each.is_commit]
        doubtful = [each for each in self.ended if each.is_commit is None]
        found = [self._violations_if(certain), self._violations_if([*certain, *doubtful])]
        return [*super().violations(), *min(found, key=len)]

    def _violations_if(self, committed: list[Ended]) -> list[str]:
        result = []
        for partition in range(PARTITIONS):
            expected = [
                record
                for each in committed
                for record in each.records
                if self.sent[record].partition == partition
            ]
            visible, is_open = self._read(partition)
            if visible != expected:
                result.append(f"{partition} shows {visible}, and {expected} were committed")
            if is_open:
                result.append(f"a transaction is open in {partition} for ever")
        offsets = [each.offset for each in committed if each.offset is not None]
        offset = self._group_offset()
        if offset != max(offsets, default=-1):
            result.append(f"the group is at {offset}, and {offsets} were committed")
        return result

    def _read(self, partition: int) -> tuple[list[int], bool]:
        """What readers of committed records see, and whether something keeps them from the end."""
        part = {"partition": partition, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
        body = {
            "maxBytes": 1 << 20,
            "isolationLevel": 1,
            "topics": [{"topic": TOPIC, "partitions": [part]}],
        }
        for broker in BROKERS:
            response = self.bench.request("FETCH", 11, body, broker=broker)
            result = response["responses"][0]["partitions"][0]
            if result["errorCode"] == 0:
                items = records_of(result, {}).items if result["batches"] else []
                is_open = result["lastStableOffset"] < result["highWatermark"]
                return [int(name) for _, name in items], is_open
        raise AssertionError(f"nobody leads {partition}")

    def _group_offset(self) -> int:
        group = {"groupId": GROUP, "topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
        body = {"groups": [group], "requireStable": True}
        for broker in BROKERS:
            response = self.bench.request("OFFSET_FETCH", 9, body, broker=broker)
            (result,) = response["groups"]
            if result["errorCode"] == 0 and result["topics"]:
                return int(result["topics"][0]["partitions"][0]["committedOffset"])
        return -1
