"""Responses of coordinators wait until followers have the records."""

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.join_group import JoinGroupResponse
from brokertwin.protocol.generated.offset_commit import OffsetCommitResponse
from brokertwin.state.apis import uncommitted
from brokertwin.state.cell import committing
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision, PendingRequest, Resumed
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.pending import PendingCommit
from brokertwin.state.replication.internal_logs import Required, WrittenRecords
from tests.support.coordinators import GROUPS, TRANSACTIONS, Coordinators
from tests.support.replicas import BROKERS

UNAVAILABLE = Error.COORDINATOR_NOT_AVAILABLE


def test_failed_response_about_one_thing_has_only_the_error() -> None:
    accepted = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    reported = uncommitted.failed(accepted, UNAVAILABLE)
    assert reported == InitProducerIdResponse(error_code=UNAVAILABLE)


def test_failed_join_does_not_name_the_member() -> None:
    accepted = JoinGroupResponse(generation_id=4, leader="a", member_id="a")
    reported = uncommitted.failed(accepted, UNAVAILABLE)
    assert reported == JoinGroupResponse(error_code=UNAVAILABLE)


def test_failed_response_keeps_an_earlier_error() -> None:
    refused = InitProducerIdResponse(error_code=Error.CONCURRENT_TRANSACTIONS, producer_id=7)
    assert uncommitted.failed(refused, UNAVAILABLE) == refused


def test_accepted_items_of_a_failed_response_have_the_error() -> None:
    codes = {0: Error.NONE, 1: Error.OFFSET_METADATA_TOO_LARGE}
    reported = uncommitted.failed(offsets_response(codes), UNAVAILABLE)
    assert reported == offsets_response({**codes, 0: UNAVAILABLE})


def test_failed_response_without_items_is_unchanged() -> None:
    assert uncommitted.failed(offsets_response({}), UNAVAILABLE) == offsets_response({})


def offsets_response(codes: dict[int, Error]) -> OffsetCommitResponse:
    partitions = [{"partitionIndex": n, "errorCode": int(code)} for n, code in codes.items()]
    topics = [{"name": "orders", "partitions": partitions}]
    return msgspec.convert({"topics": topics}, OffsetCommitResponse)


@pytest.mark.parametrize(
    ("of_the_log", "error"),
    [
        (Error.UNKNOWN_TOPIC_OR_PARTITION, UNAVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS, UNAVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, UNAVAILABLE),
        (Error.REQUEST_TIMED_OUT, UNAVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.MESSAGE_TOO_LARGE),
    ],
)
def test_error_of_the_log_becomes_an_error_of_the_coordinator(
    of_the_log: Error, error: Error
) -> None:
    assert uncommitted.coordinator_error(of_the_log) is error


def broker_of(brokers: Coordinators, kind: int) -> Broker:
    bench = brokers.bench
    return Broker(brokers.coordinator(kind), bench.cell.tables, bench.settings, bench.now)


def required(brokers: Coordinators, kind: int) -> Required:
    topic_id, number, partition = brokers.partition(kind)
    return Required(topic_id, number, brokers.log(kind, partition.leader).high_watermark)


def request(event_id: str, api_key: int, broker: int, state: bytes = b"") -> PendingRequest:
    header = RequestHeader(api_key, 5)
    return PendingRequest(
        event_id, broker, api_key, pending.NO_DEADLINE, header, "", "", 0, [], state
    )


@pytest.mark.parametrize(
    ("kind", "error"),
    [(GROUPS, Error.NONE), (TRANSACTIONS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)],
)
def test_groups_do_not_require_min_insync_replicas(kind: int, error: Error) -> None:
    brokers = Coordinators(min_insync_replicas=2)
    assert brokers.commit(5) == 0
    assert brokers.init() is not None
    written = required(brokers, kind)
    brokers.replicas.isolate(*(each for each in BROKERS if each != brokers.coordinator(kind)))
    brokers.send_commit(6)
    brokers.init()
    brokers.bench.tick(46_000)
    assert len(brokers.partition(kind)[2].isr) == 1
    state = msgspec.msgpack.encode(committing.Committing([written]))
    write = PendingCommit("held", brokers.coordinator(kind), pending.NO_DEADLINE, [], state)
    assert committing.error_of(broker_of(brokers, kind), write) is error


def test_resumed_requests_wait_for_the_commit_and_dropped_ones_end() -> None:
    brokers = Coordinators()
    broker, table = broker_of(brokers, GROUPS), brokers.bench.cell.tables.pending
    for event_id in ("told", "silent"):
        pending.add(table, request(event_id, 11, broker.id))
    joined = JoinGroupResponse(member_id="a")
    responses = [Resumed("told", joined), Resumed("silent", None), Resumed("gone", joined)]
    place = required(brokers, GROUPS)._replace(offset=1)
    written = WrittenRecords(records=[], late=[], required=[place])
    committing.suspend(broker, written, Decision(resumed=responses), None, None)
    assert [each.event_id for each in pending.requests(table)] == ["told"]
    (held,) = (e for e in pending.everything(table) if isinstance(e, PendingCommit))
    outcome = committing.finish(broker, held, Error.NONE)
    assert [event_id for event_id, _ in outcome.responses] == ["told"]
    assert held.deadline == broker.now + broker.settings.offsets_commit_timeout_ms
