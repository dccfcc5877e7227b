"""Audit of replicas: what a broker responds, compared with the logs of all brokers."""

from typing import Any

import msgspec

from brokertwin.clients.client_loop import Send
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.simulation.audit_replicas import ReplicaAudit
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.closing import LogReader, make_topics
from brokertwin.simulation.cluster import LocalCluster
from brokertwin.simulation.edge import SimulatedConnection, SimulatedRequest
from brokertwin.simulation.plan import EngineKind, RunPlan
from brokertwin.state.cluster import image
from brokertwin.state.core.events import Kind
from brokertwin.state.logs.log import move_start

PLAN = RunPlan(
    seed=1,
    engine=EngineKind.LOCAL,
    brokers=3,
    cells=1,
    partitions=1,
    is_any_order=False,
    clients=(),
    injections=(),
)
NOT_IN_SYNC_MS = 8_000
"""By this time a broker that is cut off has left the in-sync set."""


class SentBatch(msgspec.Struct):
    """What the audit reads of a producer's batch."""

    topic_partition: TopicPartition
    records: list[Any] = []


class AuditedCluster:
    """Three brokers with one partition, of which two must be in sync."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.clock = VirtualClock()
        self.cluster = LocalCluster(PLAN, self.clock)
        self.reader = LogReader(self.cluster, self.clock)
        make_topics(self.reader, {"orders": 1}, 3, PLAN.in_sync_min)
        self.audit = ReplicaAudit(self.violations.append, self.cluster)
        metadata = self.reader.request("METADATA", 9, {"topics": [{"name": "orders"}]})
        self.leader = metadata["topics"][0]["partitions"][0]["leaderId"]

    def cut_off(self, count: int) -> None:
        for broker in [each for each in (1, 2, 3) if each != self.leader][:count]:
            self.cluster.intervene(Kind.ISOLATE_BROKER, broker)

    def request(self, acks: int) -> SimulatedRequest:
        """Append a batch and return the request with its response."""
        batch = {"baseOffset": 0, "lastOffsetDelta": 0, "recordCount": 1, "sizeInBytes": 100}
        partition = {"index": 0, "batches": [{**batch, "locator": "a"}]}
        topics = [{"name": "orders", "partitionData": [partition]}]
        body = {"acks": acks, "timeoutMs": 1_000, "topicData": topics}
        response = self.reader.request("PRODUCE", 9, body, self.leader)
        sent = Send(0, 1, "PRODUCE", 9, ProduceRequest(), [SentBatch(TopicPartition("orders", 0))])
        connection = SimulatedConnection("c", 0, self.leader, lambda _: None, lambda _: None)
        return SimulatedRequest("produce", sent, connection, {}, {"response": response})

    def error_of(self, request: SimulatedRequest) -> int:
        (topic,) = request.response["response"]["responses"]  # type: ignore[index]
        return int(topic["partitionResponses"][0]["errorCode"])


def test_an_acknowledged_batch_is_on_every_in_sync_replica() -> None:
    audited = AuditedCluster()
    audited.audit.on_response(audited.request(acks=-1))
    assert audited.violations == []


def test_a_batch_acknowledged_before_an_in_sync_replica_has_it_is_a_violation() -> None:
    audited = AuditedCluster()
    audited.cut_off(1)
    audited.audit.on_response(audited.request(acks=1))
    assert "is acknowledged: orders-0 at 0 is on" in audited.violations[0]
    assert "in sync are {1, 2, 3}" in audited.violations[0]


def test_a_batch_that_a_replica_has_deleted_by_retention_was_there() -> None:
    audited = AuditedCluster()
    request = audited.request(acks=-1)
    follower = min({1, 2, 3} - {audited.leader})
    (cell,) = audited.cluster.cells.values()
    topic = image.topic_by_name(cell.tables.of(follower), "orders")
    assert topic is not None
    move_start(cell.tables.of(follower), topic.topic_id, 0, 1)
    audited.audit.on_response(request)
    assert audited.violations == []


def test_a_batch_that_an_in_sync_replica_lacks_may_time_out() -> None:
    audited = AuditedCluster()
    audited.cut_off(1)
    request = audited.request(acks=-1)
    assert audited.error_of(request) == Error.REQUEST_TIMED_OUT
    audited.audit.on_response(request)
    assert audited.violations == []


def test_an_append_with_too_few_in_sync_is_refused_at_once() -> None:
    audited = AuditedCluster()
    audited.cut_off(2)
    audited.request(acks=1)
    audited.clock.run(audited.clock.now + NOT_IN_SYNC_MS)
    request = audited.request(acks=-1)
    assert audited.error_of(request) == Error.NOT_ENOUGH_REPLICAS
    too_few = audited.audit.too_few(request)
    assert too_few == {("orders", 0)}
    audited.audit.handled(request, too_few)
    assert audited.violations == []
    request.response = None
    audited.audit.handled(request, too_few)
    assert "is not refused at once" in audited.violations[0]
