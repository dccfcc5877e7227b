"""Worked examples that use a whole cell, with the seed's numbers."""

import pytest

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.errors import Error
from brokertwin.state.cell.apply import apply
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, ReplicaFetch, ReplicaResponse
from brokertwin.state.core.records import (
    BatchAppended,
)
from brokertwin.state.replication import copying
from tests.support.replicas import BROKERS, Replicas

START = 17314


class Steps:
    """Broker 1 leads, broker 2 follows with 17314 records; the test runs each step.

    Leader and follower are shown as log end offset and high watermark.
    """

    def __init__(self) -> None:
        self._replicas = Replicas((1, 2))
        self._replicas.produce(count=START)
        bench = self._replicas.bench
        tables, settings = bench.cell.tables, bench.settings
        self._brokers = {each: Broker(each, tables, settings, bench.now) for each in (1, 2)}
        self._place = (self._replicas.topic_id, 0)

    @property
    def leader(self) -> tuple[int, int]:
        log = self._replicas.log(1)
        return log.log_end_offset, log.high_watermark

    @property
    def follower(self) -> tuple[int, int]:
        log = self._replicas.log(2)
        return log.log_end_offset, log.high_watermark

    def append(self) -> None:
        """The leader appends a message of 45 bytes."""
        batch = Batch(self.leader[0], 0, size_in_bytes=45, partition_leader_epoch=0)
        self._write(1, Decision(records=[BatchAppended(*self._place, batch)]))

    def fetch(self) -> ReplicaResponse | None:
        """Fetch; the leader's response, or None if the fetch is pending."""
        (request,) = self._write(2, copying.fetches(self._brokers[2], [self._place]))
        assert isinstance(request, ReplicaFetch)
        return self._response(copying.handle_fetch(self._brokers[1], request))

    def wake(self) -> ReplicaResponse | None:
        """Complete a pending fetch, if there is something to send."""
        return self._response(copying.log_grown(self._brokers[1], [self._place]))

    def take(self, response: ReplicaResponse | None) -> None:
        assert response is not None
        self._write(2, copying.handle_fetch_response(self._brokers[2], response))

    def _response(self, decision: Decision) -> ReplicaResponse | None:
        for sent in self._write(1, decision):
            assert isinstance(sent, ReplicaResponse)
            return sent
        return None

    def _write(self, broker: int, decision: Decision) -> list[object]:
        for record in decision.records:
            apply(self._brokers[broker].tables.of(broker), record)
        return list(decision.copies)


def content(response: ReplicaResponse | None) -> tuple[list[int], int]:
    assert response is not None
    (partition,) = response.partitions
    return [batch.base_offset for batch in partition.batches], partition.high_watermark


@pytest.fixture
def steps() -> Steps:
    return Steps()


def test_example_1_from_17314_to_17316(steps: Steps) -> None:
    """The seed's log of broker 2."""
    assert (steps.leader, steps.follower) == ((17314, 17314), (17314, 17314))
    steps.append()
    first = steps.wake()
    assert content(first) == ([17314], 17314)
    steps.take(first)
    assert (steps.leader, steps.follower) == ((17315, 17314), (17315, 17314))
    steps.fetch()
    assert steps.leader == (17315, 17315), "the fetch shows that the follower has it"
    steps.append()
    second = steps.wake()
    assert content(second) == ([17315], 17315)
    steps.take(second)
    assert (steps.leader, steps.follower) == ((17316, 17315), (17316, 17315))


def test_example_2_immediate_response_has_the_former_high_watermark(steps: Steps) -> None:
    steps.append()
    steps.take(steps.wake())
    steps.append()
    second = steps.fetch()
    assert content(second) == ([17315], 17314)
    assert steps.leader == (17316, 17315), "the fetch itself has raised it"
    steps.take(second)
    assert steps.follower == (17316, 17314)
    third = steps.fetch()
    assert content(third) == ([], 17315)
    assert steps.leader == (17316, 17316)
    steps.take(third)
    steps.take(steps.fetch())
    assert steps.follower == (17316, 17316)


def test_example_23_acks_2_and_other_leader_epochs() -> None:
    replicas = Replicas()
    assert replicas.produce(acks=2)["errorCode"] == Error.INVALID_REQUIRED_ACKS
    for _ in range(5):
        leader = replicas.leader()[0]
        replicas.stop(leader)
        replicas.start(leader)
    assert replicas.leader()[1] == 5
    responses = [replicas.fetch_as(-1, 0, leader_epoch=epoch) for epoch in (4, 5, 6)]
    errors = [each["responses"][0]["partitions"][0]["errorCode"] for each in responses]
    assert errors == [Error.FENCED_LEADER_EPOCH, Error.NONE, Error.UNKNOWN_LEADER_EPOCH]
    assert replicas.isr() == list(BROKERS)
