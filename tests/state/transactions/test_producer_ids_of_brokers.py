"""Several brokers allocate blocks concurrently: no id is issued twice.

First in a cell with its own delivery, then with a network that loses, delays, repeats and reorders
requests and responses.
"""

from contextlib import AbstractContextManager
from types import ModuleType
from unittest.mock import patch

from hypothesis import given, target
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokertwin.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.state.apis import allocate_producer_ids, init_producer_id
from brokertwin.state.cell.apply import apply
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import CONTROLLER, Decision, Message, Request
from brokertwin.state.core.events import Choices, RequestHeader
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.state.eras import zookeeper_producer_ids
from brokertwin.state.transactions import producer_ids
from tests.support.machine import Bench

BROKERS = (1, 2, 3)
NAMES = [f"t{number}" for number in range(12)]


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(BROKERS), st.integers(1, 6), st.none() | st.sampled_from(NAMES)),
        max_size=40,
    ),
    st.booleans(),
)
def test_no_id_is_issued_twice_in_a_cell(
    size: int, draws: list[tuple[int, int, str | None]], is_written: bool
) -> None:
    """Neither from the controller's blocks nor from blocks in ZooKeeper."""
    bench = Bench(brokers=BROKERS, brokertwin_zk_producer_id_blocks=is_written)
    for name in NAMES:
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[name])
    holders: dict[int, str] = {}
    owner = zookeeper_producer_ids if is_written else producer_ids
    with patch.object(owner, "BLOCK_SIZE", size):
        for number, (broker, times, name) in enumerate(draws):
            body = {"transactionalId": name, "transactionTimeoutMs": 1000}
            for repeat in range(times):
                bench.now += 20
                response = bench.request("INIT_PRODUCER_ID", 4, body, broker=broker)
                if response["errorCode"] == 0:
                    holder = name or f"{number}/{repeat}"
                    assert holders.setdefault(response["producerId"], holder) == holder
    blocks = [e["record"] for e in bench.records() if "size" in e["record"]]
    starts = [block["first"] for block in blocks]
    assert starts == list(range(0, size * len(starts), size))
    target(float(len(holders)), label="ids given out")


class _Lossy(RuleBasedStateMachine):
    """Three brokers and a controller with an unreliable network."""

    size = 3
    owner: ModuleType = producer_ids
    broker_settings = BrokerSettings()

    def __init__(self) -> None:
        super().__init__()
        self.tables = CellTables()
        self.settings = CellSettings(
            name="c", cluster="c", brokers=list(BROKERS), broker_settings=self.broker_settings
        )
        self.now = 0
        self.requests: list[Message] = []
        self.replies: list[tuple[Message, AllocateProducerIdsResponse]] = []
        self.given: list[int] = []
        self.of: dict[int, list[int]] = {broker: [] for broker in BROKERS}

    @initialize(size=st.integers(1, 5))
    def choose_size(self, size: int) -> None:
        self.size = size

    def sized(self) -> AbstractContextManager[object]:
        return patch.object(self.owner, "BLOCK_SIZE", self.size)

    def broker(self, broker: int) -> Broker:
        return Broker(broker, self.tables, self.settings, self.now)

    def carry_out(self, machine: int, decision: Decision) -> None:
        for record in decision.records:
            apply(self.tables.of(machine), record)
        self.requests += decision.messages

    @rule(broker=st.sampled_from(BROKERS), times=st.integers(1, 5))
    def generate(self, broker: int, times: int) -> None:
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        header = RequestHeader(22, 5)
        for _ in range(times):
            request = Request(header, body, "User:a", "", "", Choices())
            decision = init_producer_id.handle(self.broker(broker), request)
            self.carry_out(broker, decision)
            if decision.condition is not None:
                self.requests += [each for each in decision.copies if isinstance(each, Message)]
                continue
            assert isinstance(decision.response, InitProducerIdResponse)
            if decision.response.error_code == 0:
                self.given.append(decision.response.producer_id)
                self.of[broker].append(decision.response.producer_id)

    @rule(data=st.data(), is_repeated=st.booleans())
    def controller_reads(self, data: st.DataObject, is_repeated: bool) -> None:
        if not self.requests:
            return
        message = self.requests[data.draw(st.integers(0, len(self.requests) - 1))]
        if not is_repeated:
            self.requests.remove(message)
        header = RequestHeader(allocate_producer_ids.API.key, 0)
        request = Request(header, message.body, "User:a", "", "", Choices(), is_from_machine=True)
        with self.sized():
            decision = allocate_producer_ids.handle(
                Controller(self.tables, self.settings, self.now), request
            )
        self.carry_out(CONTROLLER, decision)
        assert isinstance(decision.response, AllocateProducerIdsResponse)
        self.replies.append((message, decision.response))

    @rule(data=st.data(), is_repeated=st.booleans())
    def broker_reads(self, data: st.DataObject, is_repeated: bool) -> None:
        if not self.replies:
            return
        at = data.draw(st.integers(0, len(self.replies) - 1))
        message, response = self.replies[at] if is_repeated else self.replies.pop(at)
        with self.sized():
            reply = allocate_producer_ids.on_reply(self.broker(message.sender), message, response)
        self.carry_out(message.sender, reply)

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        for bag in (self.requests, self.replies):
            if bag and data.draw(st.booleans()):
                bag.pop(data.draw(st.integers(0, len(bag) - 1)))

    @rule(broker=st.sampled_from(BROKERS), milliseconds=st.integers(0, 100))
    def time_out(self, broker: int, milliseconds: int) -> None:
        self.now += milliseconds
        producer_ids.request_completed(self.tables.of(broker))

    @invariant()
    def no_id_twice(self) -> None:
        assert len(set(self.given)) == len(self.given)
        for drawn in self.of.values():
            assert drawn == sorted(drawn)


class _LossyWithZookeeper(_Lossy):
    """The same with conditional writes of a document: late, repeated and lost ones."""

    owner = zookeeper_producer_ids
    broker_settings = BrokerSettings(brokertwin_zk_producer_id_blocks=True)


TestLossy = _Lossy.TestCase
TestLossyWithZookeeper = _LossyWithZookeeper.TestCase
