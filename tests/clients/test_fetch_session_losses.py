"""Property: client and broker return to the same session after any lost requests and responses.

A client fetches from a real cell through a network that loses requests and responses, and delivers
a request only after the next one. Other clients take all slots of the session cache.
"""

from collections import Counter
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokertwin.clients.fetch_session import PartitionData, ResponseCheck
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.fetch.fetch_session import EVICTION_MS
from brokertwin.state.fetch.shards import SHARDS
from brokertwin.state.logs.log import Log, log_key
from tests.support.examples import examples
from tests.support.fetching import LATEST, FetchClient, cache
from tests.support.machine import Bench, header

SLOTS = 2 * SHARDS
TOPICS = ("foo", "bar")
PARTITIONS = 3
WAIT_MS = 100


class Loss(StrEnum):
    LOST_REQUEST = "lost request"
    LOST_RESPONSE = "lost answer"
    LATE_REQUEST = "late request"
    EVICTION = "eviction"


class Poll(StrEnum):
    """How the client asks: at once, waiting for records or in vain, or for very few bytes."""

    AT_ONCE = "at once"
    UNTIL_RECORDS = "until records"
    IN_VAIN = "in vain"
    FEW_BYTES = "few bytes"


LIMITS: dict[Poll, dict[str, int]] = {
    Poll.AT_ONCE: {},
    Poll.UNTIL_RECORDS: {"maxWaitMs": WAIT_MS, "minBytes": 1},
    Poll.IN_VAIN: {"maxWaitMs": WAIT_MS, "minBytes": 1 << 20},
    Poll.FEW_BYTES: {"maxBytes": 1},
}


class Lossy:
    """A client, a broker and a lossy network; counts the losses."""

    def __init__(self, losses: Counter[Loss], latest: int) -> None:
        self.losses = losses
        self.bench = Bench(max_incremental_fetch_session_cache_slots=SLOTS)
        self.client = FetchClient(self.bench, latest)
        self.ids = {topic: self.bench.topic(topic, PARTITIONS) for topic in TOPICS}
        self.late: list[tuple[dict[str, Any], int]] = []
        self.gone: set[str] = set()
        self.unreceived: set[str] = set()
        self.toggle(TopicPartition("foo", 0))

    def append(self, partition: TopicPartition) -> None:
        if partition.topic not in self.gone:
            batch = header(2, size=100)
            self.bench.append(partition.topic, batch, partition=partition.partition)

    def toggle(self, partition: TopicPartition) -> None:
        if self.client.wanted.pop(partition, None) is None:
            topic_id = self.ids[partition.topic] if self.client.latest == LATEST else ZERO_UUID
            self.client.wanted[partition] = PartitionData(0, 0, 1 << 20, topic_id)

    def delete(self, topic: str) -> None:
        if topic not in self.gone:
            self.bench.request("DELETE_TOPICS", 6, topicId=self.ids[topic], timeoutMs=1000)
            self.gone.add(topic)

    def create(self, topic: str) -> None:
        """Recreate a deleted topic; the client does not know it yet."""
        if topic in self.gone:
            self.gone.remove(topic)
            self.ids[topic] = self.bench.topic(topic, PARTITIONS)
            self.unreceived.add(topic)

    def learn(self) -> None:
        for partition, data in self.client.wanted.items():
            if partition.topic in self.unreceived:
                topic_id = self.ids[partition.topic] if data.topic_id != ZERO_UUID else ZERO_UUID
                self.client.wanted[partition] = PartitionData(0, 0, 1 << 20, topic_id)
        self.unreceived.clear()

    def exchange(self, loss: Loss | None = None, poll: Poll = Poll.AT_ONCE) -> ResponseCheck | None:
        """Send one request; return the check of its response, if it arrives."""
        if loss is Loss.EVICTION:
            self.evict()
        body, version = self.client.next_request()
        body |= LIMITS[poll]
        if loss in (Loss.LOST_REQUEST, Loss.LOST_RESPONSE, Loss.LATE_REQUEST):
            self.losses[loss] += 1
            if loss is Loss.LOST_RESPONSE:
                self.bench.send("FETCH", version, body)
            elif loss is Loss.LATE_REQUEST:
                self.late.append((body, version))
            self.client.handler.handle_error()
            return None
        verdict = self.client.take(self.send(body, version, poll), version)
        self.deliver_late()
        if verdict.is_accepted:
            self.check_view(has_all=poll is not Poll.FEW_BYTES)
        return verdict

    def send(self, body: dict[str, Any], version: int, poll: Poll) -> dict[str, Any]:
        event_id = self.bench.send("FETCH", version, body)
        if event_id not in self.bench.responses and poll is Poll.UNTIL_RECORDS:
            self.append(next(iter(self.client.wanted)))
        if event_id not in self.bench.responses:
            self.bench.tick(WAIT_MS)
        return self.bench.responses[event_id]["response"]  # type: ignore[no-any-return]

    def deliver_late(self) -> None:
        for body, version in self.late:
            self.bench.send("FETCH", version, body)
        self.late.clear()

    def evict(self) -> None:
        """After a while, other clients take every slot, and leave."""
        had = cache(self.bench).session(self.client.handler.session_id)
        self.bench.now += EVICTION_MS + 1
        partitions = [{"partition": 0, "partitionMaxBytes": 1}]
        full = {"sessionEpoch": 0, "topics": [{"topic": "foo", "partitions": partitions}]}
        made = [self.bench.request("FETCH", 12, full)["sessionId"] for _ in range(SLOTS)]
        for session_id in made:
            self.bench.request("FETCH", 12, sessionId=session_id, sessionEpoch=-1)
        if had is not None:
            assert cache(self.bench).session(had.session_id) is None
            self.losses[Loss.EVICTION] += 1

    def high_watermark(self, partition: TopicPartition, data: PartitionData) -> int:
        """Return the broker's high watermark; -1 if the partition is unreadable."""
        topic_id = self.ids[partition.topic] if data.topic_id == ZERO_UUID else data.topic_id
        log = self.bench.cell.tables.logs.get(log_key(1, topic_id, partition.partition), Log)
        is_readable = log is not None and data.fetch_offset <= log.log_end_offset
        return log.high_watermark if log is not None and is_readable else -1

    def check_view(self, *, has_all: bool) -> None:
        for partition, data in self.client.handler.session_partitions.items():
            high_watermark = self.high_watermark(partition, data)
            assert self.client.high_watermarks[partition] == high_watermark, partition
            if has_all and high_watermark >= 0:
                assert self.client.wanted[partition].fetch_offset == high_watermark, partition

    def settle(self) -> None:
        """Two exchanges after the last loss both sides hold the same session."""
        self.deliver_late()
        for topic in TOPICS:
            self.create(topic)
        self.learn()
        self.bench.now += EVICTION_MS + 1  # orphans of late requests are stale by now
        self.exchange()
        self.exchange()
        self.check_session()

    def go_on(self) -> None:
        if self.client.wanted:
            self.toggle(next(iter(self.client.wanted)))
        for topic in TOPICS:
            self.toggle(TopicPartition(topic, 1))
        self.exchange()
        self.check_session()

    def check_session(self) -> None:
        """Broker and client hold the same partitions, and the client has read them to the end."""
        handler = self.client.handler
        request = {}
        for cached in cache(self.bench).partitions(handler.session_id):
            requested = cached.requested
            topic = requested.topic or handler.session_topic_names[requested.topic_id]
            partition = TopicPartition(topic, requested.partition)
            request[partition] = (requested.topic_id, requested.fetch_offset)
        held = handler.session_partitions.items()
        assert request == {tp: (data.topic_id, data.fetch_offset) for tp, data in held}
        assert request.keys() == self.client.wanted.keys()
        assert not request or handler.session_id > 0
        for partition, data in self.client.wanted.items():
            assert data.fetch_offset == self.high_watermark(partition, data)


PARTITION = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
EXCHANGES = st.tuples(st.just("exchange"), st.none() | st.sampled_from(Loss), st.sampled_from(Poll))
TOPIC_CHANGES = st.tuples(st.sampled_from(["delete", "create"]), st.sampled_from(TOPICS))
CHANGES = st.one_of(
    st.tuples(st.sampled_from(["append", "toggle"]), PARTITION),
    st.tuples(st.just("append"), PARTITION),
    TOPIC_CHANGES | st.just(("learn",)),
)
STEPS = st.lists(st.one_of(EXCHANGES, EXCHANGES, CHANGES), min_size=20, max_size=40)


def test_both_sides_converge_to_the_same_session(request: pytest.FixtureRequest) -> None:
    losses: Counter[Loss] = Counter()

    @settings(
        max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(STEPS, st.sampled_from([12, LATEST]))
    def come_back(steps: list[tuple[Any, ...]], latest: int) -> None:
        lossy = Lossy(losses, latest)
        for name, *arguments in steps:
            getattr(lossy, name)(*arguments)
        lossy.settle()
        lossy.go_on()

    come_back()
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f" losses: {', '.join(f'{kind} {losses[kind]}' for kind in Loss)}")
    assert all(losses[kind] > 0 for kind in Loss)
