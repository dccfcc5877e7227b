"""The client's half of a fetch session; numbers are those of the worked examples (KIP-227)."""

from typing import Any

import pytest

from brokertwin.clients.fetch_session import (
    INITIAL,
    FetchMetadata,
    FetchRequestData,
    FetchSessionHandler,
    PartitionData,
    ResponseCheck,
)
from brokertwin.clients.partitions import TopicIdPartition, TopicPartition
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.state.fetch.fetch_session import EPOCH_MAX

V12, V17 = 12, 17
A, B = "A" * 21 + "Q", "A" * 21 + "g"


def tp(name: str) -> TopicPartition:
    topic, partition = name.rsplit("-", 1)
    return TopicPartition(topic, int(partition))


def data(
    offset: int, log_start: int, max_bytes: int, topic_id: str = ZERO_UUID, **epochs: int
) -> PartitionData:
    return PartitionData(offset, log_start, max_bytes, topic_id, **epochs)


FOO_0, FOO_1 = data(0, 100, 200), data(10, 110, 210)
FOO_1_MOVED, BAR_0 = data(10, 120, 210), data(20, 200, 200)


class Client:
    """A handler, and short words for building and answering."""

    def __init__(self) -> None:
        self.handler = FetchSessionHandler()

    def build(self, **wanted: PartitionData) -> FetchRequestData:
        builder = self.handler.builder()
        for name, requested in wanted.items():
            builder.add(tp(name.replace("_", "-")), requested)
        return builder.build()

    def respond(
        self,
        session_id: int,
        *names: str,
        error: Error = Error.NONE,
        throttle_ms: int = 0,
        topic_ids: dict[str, str] | None = None,
    ) -> ResponseCheck:
        topics = []
        for name in names:
            topic, partition = tp(name)
            topic_id = (topic_ids or {}).get(topic, ZERO_UUID)
            responded = FetchResponsePartitionData(partition_index=partition)
            topics.append(
                FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=[responded])
            )
        response = FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=error,
            session_id=session_id,
            responses=topics,
        )
        return self.handler.handle_response(response, V17 if topic_ids else V12)

    @property
    def next(self) -> tuple[int, int]:
        return self.handler.next_metadata


def in_session(*, with_ids: bool = False) -> Client:
    """A client whose session 123 holds foo-0 and foo-1."""
    client = Client()
    ids = {"foo": A} if with_ids else None
    topic_id = A if with_ids else ZERO_UUID
    client.build(foo_0=data(0, 100, 200, topic_id), foo_1=data(10, 110, 210, topic_id))
    assert client.respond(123, "foo-0", "foo-1", topic_ids=ids).is_accepted
    return client


def names(partitions: Any) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in partitions]


def test_example_14_altered_partitions_are_sent_after_the_added_ones() -> None:
    client = Client()
    first = client.build(foo_0=FOO_0, foo_1=FOO_1)
    assert first.metadata == (0, 0)
    assert first.to_send == first.session_partitions == {tp("foo-0"): FOO_0, tp("foo-1"): FOO_1}
    assert client.respond(123, "foo-0", "foo-1").is_accepted
    assert client.next == (123, 1)
    second = client.build(foo_0=FOO_0, foo_1=FOO_1_MOVED, bar_0=BAR_0)
    assert list(second.to_send.items()) == [(tp("bar-0"), BAR_0), (tp("foo-1"), FOO_1_MOVED)]
    assert second.to_forget == []
    assert names(second.session_partitions) == ["foo-0", "foo-1", "bar-0"]


def test_example_15_a_wrong_epoch_causes_a_full_request() -> None:
    client = in_session()
    client.build(foo_0=FOO_0, foo_1=FOO_1_MOVED, bar_0=BAR_0)
    assert client.respond(123, "bar-0").is_accepted
    assert client.next == (123, 2)
    client.build(foo_0=FOO_0, foo_1=FOO_1_MOVED, bar_0=BAR_0)
    refused = client.respond(0, error=Error.INVALID_FETCH_SESSION_EPOCH)
    assert refused == (False, "INVALID_FETCH_SESSION_EPOCH")
    again = client.build(foo_0=FOO_0, foo_1=FOO_1_MOVED, bar_0=BAR_0)
    assert again.metadata == (123, 0)
    assert names(again.to_send) == ["foo-0", "foo-1", "bar-0"]
    assert again.to_forget == []


def test_example_16_unwanted_partitions_are_forgotten_and_a_lost_session_restarts() -> None:
    client = Client()
    client.build(foo_0=FOO_0, foo_1=FOO_1, bar_0=BAR_0)
    client.respond(123, "foo-0", "foo-1", "bar-0")
    fewer = client.build(foo_1=FOO_1)
    assert (fewer.metadata, fewer.to_send) == ((123, 1), {})
    assert fewer.to_forget == [
        TopicIdPartition(ZERO_UUID, "foo", 0),
        TopicIdPartition(ZERO_UUID, "bar", 0),
    ]
    assert not client.respond(0, error=Error.FETCH_SESSION_ID_NOT_FOUND).is_accepted
    assert client.build(foo_1=FOO_1).metadata == INITIAL


def test_example_17_a_recreated_topic_replaces_the_former_one() -> None:
    client = in_session(with_ids=True)
    again = client.build(foo_0=data(0, 100, 200, B), foo_1=data(10, 110, 210, B))
    assert again.metadata == (123, 1)
    assert again.to_replace == [TopicIdPartition(A, "foo", 0), TopicIdPartition(A, "foo", 1)]
    assert {sent.topic_id for sent in again.to_send.values()} == {B}
    assert client.handler.session_topic_names == {B: "foo"}
    body = again.request(V17)
    assert [(topic.topic_id, topic.partitions) for topic in body.forgotten_topics_data] == [
        (A, [0, 1])
    ]
    assert again.request(V12).forgotten_topics_data == []


def test_example_17_a_lost_id_alters_the_session_and_the_broker_rejects_it() -> None:
    client = in_session(with_ids=True)
    nameless = client.build(foo_0=FOO_0, foo_1=data(10, 110, 210, A))
    assert (nameless.to_replace, names(nameless.to_send)) == ([], ["foo-0"])
    assert nameless.version(V17) == V12
    assert client.handler.session_topic_names == {}
    assert not client.respond(0, error=Error.FETCH_SESSION_TOPIC_ID_ERROR).is_accepted
    assert client.next == (123, 0)


def test_example_18_a_full_response_has_exactly_the_session_partitions() -> None:
    client = Client()
    for responded in (["foo-0"], ["foo-0", "foo-1", "bar-9"], []):
        client.build(foo_0=FOO_0, foo_1=FOO_1)
        assert not client.respond(123, *responded).is_accepted
        assert client.handler.next_metadata == INITIAL


def test_example_18_an_incremental_response_may_omit_but_not_add() -> None:
    client = in_session()
    client.build(foo_0=FOO_0, foo_1=FOO_1)
    assert client.respond(123).is_accepted
    assert client.next == (123, 2)
    client.build(foo_0=FOO_0, foo_1=FOO_1)
    assert client.respond(123, "bar-9") == (False, "has extra bar-9")
    assert client.next == (123, 0)


def test_example_19_a_throttled_full_response_is_rejected() -> None:
    client = Client()
    client.build(foo_0=FOO_0)
    assert client.respond(0, throttle_ms=500) == (False, "throttled for 500 ms")
    assert client.handler.next_metadata == INITIAL


def test_a_throttled_incremental_response_advances_the_epoch() -> None:
    client = in_session()
    client.build(foo_0=FOO_0, foo_1=FOO_1)
    assert client.respond(123, throttle_ms=500).is_accepted
    assert client.next == (123, 2)


def test_a_response_with_an_unknown_topic_id_is_rejected() -> None:
    client = in_session(with_ids=True)
    client.build(foo_0=data(0, 100, 200, A), foo_1=data(10, 110, 210, A))
    stranger = client.respond(123, "foo-0", topic_ids={"foo": B})
    assert stranger == (False, f"has unknown topic ids {B}")
    assert client.next == (123, 0)


@pytest.mark.parametrize("error", [Error.INVALID_FETCH_SESSION_EPOCH, Error.UNKNOWN_TOPIC_ID])
def test_other_errors_close_the_session_and_open_another(error: Error) -> None:
    client = in_session()
    client.build(foo_0=FOO_0)
    client.respond(123, error=error)
    assert client.next == (123, 0)


def test_a_server_that_makes_no_session_gets_full_requests() -> None:
    client = Client()
    for _ in range(3):
        assert client.build(foo_0=FOO_0).metadata == INITIAL
        assert client.respond(0, "foo-0").is_accepted


def test_a_server_that_closes_the_session_gets_a_full_request() -> None:
    client = in_session()
    client.build()
    assert client.respond(0).is_accepted
    assert client.handler.next_metadata == INITIAL


def test_a_lost_response_closes_the_session() -> None:
    client = in_session()
    client.build(foo_0=FOO_0, foo_1=FOO_1)
    client.handler.handle_error()
    assert client.next == (123, 0)
    assert names(client.build(foo_0=FOO_0, foo_1=FOO_1).to_send) == ["foo-0", "foo-1"]


@pytest.mark.parametrize("field", ["current_leader_epoch", "last_fetched_epoch"])
def test_every_field_of_a_partition_is_compared(field: str) -> None:
    client = in_session()
    changed = client.build(foo_0=data(0, 100, 200, **{field: 7}), foo_1=FOO_1)
    assert names(changed.to_send) == ["foo-0"]


def test_a_partition_without_an_id_takes_the_whole_request_to_names() -> None:
    client = Client()
    mixed = client.build(foo_0=data(0, 100, 200, A), bar_0=BAR_0)
    assert not mixed.can_use_topic_ids
    assert mixed.version(V17) == V12
    topics = mixed.request(V12).topics
    assert [(topic.topic, topic.topic_id) for topic in topics] == [
        ("foo", ZERO_UUID),
        ("bar", ZERO_UUID),
    ]


def test_forgetting_a_partition_without_an_id_takes_the_request_to_names() -> None:
    client = in_session()
    assert client.build().version(V17) == V12
    with_ids = in_session(with_ids=True)
    gone = with_ids.build()
    assert gone.version(V17) == V17
    assert gone.request(V17).forgotten_topics_data[0].topic_id == A


def test_an_interrupted_topic_occurs_twice() -> None:
    sent = Client().build(foo_0=FOO_0, bar_0=BAR_0, foo_1=FOO_1, foo_2=FOO_1)
    topics = sent.request(V12).topics
    assert [(t.topic, [p.partition for p in t.partitions]) for t in topics] == [
        ("foo", [0]),
        ("bar", [0]),
        ("foo", [1, 2]),
    ]


def test_a_builder_gives_one_request() -> None:
    builder = FetchSessionHandler().builder()
    builder.build()
    with pytest.raises(RuntimeError, match="one request"):
        builder.build()


def test_example_4_the_epoch_wraps_to_1() -> None:
    assert FetchMetadata(9, EPOCH_MAX).next_incremental() == (9, 1)
