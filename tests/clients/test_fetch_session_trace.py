"""The seed's walk through a fetch session: the client's handler and the broker's cache together."""

from brokertwin.clients.fetch_session import INITIAL, PartitionData
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from tests.support.fetching import FetchClient, cache, session
from tests.support.machine import Bench, header

FOO_0, FOO_1 = TopicPartition("foo", 0), TopicPartition("foo", 1)


def bench_with(partitions: int = 2) -> tuple[Bench, str]:
    bench = Bench()
    return bench, bench.topic("foo", partitions)


def client_of(bench: Bench, topic_id: str) -> FetchClient:
    client = FetchClient(bench)
    client.wanted = {p: PartitionData(0, 0, 1 << 20, topic_id) for p in (FOO_0, FOO_1)}
    return client


def fill(bench: Bench, partition: int) -> None:
    bench.append("foo", header(size=100), partition=partition)


def test_the_nine_steps_of_the_seed() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)

    # 1 the client starts at INITIAL, epoch 0: a full request
    assert client.handler.next_metadata == INITIAL == (0, 0)
    body, version = client.next_request()
    assert (body["sessionId"], body["sessionEpoch"]) == (0, 0)
    # 2 the broker takes it as full: every partition is in the response
    response = bench.request("FETCH", version, body)
    assert [len(topic["partitions"]) for topic in response["responses"]] == [2]
    # 3 it has made a session with epoch 1 and caches it
    made = response["sessionId"]
    assert made > 0
    assert session(bench, made).epoch == 1
    assert session(bench, made).cached_size == 2
    # 4 the client keeps the id and epoch 1
    assert client.take(response, version).is_accepted
    assert client.handler.next_metadata == (made, 1)
    # 5 the next request is incremental, with (id, 1)
    body, version = client.next_request()
    assert (body["sessionId"], body["sessionEpoch"], body["topics"]) == (made, 1, [])
    # steps 6 to 7: the broker's epoch matches and is incremented
    response = bench.request("FETCH", version, body)
    assert session(bench, made).epoch == 2
    # 8 epoch of the request + 1 = 2 = the session's: no error
    assert (response["errorCode"], response["sessionId"]) == (Error.NONE, made)
    # # 9: the client's epoch becomes 2 with the same id
    assert client.take(response, version).is_accepted
    assert client.handler.next_metadata == (made, 2)


def test_step_8_overtaken_request_returns_invalid_fetch_session_epoch() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    client.exchange()
    made = client.handler.session_id
    waiting = bench.send("FETCH", 17, sessionId=made, sessionEpoch=1, maxWaitMs=500, minBytes=1)
    assert waiting not in bench.responses
    bench.request("FETCH", 17, sessionId=made, sessionEpoch=2)
    assert session(bench, made).epoch == 3
    bench.tick(500)
    late = bench.responses[waiting]["response"]
    assert (late["errorCode"], late["sessionId"]) == (Error.INVALID_FETCH_SESSION_EPOCH, made)
    assert late["responses"] == []


def test_the_walk_through_epochs_1_to_9() -> None:
    """Both sides count alike; a partition is shown when it has moved and not again."""
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    assert client.exchange().is_accepted
    made = client.handler.session_id
    for epoch in range(1, 10):
        assert client.handler.next_metadata == (made, epoch)
        assert session(bench, made).epoch == epoch
        if epoch % 3 == 0:
            fill(bench, 0)
        body, version = client.next_request()
        response = bench.request("FETCH", version, body)
        shown = [p["partitionIndex"] for t in response["responses"] for p in t["partitions"]]
        assert shown == ([0] if epoch % 3 == 0 else [])
        sent = [p["partition"] for t in body["topics"] for p in t["partitions"]]
        assert sent == ([0] if epoch in (4, 7) else [])
        assert client.take(response, version).is_accepted
    assert client.handler.next_metadata == (made, 10)
    assert client.wanted[FOO_0].fetch_offset == client.high_watermarks[FOO_0] == 3


def test_example_2_lost_response_leads_to_a_wrong_epoch_and_a_new_session() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    client.exchange()
    made = client.handler.session_id
    body, version = client.next_request()
    bench.request("FETCH", version, body)
    repeated = bench.request("FETCH", version, body)
    assert repeated["errorCode"] == Error.INVALID_FETCH_SESSION_EPOCH
    assert repeated["sessionId"] == 0
    assert session(bench, made).epoch == 2
    assert not client.take(repeated, version).is_accepted
    assert client.handler.next_metadata == (made, 0)
    assert client.exchange().is_accepted
    assert client.handler.session_id != made
    assert cache(bench).session(made) is None


def test_example_10_forgetting_everything_closes_the_session_on_both_sides() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    client.exchange()
    made = client.handler.session_id
    client.wanted = {}
    assert client.exchange().is_accepted
    assert client.handler.next_metadata == INITIAL
    assert cache(bench).session(made) is None


def test_example_17_recreated_topic_stays_in_the_same_session() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    client.exchange()
    made = client.handler.session_id
    bench.request("DELETE_TOPICS", 6, topicId=topic_id, timeoutMs=1000)
    anew = bench.topic("foo", 2)
    client.wanted = {p: PartitionData(0, 0, 1 << 20, anew) for p in (FOO_0, FOO_1)}
    assert client.exchange().is_accepted
    assert client.last is not None
    assert len(client.last.to_replace) == 2
    assert client.handler.next_metadata == (made, 2)
    kept = [cached.requested.topic_id for cached in cache(bench).partitions(made)]
    assert kept == [anew, anew]


def test_example_17_change_from_ids_to_names_needs_a_new_session() -> None:
    bench, topic_id = bench_with()
    client = client_of(bench, topic_id)
    client.exchange()
    made = client.handler.session_id
    client.wanted = {p: PartitionData(0, 0, 1 << 20) for p in (FOO_0, FOO_1)}
    assert client.exchange() == (False, "FETCH_SESSION_TOPIC_ID_ERROR")
    assert client.handler.next_metadata == (made, 0)
    assert client.exchange().is_accepted
    assert client.last is not None
    assert client.last.version(17) == 12
    assert not session(bench, client.handler.session_id).uses_topic_ids
