"""Messages between the machines of a cell: replies, their receivers, and held requests.

The two APIs are of this test: ASK has another broker count, and COUNT does.
"""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.bodies import Body, Int32
from brokertwin.protocol.kafka_apis import KafkaApi
from brokertwin.state.cell import delivery
from brokertwin.state.cell import event_loop as loop
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.pending import LateMessage
from brokertwin.state.core.records import ProducerIdBlockReceived
from tests.support.machine import Bench

REQUEST, COUNT = 38, 39


class SampleRequest(Body):
    """Asks `times` times and waits for the responses, or for none of them."""

    times: Int32 = 1
    waits: bool = True


class SampleResponse(Body):
    """The last broker that counted, and its result."""

    counted: Int32 = 0
    counted_by: Int32 = 0


class CountRequest(Body):
    number: Int32 = 0


class CountResponse(Body):
    number: Int32 = 0
    broker: Int32 = 0
    version: Int32 = 0


REPLIES: list[tuple[int, str, int]] = []


def handle(broker: Broker, request: Request) -> Decision:
    body: SampleRequest = request.body
    first = Message(broker.id, 2, COUNT, CountRequest(), context=f"{body.times}", version=3)
    if not body.waits:
        return Decision(response=SampleResponse(), messages=[first])
    condition = Condition(broker.now + 1000, [], b"")
    return Decision(condition=condition, messages=[first])


def resume(
    broker: Broker, _waiting: PendingRequest, message: Message, response: CountResponse
) -> Decision:
    if response.number < int(message.context):
        again = Message(
            broker.id, 2, COUNT, CountRequest(number=response.number), message.context, 3
        )
        return Decision(condition=Condition(broker.now + 1000, [], b""), messages=[again])
    return Decision(response=SampleResponse(counted=response.number, counted_by=response.broker))


def complete(_broker: Broker, _waiting: PendingRequest) -> Decision:
    return Decision(response=SampleResponse(counted=-1))


def count(broker: Broker, request: Request) -> Decision:
    assert request.is_from_machine
    number = request.body.number + 1
    block = ProducerIdBlockReceived(number, 1)
    response = CountResponse(number=number, broker=broker.id, version=request.version)
    return Decision(records=[block], response=response)


def on_reply(broker: Broker, message: Message, response: CountResponse) -> Decision:
    REPLIES.append((broker.id, message.context, response.version))
    return Decision()


@pytest.fixture(autouse=True)
def apis(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Api(
        KafkaApi(REQUEST, "ASK", 0, 3),
        handle,
        complete=complete,
        resume=resume,
        request_type=SampleRequest,
    )
    counts = Api(
        KafkaApi(COUNT, "COUNT", 0, 5), count, on_reply=on_reply, request_type=CountRequest
    )
    for api in (requests, counts):
        monkeypatch.setitem(loop.BUILT, api.key, api)
        monkeypatch.setitem(loop._decoders, api.key, api.decoder())
    REPLIES.clear()


def counted(bench: Bench) -> list[int]:
    """What broker 2 has counted so far."""
    return [entry["record"]["first"] for entry in bench.records() if entry["machine"] == 2]


def test_pending_request_gets_every_reply_and_can_send_again() -> None:
    bench = Bench(brokers=(1, 2))
    assert bench.request(REQUEST, 1, {"times": 3}) == {"counted": 3, "countedBy": 2}
    assert counted(bench) == [1, 2, 3]
    assert REPLIES == []


def test_unawaited_reply_goes_to_the_messages_api() -> None:
    bench = Bench(brokers=(1, 2))
    assert bench.request(REQUEST, 1, {"times": 7, "waits": False}) == {"counted": 0, "countedBy": 0}
    assert REPLIES == [(1, "7", 3)]


def held(bench: Bench, **body: Any) -> str:
    return bench.send(REQUEST, 1, body, isHeld=True)


def finish(bench: Bench, event_id: str) -> None:
    complete = {"id": f"{event_id}/complete", "cluster": "bench", "kind": "complete"}
    bench.handle({**complete, "of": event_id, "time": bench.now})


def test_messages_of_a_held_request_leave_when_it_completes() -> None:
    bench = Bench(brokers=(1, 2), may_hold=True)
    event_id = held(bench, waits=False)
    assert bench.responses[event_id]["response"] == {"counted": 0, "countedBy": 0}
    assert counted(bench) == []
    bench.reload()
    finish(bench, event_id)
    assert (counted(bench), REPLIES) == ([1], [(1, "1", 3)])
    finish(bench, event_id)
    assert "no held request" in bench.dead_letters(bench.last)[0]["detail"]


def test_fault_in_a_reply_rolls_back_the_whole_event() -> None:
    bench = Bench(brokers=(1, 2))
    before = bench.cell.columns()
    bench.send(REQUEST, 1, {"times": 2**31 - 1})
    (letter,) = bench.dead_letters(bench.last)
    assert letter["reason"] == "step limit reached"
    assert bench.cell.columns() == before


def test_delayed_body_is_unchanged() -> None:
    message = Message(1, 2, COUNT, CountRequest(number=5), "t", 4)
    delayed = msgspec.msgpack.decode(
        msgspec.msgpack.encode(delivery.delayed(message)), type=LateMessage
    )
    assert delivery.undelayed(delayed) == message
