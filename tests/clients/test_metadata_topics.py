"""The topics of a producer: new ones ask at once, idle ones are forgotten, senders wait."""

import pytest

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.metadata import MetadataSettings, ProducerMetadata
from brokertwin.clients.metadata_wait import (
    MetadataKnown,
    MetadataUnavailable,
    MetadataWait,
    WaitFor,
)
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LATEST = 13
MAX_BLOCK_MS = ProducerConfig().max_block_ms


def producer(max_age_ms: int = 300_000) -> ProducerMetadata:
    return ProducerMetadata(
        MetadataSettings(refresh_backoff=constant_backoff(), metadata_max_age_ms=max_age_ms)
    )


def metadata_response(
    *topics: str, partitions: int = 3, error: Error = Error.NONE
) -> MetadataResponse:
    def found(name: str) -> MetadataResponseTopic:
        led = [
            MetadataResponsePartition(
                partition_index=i, leader_id=0, leader_epoch=0, replica_nodes=[0], isr_nodes=[0]
            )
            for i in range(partitions)
        ]
        return MetadataResponseTopic(
            name=name, error_code=error, partitions=[] if error is not Error.NONE else led
        )

    broker = MetadataResponseBroker(node_id=0, host="host", port=9092)
    return MetadataResponse(brokers=[broker], topics=[found(name) for name in topics])


def update(metadata: ProducerMetadata, response: MetadataResponse, now: int = 0) -> None:
    metadata.update(metadata.new_request(now), response, LATEST, now)


def requested(metadata: ProducerMetadata, now: int = 0) -> tuple[list[str | None], bool]:
    sent = metadata.new_request(now)
    return [topic.name for topic in sent.request.topics or []], sent.is_partial


def test_example_6_a_new_topic_requests_an_update_at_once() -> None:
    metadata = producer()
    metadata.request_update()
    update(metadata, metadata_response(), now=1000)
    metadata.add("a", 1000)
    assert metadata.time_to_next_update(1000) == 0
    update(metadata, metadata_response("a"), now=1000)
    metadata.add("a", 1000)
    assert metadata.time_to_next_update(1000) == 300_000


def test_example_7_a_topic_added_during_a_request_is_in_the_next_one() -> None:
    metadata = producer()
    update(metadata, metadata_response())
    metadata.add("a", 0)
    first = metadata.new_request(0)
    assert first.request_version == 1
    metadata.add("b", 0)
    assert metadata.request_version == 2
    metadata.update(first, metadata_response("a"), LATEST, 10)
    assert metadata.is_update_requested
    second = metadata.new_request(10)
    assert [topic.name for topic in second.request.topics or []] == ["b"]
    metadata.update(second, metadata_response("b"), LATEST, 20)
    assert not metadata.is_update_requested


def test_example_8_a_due_full_update_includes_new_topics() -> None:
    metadata = producer()
    update(metadata, metadata_response())
    metadata.add("a", 0)
    assert requested(metadata) == (["a"], True)
    update(metadata, metadata_response("a"))
    metadata.add("b", 0)
    assert requested(metadata) == (["b"], True)
    metadata.request_update()
    assert requested(metadata) == (["a", "b"], False)
    update(metadata, metadata_response("a", "b"))
    metadata.add("c", 299_999)
    assert requested(metadata, 299_999) == (["c"], True)
    assert requested(metadata, 300_000) == (["a", "b", "c"], False)


def test_example_19_an_idle_topic_expires_but_not_a_pending_one() -> None:
    metadata = producer()
    for name in ("a", "unanswered"):
        metadata.add(name, 0)
    update(metadata, metadata_response("a"), now=0)
    update(metadata, metadata_response("a"), now=299_999)
    assert "a" in metadata.topics
    update(metadata, metadata_response("a"), now=300_000)
    assert list(metadata.topics) == ["unanswered"]
    assert metadata.snapshot.partitions == {}
    assert metadata.last_seen_leader_epochs.get(TopicPartition("a", 0)) is None
    update(metadata, metadata_response(), now=600_000)
    assert list(metadata.topics) == ["unanswered"]


def test_unrequested_topics_are_not_retained() -> None:
    metadata = producer()
    metadata.add("a", 0)
    update(metadata, metadata_response("a", "other"))
    assert metadata.snapshot.by_topic.keys() == {"a"}


def test_a_known_topic_with_an_error_requests_a_full_update() -> None:
    metadata = producer()
    metadata.add("a", 0)
    update(metadata, metadata_response("a", error=Error.LEADER_NOT_AVAILABLE))
    assert metadata.request_update_for_topic("a") == metadata.update_version
    assert requested(metadata) == (["a"], False)


def test_a_sender_waits_once_and_the_next_message_does_not() -> None:
    metadata = producer()
    metadata.bootstrap([("localhost", 9092)])
    wait = MetadataWait(metadata, "a", None, MAX_BLOCK_MS)
    assert wait.start(1000) == WaitFor(version=1, remaining_ms=60_000)
    update(metadata, metadata_response("a"), now=1500)
    assert wait.resume(1500) == MetadataKnown(partition_count=3, waited_ms=500)
    again = MetadataWait(metadata, "a", 2, MAX_BLOCK_MS)
    assert again.start(2000) == MetadataKnown(partition_count=3, waited_ms=0)


def test_example_15_a_missing_partition_times_out() -> None:
    metadata = producer()
    metadata.add("a", 0)
    update(metadata, metadata_response("a"))
    wait = MetadataWait(metadata, "a", 5, MAX_BLOCK_MS)
    step = wait.start(0)
    for now in range(1000, MAX_BLOCK_MS, 1000):
        assert step == WaitFor(metadata.update_version, MAX_BLOCK_MS - now + 1000)
        update(metadata, metadata_response("a"), now=now)
        step = wait.resume(now)
    update(metadata, metadata_response("a"), now=MAX_BLOCK_MS)
    assert wait.resume(MAX_BLOCK_MS) == MetadataUnavailable(
        Error.REQUEST_TIMED_OUT,
        "partition 5 of topic 'a', which has 3, is not in the metadata after 60000 ms",
    )


def test_a_wait_for_more_partitions_ends_when_they_come() -> None:
    metadata = producer()
    metadata.add("a", 0)
    update(metadata, metadata_response("a"))
    wait = MetadataWait(metadata, "a", 5, MAX_BLOCK_MS)
    wait.start(0)
    update(metadata, metadata_response("a", partitions=6), now=300)
    assert wait.resume(300) == MetadataKnown(6, 300)


def test_a_wake_up_without_a_new_version_keeps_waiting() -> None:
    metadata = producer()
    wait = MetadataWait(metadata, "a", None, MAX_BLOCK_MS)
    assert wait.start(0) == WaitFor(0, 60_000)
    asked = metadata.request_version
    assert wait.resume(100) == WaitFor(0, 59_900)
    assert metadata.request_version == asked


def test_a_nonexistent_topic_times_out() -> None:
    metadata = producer()
    wait = MetadataWait(metadata, "a", None, 200)
    wait.start(0)
    update(metadata, metadata_response("a", error=Error.UNKNOWN_TOPIC_OR_PARTITION), now=100)
    assert isinstance(wait.resume(100), WaitFor)
    assert wait.resume(200) == MetadataUnavailable(
        Error.REQUEST_TIMED_OUT, "topic 'a' is not in the metadata after 200 ms"
    )


@pytest.mark.parametrize("error", [Error.INVALID_TOPIC_EXCEPTION, Error.TOPIC_AUTHORIZATION_FAILED])
def test_an_error_of_the_topic_ends_the_wait(error: Error) -> None:
    metadata = producer()
    wait = MetadataWait(metadata, "a", None, MAX_BLOCK_MS)
    wait.start(0)
    update(metadata, metadata_response("a", error=error), now=100)
    failed = wait.resume(100)
    assert isinstance(failed, MetadataUnavailable) and failed.code == error
    at_once = MetadataWait(metadata, "a", None, MAX_BLOCK_MS).start(200)
    assert isinstance(
        at_once, MetadataUnavailable if error is Error.INVALID_TOPIC_EXCEPTION else WaitFor
    )


def test_closing_ends_the_wait() -> None:
    metadata = producer()
    wait = MetadataWait(metadata, "a", None, MAX_BLOCK_MS)
    wait.start(0)
    metadata.close()
    closed = wait.resume(20)
    assert isinstance(closed, MetadataUnavailable) and closed.message == "the producer was closed"
