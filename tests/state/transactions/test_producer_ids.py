"""Producer ids: blocks from the controller, ids from a broker's block."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.state.apis import allocate_producer_ids, init_producer_id
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Decision, Request
from brokertwin.state.core.events import Choices, RequestHeader
from brokertwin.state.core.records import (
    ProducerIdBlockAllocated,
    ProducerIdBlockReceived,
    ProducerIdIssued,
)
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.transactions import producer_id_manager, producer_ids
from brokertwin.state.transactions.producer_ids import INT64_MAX
from tests.support.machine import Bench

NOBODY = {"transactionalId": None, "transactionTimeoutMs": -1}


class IdBroker:
    """A broker whose requests to the controller get explicit responses."""

    def __init__(self) -> None:
        self.tables = CellTables()
        self.settings = CellSettings(name="c", cluster="c")
        self.now = 1_000

    def generate(self) -> tuple[int, bool]:
        """Return error or producer id, and whether a block is requested."""
        header = RequestHeader(22, 5)
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        request = Request(header, body, "", "", "", Choices())
        decision = init_producer_id.handle(self.broker(), request)
        self.apply(decision)
        response = decision.response
        assert isinstance(response, InitProducerIdResponse)
        reply = -response.error_code if response.error_code else response.producer_id
        return reply, bool(decision.messages)

    def reply(self, **response: int) -> None:
        message = producer_id_manager.allocate_request(self.broker())
        received = AllocateProducerIdsResponse(**response)
        self.apply(allocate_producer_ids.on_reply(self.broker(), message, received))

    def broker(self) -> Broker:
        return Broker(1, self.tables, self.settings, self.now)

    def apply(self, decision: Decision) -> None:
        for record in decision.records:
            if isinstance(record, ProducerIdIssued):
                producer_ids.apply_issued(self.tables.of(1), record)
            elif isinstance(record, ProducerIdBlockReceived):
                producer_ids.apply_received(self.tables.of(1), record)


LOADING = -Error.COORDINATOR_LOAD_IN_PROGRESS


def allocated(next_producer_id: int, at: MachineTables | None = None) -> MachineTables:
    at = at or CellTables().of(CONTROLLER)
    record = ProducerIdBlockAllocated(1, next_producer_id)
    producer_ids.apply_allocated(at, record)
    return at


def test_example_3_controller_exhausts_ids_below_2_to_the_63() -> None:
    assert producer_ids.next_block(allocated(2**63 - 2)) is None
    last = producer_ids.next_block(allocated(INT64_MAX - 1000))
    assert last == producer_ids.Block(INT64_MAX - 1000, 1000)
    assert producer_ids.next_block(allocated(INT64_MAX - 999)) is None


def test_example_3_broker_gets_unknown_server_error() -> None:
    bench = Bench()
    allocated(2**63 - 2, bench.cell.tables.of(CONTROLLER))
    bench.cell.tables.commit()
    response = bench.request("ALLOCATE_PRODUCER_IDS", 0, {"brokerId": 1, "brokerEpoch": 0})
    assert response["errorCode"] == Error.UNKNOWN_SERVER_ERROR


def test_example_4_first_block_is_0_to_999_and_the_next_starts_at_1000() -> None:
    bench = Bench(brokers=(1, 2))
    send = {"brokerId": 1, "brokerEpoch": 0}
    first = bench.request("ALLOCATE_PRODUCER_IDS", 0, send)
    assert (first["errorCode"], first["producerIdStart"], first["producerIdLen"]) == (0, 0, 1000)
    assert bench.records()[-1]["record"]["nextProducerId"] == 1000
    second = bench.request("ALLOCATE_PRODUCER_IDS", 0, {**send, "brokerId": 2})
    assert second["producerIdStart"] == 1000


@pytest.mark.parametrize("send", [{"brokerId": 1, "brokerEpoch": 99}, {"brokerId": 7}])
def test_example_4_unknown_or_stale_broker_epoch_is_rejected(send: dict[str, Any]) -> None:
    response = Bench().request("ALLOCATE_PRODUCER_IDS", 0, {"brokerEpoch": 0, **send})
    assert response["errorCode"] == Error.STALE_BROKER_EPOCH


def test_example_4_replayed_record_only_increases_the_next_id() -> None:
    at = allocated(42)
    assert producer_ids.next_block(at) == producer_ids.Block(42, 1000)
    for backward in (40, 42):
        with pytest.raises(ValueError, match="next producer id is 42"):
            allocated(backward, at)
    assert producer_ids.next_block(allocated(50, at)) == producer_ids.Block(50, 1000)


def test_example_5_blocks_of_one_id() -> None:
    broker = IdBroker()
    assert broker.generate() == (LOADING, True)
    broker.reply(producer_id_start=0, producer_id_len=1)
    assert broker.generate() == (0, True), "issuing 0 reaches the 90 % mark"
    broker.reply(error_code=Error.UNKNOWN_SERVER_ERROR)
    assert broker.generate() == (LOADING, False), "no request within 50 ms of a failure"
    broker.now += 49
    assert broker.generate() == (LOADING, False)
    broker.now += 1
    assert broker.generate() == (LOADING, True)
    broker.reply(producer_id_start=1, producer_id_len=1)
    assert broker.generate() == (1, True)


def test_example_6_id_900_requests_the_next_block() -> None:
    broker = IdBroker()
    broker.generate()
    broker.reply(producer_id_start=0, producer_id_len=1000)
    requests = [number for number in range(1000) if broker.generate() == (number, True)]
    assert requests == [900]


def test_only_one_block_request_is_in_flight() -> None:
    broker = IdBroker()
    assert [broker.generate() for _ in range(3)] == [(LOADING, True)] + [(LOADING, False)] * 2
    producer_ids.request_completed(broker.tables.of(1))
    assert broker.generate() == (LOADING, True)


@pytest.mark.parametrize(
    "bad",
    [
        {"producer_id_start": 999, "producer_id_len": 1000},
        {"producer_id_start": -1, "producer_id_len": 10},
        {"producer_id_start": 1000, "producer_id_len": -1},
        {"producer_id_start": INT64_MAX, "producer_id_len": 1},
        {"error_code": Error.STALE_BROKER_EPOCH, "producer_id_start": 1000, "producer_id_len": 9},
    ],
)
def test_overlapping_or_invalid_block_is_rejected(bad: dict[str, int]) -> None:
    broker = IdBroker()
    broker.generate()
    broker.reply(producer_id_start=0, producer_id_len=1000)
    for _ in range(901):
        broker.generate()
    broker.reply(**bad)
    assert [broker.generate()[0] for _ in range(100)] == [*range(901, 1000), LOADING]


def test_new_broker_requests_a_block_and_then_issues_ids_from_0() -> None:
    bench = Bench()
    loading = bench.request("INIT_PRODUCER_ID", 4, NOBODY)
    assert loading == {"throttleTimeMs": 0, "errorCode": 14, "producerId": -1, "producerEpoch": -1}
    responses = [bench.request("INIT_PRODUCER_ID", 4, NOBODY) for _ in range(1200)]
    assert [response["producerId"] for response in responses] == list(range(1200))
    assert {(response["errorCode"], response["producerEpoch"]) for response in responses} == {
        (0, 0)
    }


def test_two_brokers_issue_ids_of_different_blocks() -> None:
    bench = Bench(brokers=(1, 2))
    for broker in (1, 2):
        bench.request("INIT_PRODUCER_ID", 4, NOBODY, broker=broker)
    given_out = [
        bench.request("INIT_PRODUCER_ID", 4, NOBODY, broker=broker)["producerId"]
        for broker in (1, 2, 1, 2)
    ]
    assert given_out == [0, 1000, 1, 1001]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producerId": 5}, 42),
        ({"producerEpoch": 3}, 42),
        ({"producerId": -2}, 42),
        ({"transactionalId": ""}, 42),
        ({"transactionalId": "", "producerId": 5, "producerEpoch": 3}, 42),
        ({"producerId": 777, "producerEpoch": 3}, 0),
    ],
)
def test_request_has_the_current_block(fields: dict[str, Any], error: int) -> None:
    bench = Bench()
    bench.request("INIT_PRODUCER_ID", 4, NOBODY)
    response = bench.request("INIT_PRODUCER_ID", 4, NOBODY | fields)
    assert response["errorCode"] == error
    assert response["producerId"] == (-1 if error else 0)


def test_recorded_id_replaces_the_next_id_and_is_not_issued_again() -> None:
    bench = Bench()
    choices = {"producerId": 15}
    assert bench.request("INIT_PRODUCER_ID", 4, NOBODY, choices=choices)["errorCode"] == 14
    assert bench.request("INIT_PRODUCER_ID", 4, NOBODY, choices=choices)["producerId"] == 15
    assert bench.request("INIT_PRODUCER_ID", 4, NOBODY)["producerId"] == 16


def test_recorded_id_of_another_block_uses_up_an_own_id() -> None:
    bench = Bench()
    bench.request("INIT_PRODUCER_ID", 4, NOBODY)
    chosen = bench.request("INIT_PRODUCER_ID", 4, NOBODY, choices={"producerId": 77_000})
    assert chosen["producerId"] == 77_000
    assert bench.request("INIT_PRODUCER_ID", 4, NOBODY)["producerId"] == 1


@given(
    st.lists(st.integers(0, 1100) | st.none(), max_size=60),
    st.integers(1, 20),
)
def test_no_id_is_issued_twice(chosen: list[int | None], size: int) -> None:
    at, first = CellTables().of(1), 0
    seen: set[int] = set()
    for choice in chosen:
        drawn = producer_ids.next_id(at)
        if drawn is None:
            producer_ids.apply_received(at, ProducerIdBlockReceived(first, size))
            first += size
            continue
        assert drawn not in seen
        given_out = drawn if choice is None else choice
        seen.add(given_out)
        producer_ids.apply_issued(at, ProducerIdIssued(given_out))
        seen = {number for number in seen if number < first}
